"""Imports point one way, and only the command line prints: read from the source, nothing is imported for it.

Every import counts, inside functions and for types too. What still stands against a rule is listed with its reason and
is to be emptied: an exception that is no longer needed fails, as a new one does.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "gpbench"

#: Package -> the packages that it may import, beside itself and the plain modules of the root.
MAY_IMPORT = {
    "model": set(),
    "optimize": {"model"},
    "schemes": {"model", "optimize"},
    "data": set(),
    "peers": {"schemes", "model", "optimize"},
    "bench": {"schemes", "model", "optimize", "data"},
    "report": {"bench", "data"},
    "cli": {"report", "bench", "peers", "data"},
}
#: (module, imported) -> why it stands against that.
EXCEPTIONS: dict[tuple[str, str], str] = {}
#: Where only arrays are known.
NUMERIC = ("model", "optimize", "schemes")
#: Of the root, what these may import.
NUMERIC_ROOT = {"errors"}
#: Of the standard library, what these may import: no files, clocks, printing or environment.
NUMERIC_STANDARD = {
    "__future__", "abc", "collections", "contextlib", "dataclasses", "enum", "functools", "itertools", "math",
    "operator", "types", "typing", "warnings",
}  # fmt: skip
NUMERIC_LIBRARIES = {"numpy", "scipy"}

_SAVED = "a posterior is saved and loaded"
#: (module, imported) -> why it stands.
NUMERIC_EXCEPTIONS = {
    ("gpbench.schemes.gibbs", "polyagamma"): "the sampler of Polya-Gamma variables",
    ("gpbench.schemes.tuning", "sklearn"): "logistic regression is scikit-learn's",
    ("gpbench.schemes.hgb", "sklearn"): "boosting is scikit-learn's",
    ("gpbench.model.classes", "pathlib"): _SAVED,
    ("gpbench.model.posterior", "pathlib"): _SAVED,
    ("gpbench.model.posterior", "importlib"): "a kind of posterior is imported when one is loaded",
    ("gpbench.model.sampled", "pathlib"): _SAVED,
    ("gpbench.model.posterior", "zipfile"): _SAVED,
    ("gpbench.model.posterior", "json"): _SAVED,
}

#: Modules of schemes that every family may import.
SHARED = {"base", "settings", "tuning"}
#: (family, imported) -> why it stands; * for every family.
FAMILY_EXCEPTIONS: dict[tuple[str, str], str] = {}

#: Of data, what only declares; the rest opens files or asks the network.
DECLARING = {"catalogue", "entries", "generators", "splits"}
#: Of bench, what opens data or runs something.
RUNNING = {
    "dask_cluster",
    "derived.steps",
    "division",
    "execution",
    "expand",
    "plan.run",
    "runner",
    "sources",
    "sweep",
    "truth.make",
    "worker",
    "workers",
}
#: Module -> what it writes to standard output or standard error, and why it may.
PRINTING_EXCEPTIONS = {
    "gpbench.terminal": "the one line that says how far something is; cli hands it to bench and data",
    "gpbench.plugins": "what a plug-in prints while it is imported goes to standard error",
    "gpbench.peers.environments": "what pip says goes to standard error",
    "gpbench.bench.worker": "what a scheme prints goes to standard error",
    "gpbench.peers.children.harness": "what a rival's library prints is kept off the pipe",
}


def _name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}


def _imported(node):
    """Full names that a node imports; modules where it imports from a package."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        full = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in SOURCES else node.module for name in full]
    return []


IMPORTS = {name: {each for node in ast.walk(tree) for each in _imported(node)} for name, tree in SOURCES.items()}


def _part(name, level=1):
    """The package below gpbench, or deeper: ``schemes`` of ``gpbench.schemes.ep.full``; empty where there is none."""
    parts = name.split(".")
    return parts[level] if len(parts) > level else ""


def _inside(package):
    return {name: found for name, found in IMPORTS.items() if _part(name) == package}


def _own(package):
    """(module, imported module of gpbench)."""
    return [
        (name, each) for name, found in _inside(package).items() for each in found if each.split(".")[0] == "gpbench"
    ]


def _settle(found, exceptions, what):
    """See that what was found against a rule is what is known to stand."""
    found, known = set(found), set(exceptions)
    assert not found - known, f"{what}: {sorted(found - known)}"
    assert not known - found, f"no longer so, to be taken from the list of exceptions: {sorted(known - found)}"


PACKAGES = {_part(name) for name in SOURCES if _part(name, 2)}
#: Modules of the root that stand above everything, as the door itself does.
DOORS = {"estimators"}
#: Plain modules of the root, which everything above the numerics may import.
PLAIN = {_part(name) for name in SOURCES if _part(name)} - PACKAGES - DOORS


def test_every_package_has_its_place():
    assert set(MAY_IMPORT) == PACKAGES


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_point_one_way(package):
    allowed = MAY_IMPORT[package] | {package, ""} | (NUMERIC_ROOT if package in NUMERIC else PLAIN)
    exceptions = [pair for pair in EXCEPTIONS if _part(pair[0]) == package]
    _settle([pair for pair in _own(package) if _part(pair[1]) not in allowed], exceptions, f"{package} imports")


def test_plain_modules_of_the_root_import_one_another_alone():
    found = [(name, each) for name in PLAIN for each in IMPORTS[f"gpbench.{name}"] if each.startswith("gpbench")]
    assert [pair for pair in found if _part(pair[1]) not in PLAIN | {""}] == []


def test_the_numerics_know_arrays_alone():
    known = NUMERIC_STANDARD | NUMERIC_LIBRARIES | {"gpbench"}
    found = [
        (name, each.split(".")[0])
        for package in NUMERIC
        for name, imported in _inside(package).items()
        for each in imported
        if each.split(".")[0] not in known
    ]
    _settle(found, NUMERIC_EXCEPTIONS, "model, optimize and schemes import numpy and scipy alone")


def test_the_numerics_have_no_global_state():
    found = [
        name
        for package in NUMERIC
        for name in _inside(package)
        if any(isinstance(node, ast.Global) for node in ast.walk(SOURCES[name]))
    ]
    assert found == []


def test_no_family_of_schemes_imports_another():
    found = set()
    for name, each in _own("schemes"):
        own, other = _part(name, 2), _part(each, 2)
        if _part(each) == "schemes" and other and other not in {own} | SHARED and (own not in SHARED):
            found.add(("*" if ("*", other) in FAMILY_EXCEPTIONS else own, other))
    _settle(found, FAMILY_EXCEPTIONS, "a family imports another")


def test_what_families_share_imports_no_family():
    found = [
        pair for pair in _own("schemes") if _part(pair[0], 2) in SHARED and _part(pair[1]) == "schemes"
        and _part(pair[1], 2) not in SHARED | {""}
    ]  # fmt: skip
    assert found == []


def test_reports_only_read():
    """They import nothing that opens data and nothing that runs; nor schemes and models, see above."""
    found = [
        (name, each)
        for name, each in _own("report")
        if (_part(each) == "data" and _part(each, 2) not in DECLARING) or each.removeprefix("gpbench.bench.") in RUNNING
    ]
    assert found == []


def test_the_rooms_of_reports_import_in_no_circle():
    edges = {
        (_part(name, 2), _part(each, 2))
        for name, each in _own("report")
        if _part(each) == "report" and _part(name, 3) and _part(each, 3) and _part(name, 2) != _part(each, 2)
    }
    rooms = {room for edge in edges for room in edge}
    while rooms:
        ends = {room for room in rooms if not any(a == room and b in rooms for a, b in edges)}
        assert ends, f"imports run in a circle among {sorted(rooms)}: {sorted(edges)}"
        rooms -= ends


def test_only_the_command_line_prints():
    def prints(node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id == "print"
        return isinstance(node, ast.Attribute) and node.attr in {"stdout", "stderr"} and (
            isinstance(node.value, ast.Name) and node.value.id == "sys"
        )  # fmt: skip

    found = [
        name
        for name, tree in SOURCES.items()
        if _part(name) != "cli" and ("click" in IMPORTS[name] or any(prints(node) for node in ast.walk(tree)))
    ]
    _settle(found, PRINTING_EXCEPTIONS, "printed outside of cli")
