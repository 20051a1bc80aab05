"""Which code makes a number, beyond what versions vouch for: plug-ins, and a checkout with changes.

A method of gpbench is known by its version, which a committed change of its numbers raises. Two kinds of code change
without that, so that a hash of their source belongs to a cell's description: a plug-in's package, and files of this
checkout that are not committed.

The hash of a package is one of what it says, not of where it stands or what it is called: paths count from the
package's folder, its own name in its modules counts as a blank, and line ends count alike. Top-level modules that it
imports from beside it belong to it, unless another distribution brought them.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib import resources
from importlib.metadata import entry_points, packages_distributions
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench import __version__
from gpbench.config import checkout
from gpbench.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.machinery import ModuleSpec
    from importlib.resources.abc import Traversable

    from gpbench.bench.method import Method

__all__ = ["GROUPS", "changes", "code", "plugins", "source_of"]

#: The entry-point groups of third-party packages.
GROUPS = ("gpbench.methods", "gpbench.datasets", "gpbench.metrics")

#: The folders of gpbench whose files decide on a cell's numbers.
_NUMBERS = tuple(f"gpbench/{name}" for name in ("model", "optimize", "schemes", "data", "bench", "peers"))

#: Files of a package that run nothing and hold no numbers.
_SILENT = (".pyi", ".md", ".rst", ".typed")


def source_of(method: Method) -> str | None:
    """The hash of the package that a plug-in's scheme comes from; None for gpbench's own schemes.

    Raises
    ------
    PluginError
        Its source cannot be found or read.
    """
    scheme = method.load()
    if _top(scheme.__module__) == "gpbench":
        return None
    if scheme.__module__ == "__main__":  # a script or a notebook, whose cells come and go
        return _digest([("", _normal(_own_text(scheme, method), "__main__"))])
    try:
        return _package_hash(_root(scheme.__module__))
    except (ImportError, OSError, SyntaxError, ValueError) as error:
        raise PluginError(f"the source of method {method.id}, {scheme.__module__}, cannot be read: {error}") from error


@cache
def changes() -> str | None:
    """The hash of this checkout's changed files that decide on numbers; None without any, or without git."""
    root = checkout()
    found = (
        None if root is None else _git(root, "status", "--porcelain", "--no-renames", "-uall", "-z", "--", *_NUMBERS)
    )
    if not found or root is None:
        return None
    pieces = []
    for line in sorted(each for each in found.split("\0") if each):
        state, path = line[:2], line[3:]
        if state == "??" and not path.endswith(".py"):  # an editor's backup
            continue
        file = root / path
        pieces.append((path, file.read_bytes() if file.is_file() else b"\0gone"))
    return _digest(pieces) if pieces else None


@cache
def code() -> dict[str, Any]:
    """Version of gpbench; in a checkout with git also the commit, and whether the package differs from it."""
    root = checkout()
    commit = None if root is None else _git(root, "rev-parse", "HEAD")
    status = None if commit is None or root is None else _git(root, "status", "--porcelain", "--", "gpbench")
    return {
        "gpbench": __version__,
        "commit": None if commit is None else commit.strip(),
        "dirty": None if status is None else bool(status),
    }


@cache
def plugins() -> dict[str, str]:
    """Third-party packages that offer gpbench something: name of the distribution -> version."""
    found = (entry.dist for group in GROUPS for entry in entry_points(group=group))
    return dict(sorted({dist.name: dist.version for dist in found if dist is not None}.items()))


def _own_text(scheme: type, method: Method) -> bytes:
    file = getattr(sys.modules["__main__"], "__file__", None)
    try:
        return Path(file).read_bytes() if file is not None else inspect.getsource(scheme).encode()
    except (OSError, TypeError) as error:
        raise PluginError(f"the source of method {method.id}'s scheme {scheme.__qualname__} cannot be found") from error


def _top(module: str) -> str:
    return module.partition(".")[0]


def _root(module: str) -> str:
    """The outermost package of a module, or the module itself; namespaces, which several packages share, are none."""
    for name in accumulate(module.split("."), "{}.{}".format):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None and spec.has_location:
            return name
    raise ImportError(f"no file of module {module} is found")


@cache
def _package_hash(root: str) -> str:
    """The hash of a package or module, with the modules beside it that it imports."""
    pieces = {root: list(_pieces(root))}
    waiting = [root]
    while waiting:
        for name in _beside(pieces[waiting.pop()], root) - pieces.keys():
            pieces[name] = list(_pieces(name))
            waiting.append(name)
    first = [("", path, content) for path, content in pieces.pop(root)]
    others = [(f"{name}:", path, content) for name, own in sorted(pieces.items()) for path, content in own]
    return _digest([(f"{name}{path}", _normal(content, root)) for name, path, content in (*first, *others)])


def _pieces(name: str) -> Iterator[tuple[str, bytes]]:
    """(path within the package, content) of each file that may decide on a number."""
    spec = find_spec(name)
    assert spec is not None
    if spec.submodule_search_locations is None:
        assert spec.origin is not None
        suffix = Path(spec.origin).suffix
        read = getattr(spec.loader, "get_data", None)  # from an archive, too
        yield f"module{suffix}", Path(spec.origin).read_bytes() if read is None else read(spec.origin)
    else:
        yield from sorted(_files(resources.files(name), "", ()))


def _files(folder: Traversable, path: str, above: tuple[Path, ...]) -> Iterator[tuple[str, bytes]]:
    place = folder.resolve() if isinstance(folder, Path) else None
    if place in above:  # a link that leads back
        return
    for each in folder.iterdir():
        if each.name.startswith(".") or each.name == "__pycache__":
            continue
        if each.is_dir():
            yield from _files(each, f"{path}{each.name}/", above if place is None else (*above, place))
        elif each.is_file() and not each.name.endswith((*_SILENT, "~")):
            yield f"{path}{each.name}", each.read_bytes()


def _beside(pieces: list[tuple[str, bytes]], root: str) -> set[str]:
    """Top-level modules that some source imports, and that stand beside the root and belong to it."""
    named: set[str] = set()
    for path, content in pieces:
        if path.endswith(".py"):
            for node in ast.walk(ast.parse(content)):
                if isinstance(node, ast.Import):
                    named.update(_top(each.name) for each in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    named.add(_top(node.module))
    folder = _folder(find_spec(root))
    near = {
        name
        for name in named - {"gpbench", _top(root)} - sys.stdlib_module_names
        if folder is not None and _folder(find_spec(name)) == folder
    }
    if not near:
        return near
    owners = packages_distributions()
    own = set(owners.get(_top(root), ()))
    return {name for name in near if name not in owners or not own.isdisjoint(owners[name])}


def _folder(spec: ModuleSpec | None) -> Path | None:
    """The folder in which a top-level module or package stands."""
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    file = Path(spec.origin)
    return file.parent if spec.submodule_search_locations is None else file.parent.parent


def _normal(content: bytes, name: str) -> bytes:
    """A source without what it is called and how its lines end; other files as they are."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return content
    return re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", "\0", text.replace("\r\n", "\n")).encode()


def _digest(pieces: list[tuple[str, bytes]]) -> str:
    """Twenty hexadecimal digits."""
    found = hashlib.sha256()
    for path, content in pieces:
        found.update(f"{path}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()[:20]


def _git(root: Path, *arguments: str) -> str | None:
    """What git says; None where there is no git, or the folder is no repository of its own."""
    program = shutil.which("git")
    if program is None or not (root / ".git").exists():
        return None
    command = [program, "-C", str(root), "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(  # noqa: S603  # no shell, fixed words
            command, capture_output=True, text=True, errors="surrogateescape", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
