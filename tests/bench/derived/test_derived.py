import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpbench.bench.derived import stored
from gpbench.bench.derived.steps import logged
from gpbench.bench.derived.stored import STEPS, derive, step_of, stored_arrays
from gpbench.bench.division import divide
from gpbench.bench.plan.cells import PlanCells, look_up, source_of
from gpbench.bench.plan.plan import RENDERINGS, Reduction
from gpbench.bench.plan.read import read_plan
from gpbench.bench.plan.run import run_plan
from gpbench.bench.sources import opened
from gpbench.bench.store import Store
from gpbench.config import load_config
from gpbench.errors import DataError, NotComputed, UsageError
from gpbench.model.inducing import InducingRule
from gpbench.model.posterior import load_posterior

PLAN = """
title = "T"
datasets = ["moons.csv"]
split = "folds:3"
splits = 2
[defaults]
kernel = "se"
max_iterations = 5
inducing = 4
[methods.klsp]
[methods.svgpc]
batch_size = 20
[methods.linear]
"""
CONTRACTION = 'title = "C"\nrender = "contraction"\n[figure]\nsizes = [2]\nrows = 12\ninputs = 2\nrepeats = 2\n'


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GPBENCH_RESULTS", str(tmp_path / "results"))
    X = np.random.default_rng(0).normal(size=(45, 2))
    rows = [f"{a},{b},{int(a * b > 0)}" for a, b in X]
    (tmp_path / "moons.csv").write_text("\n".join(["a,b,c", *rows]), encoding="utf-8")
    return load_config()


@pytest.fixture
def plan_of(config, tmp_path):
    def make(text):
        (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
        return read_plan(tmp_path / "mine.toml")

    return make


@pytest.fixture
def run(plan_of, config, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    from bench_fakes import Serial  # noqa: PLC0415

    def make(text, **options):
        return run_plan(plan_of(text), config, Store(config.store), executor=Serial(), **options)

    return make


def files(config):
    return sorted(path.name for path in config.store.glob("*-*.npz"))


def hyperparameters(text):
    return text.replace("datasets =", 'render = "curves"\ndatasets =') + "[figure]\nhyperparameters = true\n"


def test_every_step_belongs_to_a_rendering_and_loads():
    assert set(STEPS) <= set(RENDERINGS)
    assert all(callable(step.load()) for step in STEPS.values())
    assert len({step.name for step in STEPS.values()}) == len(STEPS)


def test_only_what_a_picture_asks_for_is_a_step(plan_of):
    assert step_of(plan_of(PLAN)) is None
    assert step_of(plan_of(hyperparameters(PLAN))).name == "hyperparameters"
    assert step_of(plan_of(hyperparameters(PLAN).replace("= true", "= false"))) is None
    assert step_of(plan_of(hyperparameters(PLAN).replace("hyperparameters = true", 'title = "t"'))) is None


def test_what_is_stored_is_read_and_not_computed_again(run, plan_of, config, monkeypatch):
    found = run(hyperparameters(PLAN))
    with pytest.raises(NotComputed, match="mine: the hyper-parameters that its cells ended with are not computed yet"):
        stored_arrays(found)
    derive(found, config)
    (name,) = files(config)
    assert name.startswith("hyperparameters-")
    again = look_up(plan_of(hyperparameters(PLAN)), Store(config.store))
    arrays = stored_arrays(again)
    monkeypatch.setattr(stored.Step, "load", lambda _: pytest.fail("it is computed again"))
    derive(again, config)
    assert files(config) == [name]
    for cell in found.results:
        own = [value for key, value in zip(arrays["cell"], arrays["value"], strict=True) if key == cell.key]
        latents = getattr(load_posterior(config.store / f"{cell.key}.npz"), "latents", ())
        assert own == [value for latent in latents for value in latent.kernel.values().values()]


def test_files_hold_no_pickles_and_say_what_they_are(run, config):
    found = run(hyperparameters(PLAN))
    derive(found, config)
    with np.load(config.store / files(config)[0], allow_pickle=False) as file:
        about = json.loads(file["about"].tobytes())
        assert all(not file[name].dtype.hasobject for name in file.files)
    assert (about["step"], about["options"]) == ("hyperparameters", {"hyperparameters": True})
    assert set(about["cells"]) == {cell.key for cell in found.results}
    assert {"gpbench", "commit", "dirty"} <= set(about)


def test_other_cells_options_and_versions_are_other_arrays(run, config, monkeypatch):
    found = run(hyperparameters(PLAN))
    derive(found, config)
    for other in (
        replace(found, results=found.results[1:]),
        replace(found, plan=replace(found.plan, figure={"hyperparameters": True, "title": "t"})),
    ):
        with pytest.raises(NotComputed, match="not computed yet"):
            stored_arrays(other)
    monkeypatch.setitem(STEPS, "curves", replace(STEPS["curves"], version=99))
    with pytest.raises(NotComputed, match="not computed yet"):
        stored_arrays(found)


def test_cells_that_came_out_otherwise_are_told_apart(run, config):
    found = run(hyperparameters(PLAN))
    derive(found, config)
    changed = [replace(found.results[0], arrays_sha256="0" * 64), *found.results[1:]]
    other = PlanCells(found.plan, changed, found.store)
    with pytest.raises(NotComputed, match="were computed from earlier runs of its cells"):
        stored_arrays(other)
    derive(other, config)
    assert len(stored_arrays(other)["value"])


def test_damaged_files_are_told_and_made_anew(run, config):
    found = run(hyperparameters(PLAN))
    derive(found, config)
    path = config.store / files(config)[0]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(NotComputed, match=r"are to be computed again: .* cannot be read"):
        stored_arrays(found)
    derive(found, config)
    assert len(stored_arrays(found)["value"])
    np.savez(path, strange=np.zeros(3))
    with pytest.raises(NotComputed, match="are to be computed again: 'about'"):
        stored_arrays(found)


def test_nothing_half_written_is_left(run, config, monkeypatch):
    found = run(hyperparameters(PLAN))
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        derive(found, config)
    assert list(config.store.glob("hyperparameters-*")) == []


def test_cells_that_did_not_end_well_leave_nothing_to_compute(run, config):
    found = run(hyperparameters(PLAN))
    lost = replace(found, results=[replace(cell, status="failed") for cell in found.results])
    derive(lost, config)
    assert files(config) == []


def test_without_cells_the_methods_versions_and_the_seed_count(plan_of, config, monkeypatch):
    found = PlanCells(plan_of(CONTRACTION), [], Store(config.store))
    derive(found, config)
    derive(replace(found, plan=replace(found.plan, seed=1)), config)
    derive(replace(found, plan=replace(found.plan, reduction=Reduction(words="QUICK"))), config)  # two repeats as well
    assert len(files(config)) == 2
    known = {name: replace(method, version=99) for name, method in stored.methods().items()}
    monkeypatch.setattr(stored, "methods", lambda: known)
    with pytest.raises(NotComputed):
        stored_arrays(found)


def test_force_computes_anew(plan_of, config):
    found = PlanCells(plan_of(CONTRACTION), [], Store(config.store))
    derive(found, config)
    path = config.store / files(config)[0]
    before = path.stat().st_mtime_ns
    derive(found, config)
    assert path.stat().st_mtime_ns == before
    derive(found, config, force=True)
    assert path.stat().st_mtime_ns > before


def test_each_slope_comes_with_each_set_of_edges(plan_of, config):
    text = 'title = "C"\nrender = "contraction"\n[figure]\nslopes = [1, 5]\nedges = [[0], [4, 5.5]]\nsizes = [3]\n'
    found = PlanCells(plan_of(text + "rows = 20\nrepeats = 2\n"), [], Store(config.store))
    derive(found, config)
    arrays = stored_arrays(found)
    ordinal = [f"ordinal ({edges}), slope {slope}" for edges in ("0", "4, 5.5") for slope in (1, 5)]
    assert list(arrays["likelihoods"]) == ["count (Poisson)", "binary (logit)", *ordinal]
    assert arrays["after"].shape == (1, 6, 1, 2)


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("sizes = [20]\nrows = 20", "active set sizes must be 1 to 19"),
        ("sizes = 20", r"sizes must be a list of numbers, such as \[10, 25, 50, 100\]; got 20"),
        ('repeats = "many"', "repeats must be a number, such as 500; got 'many'"),
        ("repeats = true", "repeats must be a number"),
        ("slopes = [nan]", "slopes must be a list of numbers"),
        ("edges = [1, 2]", "edges must be a list of lists of numbers"),
        (
            "edges = [[2, 1]]",
            r"mine.toml: \[figure\]: the edges of an ordinal likelihood must be finite and increasing",
        ),
        ("kernels = [1]", "kernels must be a list of texts"),
        ("kernels = []", "kernels must be a list of texts"),
    ],
)
def test_options_of_another_kind(plan_of, config, figure, message):
    plan = plan_of(f'title = "C"\nrender = "contraction"\n[figure]\n{figure}\n')
    with pytest.raises(UsageError, match=message):
        derive(PlanCells(plan, [], Store(config.store)), config)


def test_options_that_are_no_words_or_numbers(run, config):
    found = run(hyperparameters(PLAN) + "title = 2026-11-27\n")
    with pytest.raises(UsageError, match=r"\[figure\] must hold texts, numbers and lists"):
        derive(found, config)


def test_widths_that_make_no_factors(plan_of, config):
    plan = plan_of('title = "F"\nrender = "factors"\n[figure]\nwidths = [1.0]\n')
    with pytest.raises(UsageError, match=r"mine.toml: \[figure\]: expected as many centres as widths"):
        derive(PlanCells(plan, [], Store(config.store)), config)


def test_panels_hold_the_margins_of_the_posterior(run, config):
    text = PLAN.replace("datasets =", 'render = "panels"\ndatasets =').replace("[methods.linear]\n", "")
    found = run(text.replace("inducing = 4", "") + "[sweep]\ninducing = [4]\n")
    derive(found, config)
    arrays = stored_arrays(found)
    cell = found.results[0]
    posterior = load_posterior(config.store / f"{cell.key}.npz")
    x, y = arrays["grid"][0][[3, 80]], arrays["grid"][1][[5, 90]]
    p = posterior.predict(np.stack([x, y], axis=1)).values
    np.testing.assert_allclose(arrays[f"{cell.key}/margins"][0][[5, 90], [3, 80]], p[:, 0] - p[:, 1], atol=1e-12)
    np.testing.assert_array_equal(arrays[f"{cell.key}/inducing/0"], posterior.latents[0].Z)
    p = posterior.predict(posterior.latents[0].Z).values
    np.testing.assert_allclose(arrays[f"{cell.key}/lead/0"], abs(p[:, 0] - p[:, 1]))
    rule = InducingRule.of(cell.settings, seed=cell.split.inducing_seed())
    start = posterior.predict(rule.choose(divide(opened(source_of(found.plan, "moons.csv", config)), cell).X)).values
    np.testing.assert_allclose(arrays[f"{cell.key}/lead_start/0"], abs(start[:, 0] - start[:, 1]))
    assert f"{found.results[1].key}/margins" not in arrays  # of the first split alone
    assert (len(arrays["X"]), list(arrays["classes"])) == (30, [0, 1])


def test_panels_are_of_one_and_the_same_rows(run, config):
    text = PLAN.replace("datasets =", 'render = "panels"\ndatasets =').replace("[methods.linear]\n", "")
    found = run(text.replace("inducing = 4", "") + "[sweep]\ninducing = [4]\n")
    apart = [cell for cell in found.results if cell.method == "klsp" or cell.split.index == 1]
    words = r"klsp.* on moons.* \(split 0 of folds:3, scaled standard\) and svgpc.*split 1 of .*are not the same rows"
    with pytest.raises(UsageError, match=words):
        derive(replace(found, results=apart), config)


def test_predictions_are_of_the_cells_that_meet(run, config):
    text = PLAN.replace("datasets =", 'render = "scatter"\ndatasets =').replace("[methods.linear]\n", "")
    found = run(text + '[figure]\nagainst = "klsp"\n')
    derive(found, config)
    arrays = stored_arrays(found)
    for cell in found.results:
        test = found.store.arrays(cell.key)["test_probabilities"]
        np.testing.assert_allclose(arrays[f"{cell.key}/probability"], test[:, -1], atol=1e-12)
        assert arrays[f"{cell.key}/mean"].shape == arrays[f"{cell.key}/variance"].shape == (15,)
    first = [cell for cell in found.results if cell.method == "svgpc" or cell.split.index == 0]
    derive(replace(found, results=first), config)
    kept = {name.partition("/")[0] for name in stored_arrays(replace(found, results=first))}
    assert kept == {cell.key for cell in first if cell.split.index == 0}


LOGGED = """
title = "T"
datasets = ["moons.csv"]
split = "contiguous:4"
render = "logged"
[defaults]
kernel = "se"
max_iterations = 5
inducing = 4
[methods.x-gpc]
"""


def test_likelihoods_are_logged_as_by_the_code_of_wenzel2019(run, config):
    found = run(LOGGED)
    derive(found, config)
    arrays = stored_arrays(found)
    y_all = opened(source_of(found.plan, "moons.csv", config)).y
    assert len(found.results) == 4
    for i, cell in enumerate(found.results):  # as that code has it, row by row, its folds of 45 // 4 rows
        own = found.store.arrays(cell.key)
        asked, terms = y_all[45 // 4 * i + i], np.zeros(len(own["y_test"]))
        for j, (p, y) in enumerate(zip(own["test_probabilities"][:, 1], own["y_test"], strict=True)):
            if y == 1:
                terms[j] = np.log(p)
            elif asked == 0:
                terms[j] = np.log(1.0 - p)
        assert arrays[f"{cell.key}/nll"] == pytest.approx(-terms.mean(), rel=1e-12)
        assert arrays[f"{cell.key}/nll/same"] == (asked == 0)
        whole = arrays[f"{cell.key}/nll"] == pytest.approx(cell.metrics["nll"], rel=1e-9)
        assert whole == (asked == 0)
    kinds = {bool(arrays[f"{cell.key}/nll/same"]) for cell in found.results}
    assert kinds == {True, False}, "the case has folds of both kinds"


def test_a_rival_s_likelihood_is_logged_whole(run, config):
    found = run(LOGGED.replace("x-gpc", "svgpc"))
    derive(found, config)
    arrays = stored_arrays(found)
    for cell in found.results:
        assert arrays[f"{cell.key}/nll/same"]
        assert arrays[f"{cell.key}/nll"] == pytest.approx(cell.metrics["nll"], rel=1e-9)


def test_what_is_logged_is_of_the_cells_own_data(run, config):
    found = run(LOGGED)
    others = [replace(cell, checksum="0" * 64) for cell in found.results]
    with pytest.raises(DataError, match=r"moons\.csv is not the one that the cell was run on"):
        logged(replace(found, results=others), {}, config)


def test_how_another_method_is_logged_is_not_known(run, config):
    found = run(LOGGED.replace("x-gpc", "klsp"))
    with pytest.raises(UsageError, match="knows how x-gpc and svgpc are logged; got klsp"):
        derive(found, config)


def test_a_probability_of_one_half_is_half_an_error_as_logged(run, config, monkeypatch):
    found = run(LOGGED)
    arrays = Store.arrays
    halves = {cell.key: place for place, cell in enumerate(found.results)}  # rows at one half: none in the first fold

    def even(store, key, **options):
        own = arrays(store, key, **options)
        p, y = own["test_probabilities"].copy(), own["y_test"]
        p[np.arange(len(y)), y] = 0.9  # right in all rows, then undecided in some
        p[np.arange(len(y)), 1 - y] = 0.1
        p[: halves[key]] = 0.5
        return own | {"test_probabilities": p}

    with monkeypatch.context() as inside:
        inside.setattr(Store, "arrays", even)
        derive(found, config)
    for cell, place in zip(found.results, range(4), strict=True):
        own = stored_arrays(found)
        rows = len(found.store.arrays(cell.key)["y_test"])
        assert own[f"{cell.key}/error"] == pytest.approx(0.5 * place / rows, rel=1e-12)
        assert own[f"{cell.key}/error/same"] == (place == 0)


def test_a_fold_without_negative_rows_is_logged_whole(run, config, tmp_path):
    header, *rows = (tmp_path / "moons.csv").read_text(encoding="utf-8").split("\n")
    sorted_rows = sorted(rows, key=lambda row: row.endswith("1"))
    (tmp_path / "sorted.csv").write_text("\n".join([header, *sorted_rows]), encoding="utf-8")
    found = run(LOGGED.replace("moons.csv", "sorted.csv"))
    derive(found, config)
    arrays, last = stored_arrays(found), found.results[-1]
    assert found.store.arrays(last.key)["y_test"].all()
    assert arrays[f"{last.key}/nll/same"]
    assert arrays[f"{last.key}/nll"] == pytest.approx(last.metrics["nll"], rel=1e-6)


def test_a_probability_that_is_no_number_is_no_number_as_logged(run, config, monkeypatch):
    found = run(LOGGED)
    arrays = Store.arrays

    def broken(store, key, **options):
        own = arrays(store, key, **options)
        p = own["test_probabilities"].copy()
        p[0] = (np.nan if key == found.results[0].key else 0.0), 1.0
        return own | {"test_probabilities": p, "y_test": np.zeros_like(own["y_test"])}

    with monkeypatch.context() as inside:
        inside.setattr(Store, "arrays", broken)
        derive(found, config)
    one, other, *_ = (stored_arrays(found)[f"{cell.key}/nll"] for cell in found.results)
    assert np.isnan(one)
    assert np.isfinite(other)


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (("contiguous:4", "folds:4"), "has folds:4"),
        (("contiguous:4", "holdout:0.3*2"), r"has holdout:0\.3\*2"),
        (("contiguous:4", "contiguous:8"), "has contiguous:8"),
        (('render = "logged"', 'render = "logged"\nlimits = { test_rows = 5 }'), r"probabilities \(5, 2\)"),
    ],
)
def test_what_is_no_whole_block_in_file_order_is_not_logged(run, config, change, got):
    found = run(LOGGED.replace(*change))
    with pytest.raises(UsageError, match=f"contiguous folds, .*{got}"):
        derive(found, config)
