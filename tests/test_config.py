from pathlib import Path

import platformdirs
import pytest

import gpbench
from gpbench.bench.truth.reference import folder as truth_folder
from gpbench.config import checkout, load_config, shipped
from gpbench.errors import UsageError
from gpbench.report.plan.published import published_folder


def load(folder, environ=None, **flags):
    return load_config(flags, environ=environ or {}, folder=folder)


def test_defaults_elsewhere_than_in_a_checkout(tmp_path):
    config = load(tmp_path)
    assert config.data == Path(platformdirs.user_cache_dir("gpbench", appauthor=False))
    assert (config.results, config.store, config.mirror) == (tmp_path / "results", tmp_path / "results" / "runs", None)
    assert set(config.origins.values()) == {"default"}


def test_defaults_in_a_checkout():
    root = checkout()
    if root is None:
        pytest.skip("gpbench does not run from a checkout")
    config = load(root)
    assert (config.data, config.results) == (root / "datasets" / "cache", root / "results")
    assert load(root / "tests").data != config.data


def test_what_ships_is_found_in_a_checkout_and_in_a_wheel(tmp_path, monkeypatch):
    (tmp_path / "gpbench").mkdir()
    monkeypatch.setattr(gpbench, "__file__", str(tmp_path / "gpbench" / "__init__.py"))
    assert shipped("published") == tmp_path / "results" / "published"
    assert shipped("truth", parent="datasets") == tmp_path / "datasets" / "truth"
    (tmp_path / "gpbench" / "_data" / "truth").mkdir(parents=True)
    assert shipped("truth", parent="datasets") == tmp_path / "gpbench" / "_data" / "truth"


def test_one_place_says_where_what_ships_stands():
    package = Path(gpbench.__file__).parent
    found = [path.name for path in package.rglob("*.py") if '"_data"' in path.read_text(encoding="utf-8")]
    assert found == ["config.py"]
    assert published_folder() == shipped("published")
    assert truth_folder() == shipped("truth", parent="datasets")


def test_nearer_places_overrule(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.gpbench]\ndata = "a"\nresults = "a"\nmirror = "a"\n')
    assert load(tmp_path).data == tmp_path / "a"
    (tmp_path / "gpbench.toml").write_text('data = "b"\nresults = "b"\n')
    environ = {"GPBENCH_DATA": "c", "GPBENCH_RESULTS": "  ", "GPBENCH_MIRROR": ""}
    config = load(tmp_path, environ)
    assert (config.data, config.results, config.mirror) == (tmp_path / "c", tmp_path / "b", str(tmp_path / "a"))
    assert config.origins == {
        "data": "GPBENCH_DATA",
        "results": "gpbench.toml",
        "mirror": "pyproject.toml [tool.gpbench]",
    }
    config = load(tmp_path, environ, data="/d", results=None)
    assert (config.data, config.results, config.origins["data"]) == (Path("/d"), tmp_path / "b", "--data")


def test_a_mirror_may_be_an_address(tmp_path):
    assert load(tmp_path, {"GPBENCH_MIRROR": "https://a/b"}).mirror == "https://a/b"


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert load(tmp_path, {"GPBENCH_DATA": "~/x"}).data == tmp_path / "home" / "x"


def test_a_byte_order_mark_counts_for_nothing(tmp_path):
    (tmp_path / "gpbench.toml").write_bytes(b'\xef\xbb\xbfmirror = "m"\r\n')
    assert load(tmp_path).mirror == str(tmp_path / "m")


def test_other_tables_of_a_pyproject_are_not_ours(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.ruff]\nline-length = 3\n[project]\nname = "x"\n')
    assert load(tmp_path).mirror is None


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("gpbench.toml", "data = [", r"gpbench\.toml is no TOML"),
        ("gpbench.toml", b"\xff\xfe", r"gpbench\.toml is no TOML"),
        ("gpbench.toml", "data = 3", r"gpbench\.toml, line 1: data must be a text; got 3"),
        ("gpbench.toml", 'mirror = ""', "mirror must be a text; got ''"),
        ("gpbench.toml", 'miror = "x"', r"gpbench\.toml, line 1: unknown setting 'miror'; did you mean mirror\?"),
        ("pyproject.toml", "tool.gpbench = 3", r"pyproject\.toml, line 1: \[tool\]: gpbench must be a table; got 3"),
        ("pyproject.toml", "[tool.gpbench]\nx = 1", r"pyproject\.toml, line 2: \[tool\.gpbench\]: unknown setting 'x'"),
    ],
)
def test_wrong_files_are_refused(tmp_path, file, text, message):
    (tmp_path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=message):
        load(tmp_path)


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(UsageError, match=r"f must be a folder; it is a file \(set by GPBENCH_RESULTS\)"):
        load(tmp_path, {"GPBENCH_RESULTS": "f"})


@pytest.mark.parametrize("variable", ["GPBENCH_DATA", "GPBENCH_RESULTS", "GPBENCH_MIRROR"])
def test_the_home_of_nobody_is_refused(tmp_path, variable):
    with pytest.raises(UsageError, match=rf"~nosuchuser/x: there is no such user.* \(set by {variable}\)"):
        load(tmp_path, {variable: "~nosuchuser/x"})


@pytest.mark.parametrize("name", ["n" * 300, "a\0b"])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match=r"cannot be a folder: .* \(set by GPBENCH_DATA\)"):
        load(tmp_path, {"GPBENCH_DATA": name})


def test_unknown_flag(tmp_path):
    with pytest.raises(UsageError, match="unknown setting 'datas'; did you mean data"):
        load(tmp_path, datas="x")
