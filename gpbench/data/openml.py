"""Any data set of OpenML, as ``openml:ID``: the openml package finds, gpbench downloads, keeps and parses.

The package is held at arm's length, for what it does to its own cache: it pickles parsed data, and it deletes what it
has of a data set when a request fails. It also waits for ever on a silent server. So it works in a temporary folder,
asks through :mod:`gpbench.data.web`, and brings the description alone; the data come as all other files do, and both
stand in ``openml/ID/`` among our own files. Those, or a mirror's, are all that later calls look at.
"""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.data.catalogue import File
from gpbench.data.download import Patience, unwritable, why
from gpbench.data.fetch import Attempts, Copy, Places, copies, held
from gpbench.data.recipe import Recipe
from gpbench.data.web import BrokenError
from gpbench.errors import DataError, UsageError
from gpbench.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import ModuleType

    import requests

    from gpbench.data.formats import Frames

__all__ = ["SERVER", "Downloaded", "files_of", "offers", "openml_id", "recipe_of"]

SERVER = "https://www.openml.org/api/v1/xml"
"""Where OpenML's API is."""

_DESCRIPTION = "description.xml"
_DATA = {"dataset.arff": "arff", "dataset.parquet": "parquet"}
_WORDS = 1 << 22  # bytes of an answer of the API


@dataclass(frozen=True)
class Downloaded:
    """A data set of OpenML that is here.

    Attributes
    ----------
    id : int
        OpenML's number.
    description : dict
        OpenML's description: name, default_target_attribute, ignore_attribute, row_id_attribute, licence, ...
    path : Path
        The data.
    format : str
        arff or parquet.
    copies : tuple of Copy
        Its files, for whoever says whether they are right.
    """

    id: int
    description: dict[str, Any]
    path: Path
    format: str
    copies: tuple[Copy, ...] = field(default=(), repr=False)

    def frames(self) -> Frames:
        """Blocks of rows, parsed by gpbench."""
        from gpbench.data.formats import read_table  # noqa: PLC0415  # pandas: a second that failures need not pay

        return read_table(self.path, format=self.format)

    def said(self, key: str) -> list[str]:
        """Values of a key of the description that may hold none, one, or several."""
        value = self.description.get(f"oml:{key}")
        values = value if isinstance(value, list) else [value] if value else []
        return [name.strip() for text in values for name in str(text).split(",") if name.strip()]


def openml_id(name: str) -> int:
    """The number in ``openml:1464``.

    Raises
    ------
    UsageError
        There is none.
    """
    text = name.removeprefix("openml:")
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise UsageError(f"data set {name}: expected openml: and a number, as in openml:1464; got {text!r}")
    return int(text)


def files_of(number: int) -> list[tuple[File, File]]:
    """Description and data, for each form that the data may have here or in a mirror."""
    description = File(f"openml/{number}/{_DESCRIPTION}")
    return [(description, File(f"openml/{number}/{name}")) for name in _DATA]


def offers(number: int, places: Places, attempts: Attempts) -> Generator[Downloaded]:
    """A data set of OpenML from the data folder, the mirror, or the server; as :func:`gpbench.data.fetch.offers`.

    Parameters
    ----------
    number : int
        OpenML's number.
    places, attempts
        As there.

    Raises
    ------
    DataError
        The data folder cannot be written.
    """
    for pair in files_of(number):
        for found in copies(pair, places, attempts, source=False):
            description, data = (found[one.path] for one in pair)
            described = _described(description, attempts)
            if described is not None:
                yield Downloaded(number, described, data.path, _DATA[data.file.name], (description, data))
    if not places.offline:
        yield from _from_server(number, places, attempts)


def recipe_of(found: Downloaded) -> Recipe:
    """Preparation by the description: its target, without identifiers and what it says to ignore.

    Raises
    ------
    DataError
        The description names no target.
    """
    target = found.said("default_target_attribute")
    if not target:
        raise DataError(f"openml:{found.id} names no target; download it and use the file with --target")
    drop = tuple(dict.fromkeys(found.said("ignore_attribute") + found.said("row_id_attribute")))
    return Recipe(task="auto", target=target[0] if len(target) == 1 else tuple(target), drop=drop, categorical="auto")


def _described(copy: Copy, attempts: Attempts) -> dict[str, Any] | None:
    """What a description says; None where it is none, which is noted."""
    import xmltodict  # type: ignore[import-untyped]  # noqa: PLC0415  # the reader of the openml package

    try:
        return dict(xmltodict.parse(copy.path.read_bytes())["oml:data_set_description"])
    except Exception as error:  # expat's errors, unknown keys, bad bytes: all mean a damaged file
        wrong = DataError(f"{copy.path}: no OpenML description ({type(error).__name__}: {str(error)[:200]})")
        if not attempts.refuse([copy], wrong):
            raise wrong from error
        return None


def _from_server(number: int, places: Places, attempts: Attempts) -> Iterator[Downloaded]:
    if not attempts.answers(SERVER, seconds=places.patience.probe):
        return
    arff, parquet = files_of(number)
    with held([*arff, parquet[1]], places, asking=True), ExitStack() as ending:
        copy = _description(number, arff[0], places, attempts)
        if copy is not None:
            ending.callback(attempts.forget, copy)  # unless it was accepted: it is asked for anew each time
        described = None if copy is None else _described(copy, attempts)
        if copy is None or described is None:
            return
        # Parquet comes from a second server; when that fails, the first still has ARFF.
        for file, key, md5 in ((parquet[1], "parquet_url", None), (arff[1], "url", described.get("oml:md5_checksum"))):
            url = described.get(f"oml:{key}")
            data = attempts.download(file, str(url), places, md5=md5) if url else None
            if data is not None:
                yield Downloaded(number, described, data.path, _DATA[file.name], (copy, data))


def _description(number: int, file: File, places: Places, attempts: Attempts) -> Copy | None:
    """The description, on trial; None where the server does not give it, which is noted."""
    place = f"{SERVER}/data/{number}"
    try:
        import openml  # noqa: PLC0415  # slow to import; makes folders in the user's home
    except OSError as error:
        attempts.add("the openml package", why(error))
        return None
    with tempfile.TemporaryDirectory(prefix="gpbench-openml-") as cache:
        try:
            with _guarded(openml, Path(cache), places.patience):
                openml.datasets.get_dataset(
                    number, download_data=False, download_qualities=False, download_features_meta_data=False
                )
            content = next(Path(cache).rglob(_DESCRIPTION)).read_bytes()
        except Exception as failed:  # noqa: BLE001  # the package raises some twenty unrelated types
            attempts.add(place, f"{type(failed).__name__}: {printable(str(failed))[:300]}")
            return None
    trial = places.trial(file)
    try:
        trial.parent.mkdir(parents=True, exist_ok=True)
        trial.write_bytes(content)
    except OSError as error:
        raise DataError(unwritable(trial.parent, error)) from error
    return Copy(file, trial, place, counts=False)


@contextmanager
def _guarded(openml: ModuleType, cache: Path, patience: Patience) -> Iterator[None]:
    """Let the package work in a folder of its own, within our limits, with few repetitions and no log messages."""
    calls, config = openml._api_calls, openml.config  # noqa: SLF001  # where its requests are made
    before = calls.requests, config.server, config.connection_n_retries
    root = config._root_cache_directory  # noqa: SLF001
    level = logging.root.manager.disable
    try:
        calls.requests = _Limited(calls.requests, patience)
        config.server = SERVER
        config.set_root_cache_directory(cache)
        config.connection_n_retries = min(2, patience.attempts)
        logging.disable(logging.ERROR)
        yield
    finally:
        logging.disable(level)
        calls.requests, config.server, config.connection_n_retries = before
        config.set_root_cache_directory(root)


class _Limited:
    """The requests module, with sessions that ask within limits of time and size."""

    def __init__(self, module: ModuleType, patience: Patience) -> None:
        import requests  # noqa: PLC0415  # a tenth of a second, and seldom needed

        self._module = module

        class Session(requests.Session):
            def request(self, method: Any, url: Any, *_: Any, params: Any = None, **__: Any) -> Any:
                address = str(requests.Request(method, url, params=params).prepare().url)
                try:
                    return _bounded(address, patience)
                except BrokenError as error:  # the package asks again after its own errors alone
                    raise requests.ConnectionError(f"{address}: {error}") from error

        self.Session = Session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _bounded(url: str, patience: Patience) -> requests.Response:
    """A small answer, whole."""
    import requests  # noqa: PLC0415  # as above

    from gpbench.data.request import request  # noqa: PLC0415

    made = requests.Response()
    content = b""
    with request(url, patience=patience) as answer:
        for block in answer.blocks():
            content += block
            if len(content) > _WORDS:
                raise DataError(f"{url}: expected at most {_WORDS:,} bytes; got more")
        made.status_code, made.url = answer.status, url
        made.headers.update(answer.headers)
    made._content = content  # noqa: SLF001  # it has no other place for a body that is here
    return made
