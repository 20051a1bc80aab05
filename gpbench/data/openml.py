"""Any data set of OpenML, as ``openml:ID``: the openml package finds and downloads, gpbench keeps and parses.

The package is held at arm's length, for what it does to its own cache: it pickles parsed data, and it deletes what it
has of a data set when a request fails. So it works in a temporary folder, never parses, and what it brings is moved to
``openml/ID/`` among our own files. Those, or a mirror's, are all that later calls look at; without network nothing is
lost. It also waits for ever on a silent server; here its requests get time limits.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.data.catalogue import File
from gpbench.data.download import Patience, sha256_of, why
from gpbench.data.fetch import Attempts, Places, gather
from gpbench.data.recipe import Recipe
from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from gpbench.data.formats import Frames

__all__ = ["SERVER", "Downloaded", "files_of", "find", "openml_id", "recipe_of"]

SERVER = "https://www.openml.org/api/v1/xml"
"""Where OpenML's API is."""

_DESCRIPTION = "description.xml"
_DATA = {"dataset.arff": "arff", "dataset.parquet": "parquet"}


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
    """

    id: int
    description: dict[str, Any]
    path: Path
    format: str

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
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"data set {name}: expected openml: and a number, as in openml:1464; got {text!r}")
    return int(text)


def files_of(number: int) -> list[tuple[File, File]]:
    """Description and data, for each form that the data may have here or in a mirror."""
    description = File(f"openml/{number}/{_DESCRIPTION}")
    return [(description, File(f"openml/{number}/{name}")) for name in _DATA]


def find(number: int, places: Places, attempts: Attempts) -> Downloaded | None:
    """A data set of OpenML from the data folder, the mirror, or the server.

    Parameters
    ----------
    number : int
        OpenML's number.
    places, attempts
        As for :func:`gpbench.data.fetch.obtain`.

    Raises
    ------
    DataError
        The description that is here cannot be read.
    """
    for pair in files_of(number):
        if (found := gather(pair, places, attempts, source=False)) is not None:
            return _opened(number, *(found[one.path] for one in pair))
    if places.offline:
        return None
    return _from_server(number, places, attempts)


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


def _opened(number: int, description: Path, data: Path) -> Downloaded:
    import xmltodict  # type: ignore[import-untyped]  # noqa: PLC0415  # the reader of the openml package

    try:
        parsed = xmltodict.parse(description.read_bytes())["oml:data_set_description"]
    except Exception as error:  # expat's errors, unknown keys, bad bytes: all mean a damaged file
        raise DataError(f"{description}: no OpenML description ({type(error).__name__}: {error})") from error
    return Downloaded(number, dict(parsed), data, _DATA[data.name])


def _from_server(number: int, places: Places, attempts: Attempts) -> Downloaded | None:
    if not attempts.answers(SERVER, seconds=places.patience.probe):
        return None
    try:
        import openml  # noqa: PLC0415  # slow to import; makes folders in the user's home
    except OSError as error:
        attempts.add("the openml package", why(error))
        return None
    with tempfile.TemporaryDirectory(prefix="gpbench-openml-") as cache:
        said = ""
        for arff_only in (False, True):  # parquet comes from a second server; when that fails the first still has ARFF
            try:
                with _guarded(openml, Path(cache), places.patience, arff_only=arff_only):
                    made = openml.datasets.get_dataset(number, download_data=True, cache_format="feather")
                return _kept(number, made, Path(cache), places)
            except Exception as failed:  # noqa: BLE001  # the package raises some twenty unrelated types
                said = f"{type(failed).__name__}: {' '.join(str(failed).split())[:300]}"
        attempts.add(f"{SERVER}/data/{number}", said)
    return None


def _kept(number: int, made: Any, cache: Path, places: Places) -> Downloaded:
    """Move what the package brought to our files; the description comes last, so that half a data set is none."""
    pairs = {"arff": files_of(number)[0], "parquet": files_of(number)[1]}
    description, data = pairs["parquet" if made.parquet_file else "arff"]
    brought = {data: Path(made.parquet_file or made.data_file), description: next(cache.rglob(_DESCRIPTION))}
    for file, source in brought.items():
        target = places.local(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        shutil.copyfile(source, part)
        digest = sha256_of(part)
        target.with_name(target.name + ".sha256").write_text(f"{digest}  {target.name}\n", encoding="utf-8")
        part.replace(target)
    return _opened(number, places.local(description), places.local(data))


@contextlib.contextmanager
def _guarded(openml: ModuleType, cache: Path, patience: Patience, *, arff_only: bool) -> Iterator[None]:
    """Let the package work in a folder of its own, with time limits, few repetitions and no log messages."""
    calls, config = openml._api_calls, openml.config  # noqa: SLF001  # the only place that knows the time limits
    before = calls.requests, calls.minio, config.server, config.connection_n_retries
    root = config._root_cache_directory  # noqa: SLF001
    variable = "OPENML_SKIP_PARQUET"
    skipped = os.environ.get(variable)
    level = logging.root.manager.disable
    try:
        calls.requests, calls.minio = _Limited(calls.requests, patience), _LimitedMinio(calls.minio, patience)
        config.server = SERVER
        config.set_root_cache_directory(cache)
        config.connection_n_retries = min(2, patience.attempts)
        if arff_only:
            os.environ[variable] = "true"
        logging.disable(logging.ERROR)
        yield
    finally:
        logging.disable(level)
        if arff_only:
            os.environ.pop(variable)
            if skipped is not None:
                os.environ[variable] = skipped
        calls.requests, calls.minio, config.server, config.connection_n_retries = before
        config.set_root_cache_directory(root)


class _Limited:
    """The requests module, with sessions that do not wait for ever."""

    def __init__(self, module: ModuleType, patience: Patience) -> None:
        self._module = module

        class Session(module.Session):  # type: ignore[name-defined, misc]
            def request(self, *args: Any, **options: Any) -> Any:
                options.setdefault("timeout", (patience.connect, patience.read))
                return super().request(*args, **options)

        self.Session = Session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _LimitedMinio:
    """The minio module, with a client that does not wait for ever."""

    def __init__(self, module: ModuleType, patience: Patience) -> None:
        self._module = module
        self._patience = patience

    def Minio(self, *args: Any, **options: Any) -> Any:
        """The client."""
        import urllib3  # noqa: PLC0415

        if options.get("http_client") is None:
            limits = urllib3.Timeout(connect=self._patience.connect, read=self._patience.read)
            options["http_client"] = urllib3.PoolManager(timeout=limits, retries=urllib3.Retry(1, backoff_factor=0.1))
        return self._module.Minio(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
