"""Build wheel and sdist, look at what they hold, and use the wheel as somebody would who has no checkout.

Usage: ``python tests/distribution.py``, with the environment of ``make``: nothing is downloaded. The wheel is installed
into an environment of its own, which sees the packages of this one but not its gpbench, and runs in an empty folder.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = {  # folder of the checkout -> where it stands in the package
    "datasets/catalogue": "gpbench/_data/catalogue",
    "datasets/embedded": "gpbench/_data/embedded",
    "datasets/truth": "gpbench/_data/truth",
    "results/published": "gpbench/_data/published",
    "results/reference": "gpbench/_data/reference",
}
METHODS = ("linear", "x-gpc")
LINK = re.compile(r"\]\(([^)#]+)\)")


def run(*command, cwd, env=None):
    """Standard output of a command that must end well."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"expected exit code 0 of {' '.join(map(str, command))}; got {done.returncode}\n{done.stderr}")
    return done.stdout


def files_below(folder):
    """Files of a folder, relative to the checkout, without what Python leaves there."""
    files = (path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(ROOT).as_posix() for path in files}


def check_wheel(names):
    """What a wheel must hold, and what it must not."""
    top = {name.partition("/")[0] for name in names}
    others = {name for name in top if name != "gpbench" and not re.fullmatch(r"gpbench-[\w.]+\.dist-info", name)}
    assert not others, f"expected gpbench alone at top level; got {sorted(others)} beside it"
    expected = files_below("gpbench") | {
        inside + name.removeprefix(folder) for folder, inside in SHIPPED.items() for name in files_below(folder)
    }
    missing = expected - set(names)
    assert not missing, f"the wheel lacks {sorted(missing)}"
    more = {name for name in names if name.startswith("gpbench/") and not name.startswith("gpbench/_data/")} - expected
    assert not more, f"the wheel holds {sorted(more)}, which the package does not"


def check_sdist(names):
    """What an sdist must hold: all that the wheel is made of, the tests, and what its README links to."""
    linked = {link for link in LINK.findall((ROOT / "README.md").read_text("utf-8")) if "://" not in link}
    assert linked, "README.md links to files"
    expected = linked | {"pyproject.toml", "LICENSE", "CHANGELOG.md", "README.md"}
    for folder in ("gpbench", "tests", *SHIPPED):
        expected |= files_below(folder)
    missing = expected - set(names)
    assert not missing, f"the sdist lacks {sorted(missing)}"


def environment(folder):
    """An environment that sees this one's packages: its Python. A path file is not read for path files of its own, so
    that the editable gpbench of this environment is not seen."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=ROOT)
    python = next(path for path in (folder / "bin" / "python", folder / "Scripts" / "python.exe") if path.exists())
    where = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    packages = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    (Path(where) / "dependencies.pth").write_text("\n".join(packages) + "\n", encoding="utf-8")
    return python


def check_use(python, folder):
    """List, run and report in an empty folder."""
    hidden = {"PYTHONPATH", "GPBENCH_DATA", "GPBENCH_RESULTS", "GPBENCH_MIRROR"}
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env |= {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "home" / "cache")}
    here = folder / "empty"
    here.mkdir()
    command = python.with_name("gpbench" + python.suffix)
    where = Path(run(python, "-c", "import gpbench; print(gpbench.__file__)", cwd=here, env=env).strip())
    assert not where.is_relative_to(ROOT), f"expected the installed package; got {where}"

    found = {
        kind: json.loads(run(command, "list", kind, "--json", cwd=here, env=env)) for kind in ("methods", "datasets")
    }
    ours = {each["id"] for each in found["methods"]["methods"]}
    assert ours >= set(METHODS), f"expected the methods {METHODS} among {sorted(ours)}"
    catalogued = set()
    for file in (ROOT / "datasets" / "catalogue").glob("*.toml"):
        catalogued |= set(tomllib.loads(file.read_text("utf-8")).get("datasets", {}))
    listed = {each["id"] for each in found["datasets"]["datasets"]}
    assert listed >= catalogued, f"the data sets {sorted(catalogued - listed)} are not listed"
    plans = run(command, "list", "plans", cwd=here, env=env)
    for plan in sorted((ROOT / "gpbench" / "papers").glob("*/*.toml")):
        name = f"{plan.parent.name}/{plan.stem}"
        assert name in plans, f"the plan {name} is not listed"

    options = [word for method in METHODS for word in ("--method", method)]
    options += ["--dataset", "breast-cancer-wisconsin", "--folds", "2", "--max-iterations", "30", "--json"]
    cells = json.loads(run(command, "run", *options, cwd=here, env=env))["cells"]
    ended = [(cell["method"], cell["status"]) for cell in cells]
    assert sorted(ended) == sorted((method, "ok") for method in METHODS for _ in range(2)), f"cells ended as {ended}"
    assert (here / "results" / "runs").is_dir(), "expected the store in ./results"
    known = json.loads(run(command, "truth", "--json", cwd=here, env=env))["references"]
    assert len(known) == len(files_below("datasets/truth")), (
        "the wheel's reference posteriors are those of the checkout"
    )
    table = run(command, "report", "--format", "markdown", cwd=here, env=env)
    assert all(method in table for method in METHODS), table


def main():
    with tempfile.TemporaryDirectory(prefix="gpbench-wheel-") as name:
        folder = Path(name)
        run(sys.executable, "-m", "hatchling", "build", "-d", folder, "-t", "sdist", "-t", "wheel", cwd=ROOT)
        (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        with zipfile.ZipFile(wheel) as archive:
            in_wheel = archive.namelist()
        with tarfile.open(sdist) as archive:
            in_sdist = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
        check_wheel(in_wheel)
        check_sdist(in_sdist)
        quiet = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")
        again = folder / "again"
        run(sys.executable, "-m", "pip", "wheel", *quiet, "--no-build-isolation", "-w", again, sdist, cwd=folder)
        with zipfile.ZipFile(again / wheel.name) as archive:
            differ = set(in_wheel) ^ set(archive.namelist())
        assert not differ, f"the wheel of the sdist is another: {sorted(differ)}"
        print(f"{wheel.name}: {len(in_wheel)} files, {wheel.stat().st_size / 1e6:.1f} MB")
        print(f"{sdist.name}: {len(in_sdist)} files, {sdist.stat().st_size / 1e6:.1f} MB")

        python = environment(folder / "venv")
        run(sys.executable, "-m", "pip", "--python", python, "install", *quiet, wheel, cwd=folder)
        check_use(python, folder)
        print("installed, it lists, runs and reports in an empty folder")


if __name__ == "__main__":
    main()
