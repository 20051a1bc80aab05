"""Counts and ordinal targets from a file to the table, and the active set of a split."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from gpbench.bench.store import Store
from gpbench.cli import main
from gpbench.data.options import FileOptions
from gpbench.data.splits import Protocol
from gpbench.data.userfile import load_file
from gpbench.model.posterior import load_posterior

SHORT = ["--max-iterations", "40", "--kernel", "se"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a file of counts and one of ordered levels."""
    monkeypatch.chdir(tmp_path)
    for name in ("GPBENCH_RESULTS", "GPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPBENCH_DATA", str(tmp_path / "data"))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    files = {"counts": rng.poisson(np.exp(1 + f)), "levels": np.digitize(f, [-1.0, 0.0, 1.0])}
    for name, y in files.items():
        rows = [f"{a:.6f},{b:.6f},{t}" for (a, b), t in zip(X, y, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,y", *rows]))
    return tmp_path


def gpbench(*arguments):
    return CliRunner().invoke(main, [str(each) for each in arguments])


def run(*arguments):
    result = gpbench("run", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["cells"]


def test_counts_go_through(place):
    wanted = ["-d", "counts.csv", "--task", "count", "--folds", "2", "--inducing", "8", *SHORT]
    cells = run("-m", "gvi-fixed-point", "-m", "sod-laplace", *wanted)
    assert [cell["likelihood"] for cell in cells] == ["poisson"] * 4
    store = Store(place / "results" / "runs")
    for cell in cells:
        assert cell["status"] == "ok"
        arrays = store.arrays(cell["key"], names=("test_mean", "y_test"))
        error = np.abs(arrays["y_test"] - arrays["test_mean"]) / np.maximum(arrays["y_test"], 1)
        assert cell["metrics"]["error"] == pytest.approx(error.mean(), rel=1e-12)
        posterior = load_posterior(store.folder / f"{cell['key']}.npz")
        assert posterior.latents[0].mean == cell["provenance"]["fit"]["hyperparameters"]["mean"] != 0.0
    table = gpbench("report", "--format", "markdown")
    assert table.exit_code == 0, table.stderr
    assert table.stdout.count("counts") >= 2


def test_ordinal_targets_go_through(place):
    wanted = ["-d", "levels.csv", "--task", "ordinal", "--folds", "2", "--inducing", "8", *SHORT]
    cells = run("-m", "gvi-fixed-point", *wanted)
    store = Store(place / "results" / "runs")
    for cell in cells:
        arrays = store.arrays(cell["key"], names=("test_probabilities", "y_test"))
        wrong = arrays["test_probabilities"].argmax(axis=1) != arrays["y_test"]
        assert cell["metrics"]["error"] == pytest.approx(wrong.mean(), rel=1e-12)
        posterior = load_posterior(store.folder / f"{cell['key']}.npz")
        assert len(posterior.likelihood.edges) == 3
    refused = gpbench("run", "-m", "gvi-dual", *wanted)
    assert refused.exit_code == 2
    assert "its task is ordinal; gvi-dual does binary, count" in refused.stderr


def test_another_likelihood(place):
    wanted = ["-d", "counts.csv", "--task", "count", "--folds", "2", "--inducing", "8", *SHORT]
    cells = run("-m", "gvi-fixed-point", "--likelihood", "gaussian", *wanted)
    assert [cell["likelihood"] for cell in cells] == ["gaussian"] * 2
    refused = gpbench("run", "-m", "gvi-fixed-point", "--likelihood", "logit", *wanted)
    assert refused.exit_code == 2
    assert "likelihood logit is for binary targets; got task count" in refused.stderr


def test_an_active_set_with_its_targets_is_the_subset(place):
    wanted = ["-d", "counts.csv", "--task", "count", "--split", "active:20/3", *SHORT]
    cells = run("-m", "sod-fixed-point", "-m", "gvi-fixed-point", *wanted, "--set", "hyperparameters=active-laplace")
    dataset = load_file(place / "counts.csv", options=FileOptions(task="count"), cache=place / "data")
    split = Protocol.parse("active:20/3").split(dataset, 0, seed=0)
    store = Store(place / "results" / "runs")
    posteriors = {
        cell["method"]: load_posterior(store.folder / f"{cell['key']}.npz")
        for cell in cells
        if cell["split"]["index"] == 0
    }
    train = dataset.X[split.train]
    active = (dataset.X[split.active] - train.mean(axis=0)) / train.std(axis=0)
    for posterior in posteriors.values():
        assert pytest.approx(active, abs=1e-6) == posterior.latents[0].Z
    sod, gvi = posteriors["sod-fixed-point"], posteriors["gvi-fixed-point"]
    assert sod.latents[0].kernel.values() == gvi.latents[0].kernel.values()
    assert sod.latents[0].mean == gvi.latents[0].mean != 0.0
    mean = sod.likelihood.point(*sod.latent(active))
    assert np.corrcoef(mean, dataset.y[split.active])[0, 1] > 0.8
