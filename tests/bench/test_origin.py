"""Hyper-parameters that come from another method's cell."""

from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pytest
from bench_fakes import FakeSource, Serial, without_times

from gpbench.bench.cell import Limits
from gpbench.bench.choices import Choice, choose, learned_in, shared_settings
from gpbench.bench.execution import executor
from gpbench.bench.expand import Request, expand
from gpbench.bench.method import BINARY, Method
from gpbench.bench.methods import method
from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.cells import stored_results
from gpbench.bench.plan.read import read_plan
from gpbench.bench.runner import run_cell
from gpbench.bench.store import Store
from gpbench.bench.sweep import sweep
from gpbench.data.dataset import dataset_from_arrays
from gpbench.errors import NumericalError, UsageError
from gpbench.model.posterior import load_posterior
from gpbench.report.groups import group_cells
from gpbench.schemes.klsp import KLSp

FEW = {"inducing": "5", "hyperparameters": "from:klsp"}
AT_ONCE = {"freeze_iterations": "0"}  # klsp learns the kernel from the first iteration


@dataclass(frozen=True, kw_only=True)
class Breaks(KLSp):
    """A method that fails."""

    def fit(self, X, y, **_):  # noqa: ARG002
        raise NumericalError("deliberate")


BREAKS = Method(id="breaks", title="Breaks", tasks=BINARY, scheme=Breaks)


def chosen(*names, **settings):
    return choose([method(name) for name in names], {}, assignments={**FEW, **settings}, iterations=6)


def tasks(choices, **options):
    request = {"sources": [FakeSource()], "split": "folds:2", "limits": Limits(iterations=6)} | options
    return expand(Request(choices=choices, **request))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def run(found, store, **options):
    return sweep(found, store, **{"executor": Serial()} | options)


@pytest.mark.parametrize(
    "name", ["x-gpc", "svgpc", "klsp-sgd", "vi-jj", "gvi-fixed-point", "mfsp", "gfitc", "ep", "kl"]
)
def test_the_kernel_is_the_one_that_the_other_learned(store, name):
    (cell, _) = run(tasks(chosen(name, **AT_ONCE)), store)
    assert cell.status == "ok", cell.problem
    assert (cell.settings["hyperparameters"], cell.origin.method) == ("from:klsp", "klsp")
    own, origin = (load_posterior(store.folder / f"{key}.npz") for key in (cell.key, cell.origin.key))
    assert own.latents[0].kernel.spec() == origin.latents[0].kernel.spec()
    start = method("klsp").build(method("klsp").resolve({})).kernel_from(3, lengthscale=np.sqrt(3))
    assert np.abs(origin.latents[0].kernel.theta - start.theta).max() > 0.01  # something was learned


def test_the_origin_is_the_cell_that_a_run_of_it_would_make(store):
    found = tasks(chosen("x-gpc", link="logit"))
    plain = tasks(choose([method("klsp")], {}, assignments={"inducing": "5", "link": "logit"}, iterations=6))
    assert [task.origin.spec.key for task in found] == [task.spec.key for task in plain]
    first = run(plain, store)
    start = [store.folder / f"{task.spec.key}.json" for task in plain]
    written = [path.stat().st_mtime_ns for path in start]
    cells = run(found, store)
    assert [cell.origin.key for cell in cells] == [cell.key for cell in first]
    assert len(store.results()) == 4
    assert run(found, store, force=True)[0].key == cells[0].key  # its own cells alone are run again
    assert [path.stat().st_mtime_ns for path in start] == written


def test_a_link_is_handed_on_as_a_likelihood_and_the_other_way():
    """Of two classes a likelihood is known by its link; one that the other has not is not handed on."""
    for likelihood, expected in (("probit", "probit"), ("logit", "logit"), ("auto", "probit")):
        (choice,) = chosen("gvi-fixed-point", likelihood=likelihood)
        assert (choice.settings["likelihood"], choice.origin.settings["link"]) == (likelihood, expected)
    for link in ("probit", "logit"):
        settings = method("klsp").resolve({"link": link})
        assert shared_settings(method("gvi-fixed-point"), settings)["likelihood"] == link
    assert shared_settings(method("gvi-dual"), method("klsp").resolve({"link": "probit"})).get("likelihood") is None


def test_processes_and_one_after_another_give_the_same(store, tmp_path):
    found = tasks(chosen("x-gpc"), indices=[0])
    other = Store(tmp_path / "other")
    serial = run(found, store)
    with closing(executor(1)) as workers:
        cells = run(found, other, executor=workers)
    assert [without_times(cell) for cell in cells] == [without_times(cell) for cell in serial]
    assert len(other.results()) == 2


def test_keys_hold_the_origin_s_and_are_the_old_ones_without(store):
    found = tasks(chosen("x-gpc"))
    assert found[0].spec.identity().description["origin"]["key"] == found[0].origin.spec.key
    more = tasks(chosen("x-gpc", learn_inducing="false"))  # a setting of the origin alone
    assert more[0].spec.settings == found[0].spec.settings
    assert more[0].spec.key != found[0].spec.key
    assert "origin" not in found[0].origin.spec.identity().description
    assert replace(found[0].spec, origin=None).key not in {each.spec.key for each in (*found, *more)}


def test_what_differs_in_the_origin_alone_is_told_apart(store):
    cells = [*run(tasks(chosen("x-gpc")), store), *run(tasks(chosen("x-gpc", learn_inducing="false")), store)]
    labels = [group.method_label for group in group_cells(cells)]
    assert labels == ["x-gpc (klsp.learn_inducing=false)", "x-gpc (klsp.learn_inducing=true)"]
    plain = run(tasks(choose([method("x-gpc")], {}, assignments={"inducing": "5"}, iterations=6)), store)
    labels = [group.method_label for group in group_cells([*cells[:2], *plain])]
    assert labels == ["x-gpc (hyperparameters=from:klsp)", "x-gpc (hyperparameters=learned)"]


def test_a_failed_origin_fails_its_cell_alone(store):
    choice = chosen("x-gpc")[0]
    failing = replace(choice, origin=Choice(BREAKS, BREAKS.resolve({"inducing": "5", "link": "logit"})))
    cells = run(tasks([failing, Choice(method("linear"), method("linear").resolve({}))]), store)
    assert [cell.status for cell in cells] == ["failed", "ok"] * 2
    problem = cells[0].problem
    assert problem.type == "OriginFailed"
    assert problem.message.startswith("its hyper-parameters are those of breaks on made-up, folds:2 1/2 (cell ")
    assert problem.message.endswith("which ended as failed: NumericalError: deliberate")
    assert sum(cell.method == "breaks" for cell in store.results()) == 2


def test_a_posterior_without_a_kernel_is_no_origin(store):
    choice = chosen("x-gpc")[0]
    linear = replace(choice, origin=Choice(method("linear"), method("linear").resolve({})))
    cells = run(tasks([linear]), store)
    assert "was to leave the kernel of one latent function; it left 0" in cells[0].problem.message


def test_a_cell_that_was_given_nothing_says_so():
    outcome = run_cell(tasks(chosen("x-gpc"))[0])
    assert outcome.result.status == "failed"
    assert "expects the hyper-parameters of cell" in outcome.result.problem.message


def test_counts_take_the_constant_mean_along(store):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))

    class Counts(FakeSource):
        def load(self, progress=None):  # noqa: ARG002
            return dataset_from_arrays(X, rng_counts, id="counts", title="Counts", task="count", classes=())

    rng_counts = rng.poisson(np.exp(1 + np.sin(2 * X[:, 0])))
    found = chosen("gvi-fixed-point", hyperparameters="from:sod-laplace")
    cells = run(tasks(found, sources=[Counts()]), store)
    own, origin = (load_posterior(store.folder / f"{key}.npz") for key in (cells[0].key, cells[0].origin.key))
    assert own.latents[0].mean == origin.latents[0].mean != 0.0
    assert learned_in(store, cells[0].key) == learned_in(store, cells[0].origin.key)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("x-gpc", {"hyperparameters": "from:klps"}, "unknown method 'klps'; did you mean klsp"),
        ("klsp", {}, "method klsp: hyperparameters=from:klsp expects another method; got klsp itself"),
        ("x-gpc", {"hyperparameters": "from:linear"}, "expects a method that learns a kernel; got linear"),
        ("x-gpc", {"hyperparameters": "from:gibbs"}, "expects a method that learns a kernel; got gibbs"),
        ("x-gpc", {"hyperparameters": "from:"}, "one of learned, fixed or from:METHOD; got 'from:'"),
    ],
)
def test_what_is_no_origin_is_refused(name, settings, message):
    with pytest.raises(UsageError, match=message):
        chosen(name, **settings)


def test_several_latent_functions_are_refused():
    X = np.random.default_rng(0).normal(size=(60, 2))

    class Three(FakeSource):
        def load(self, progress=None):  # noqa: ARG002
            return dataset_from_arrays(
                X, np.arange(60) % 3, id="three", title="Three", task="multiclass", classes=("a", "b", "c")
            )

    with pytest.raises(UsageError, match=r"from:sep-mgpc expects one latent function; ep-mgpc has 3"):
        tasks(chosen("ep-mgpc", hyperparameters="from:sep-mgpc"), sources=[Three()])


PLAN = """
title = "T"
datasets = ["german"]
[defaults]
kernel = "se"
inducing = 8
[methods.x-gpc]
hyperparameters = "from:klsp"
[methods.svgpc]
hyperparameters = "from:teacher"
[methods.teacher]
method = "klsp-sgd"
kernel = "se"
max_iterations = 77
"""


def plan_of(tmp_path, text):
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    return read_plan(tmp_path / "mine.toml")


def test_in_a_plan_a_table_goes_before_a_method(tmp_path):
    first, second, third = blocks(plan_of(tmp_path, PLAN))
    assert (first.origin.method.id, first.origin.settings["inducing"]) == ("klsp", "8")
    assert (second.origin.method.id, second.origin.settings) == ("klsp-sgd", third.settings)
    assert third.origin is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("from:klsp", "from:klps", "x-gpc on german: unknown method 'klps'; did you mean klsp"),
        ("from:teacher", "from:svgpc", "svgpc on german: hyperparameters = from:svgpc expects another method"),
        ("from:teacher", "from:x-gpc", "expects hyperparameters=learned of x-gpc; got from:klsp"),
        ("[methods.teacher]\n", '[methods.teacher]\nhyperparameters = "fixed"\n', "of klsp-sgd; got fixed"),
        ('kernel = "se"\nmax', 'kernel = "se-ard"\nmax', "expects the kernel se with noise"),
        ('method = "klsp-sgd"\n', 'method = "klsp-sgd"\nnoise = 0.0\n', "klsp-sgd has se without noise"),
    ],
)
def test_what_is_no_origin_in_a_plan_is_refused(tmp_path, old, new, message):
    with pytest.raises(UsageError, match=message):
        blocks(plan_of(tmp_path, PLAN.replace(old, new)))


def test_stored_cells_of_a_plan_are_known_by_their_origin_s_settings(tmp_path, store):
    plan = plan_of(
        tmp_path, PLAN.replace('["german"]', '["ringnorm-gen:60"]\nsplit = "folds:2"\nlimits = { iterations = 6 }')
    )
    found = blocks(plan)
    cells = []
    for block in found[:2]:
        cells += run(tasks([Choice(block.table.method, block.settings, block.origin)]), store)
    cells = [replace(cell, dataset="ringnorm-gen:60") for cell in cells]
    assert [len(own) for _, own in stored_results(found[:2], cells)] == [2, 2]
    cells[0] = replace(cells[0], origin=replace(cells[0].origin, version=99))
    assert [len(own) for _, own in stored_results(found[:2], cells)] == [1, 2]
