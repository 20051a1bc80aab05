"""Addresses of files that a DOI names (``doi:10.7910/DVN/HG7NV7/2008.csv.bz2``), through pooch."""

from __future__ import annotations

from types import SimpleNamespace

from gpbench.data.download import DownloadError, Patience

__all__ = ["resolve"]


def resolve(url: str, *, patience: Patience) -> tuple[str, str | None]:
    """Find where the repository behind a DOI offers a file.

    Parameters
    ----------
    url : str
        ``doi:PREFIX/SUFFIX/FILE``.
    patience : Patience
        Bounds each of the two or three requests that this takes.

    Returns
    -------
    (address, md5 or None)
        The checksum that the repository states, where it does.

    Raises
    ------
    DownloadError
        The DOI or the file is unknown, or the repository does not answer.
    """
    import requests  # noqa: PLC0415  # as in download
    from pooch.downloaders import doi_to_repository  # noqa: PLC0415  # slow to import
    from pooch.utils import parse_url  # noqa: PLC0415

    parsed = parse_url(url)
    name = parsed["path"].lstrip("/")
    try:
        repository = doi_to_repository(parsed["netloc"], timeout=(patience.connect, patience.read))
        listed = SimpleNamespace(registry={})
        repository.populate_registry(listed)
        if name in listed.registry:
            algorithm, _, digest = str(listed.registry[name]).rpartition(":")
            return str(repository.download_url(name)), digest if algorithm == "md5" else None
        # Dataverse turns an uploaded csv file into a table NAME.tab, and gives back the original on request.
        table = name.rpartition(".")[0] + ".tab"
        if table in listed.registry:
            return str(repository.download_url(table)) + "?format=original", None
    except requests.RequestException as error:
        raise DownloadError(f"{url}: the repository does not answer: {type(error).__name__}") from error
    except (ValueError, KeyError) as error:
        raise DownloadError(f"{url}: {error}") from error
    raise DownloadError(f"{url}: the repository has no file {name}; it has {', '.join(sorted(listed.registry)[:8])}")
