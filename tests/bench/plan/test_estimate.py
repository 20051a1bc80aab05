"""Estimates of training time: their order, their caps, and that they are near to what was measured."""

from dataclasses import replace

import pytest

from gpbench.bench.method import Timing
from gpbench.bench.methods import methods
from gpbench.bench.plan.blocks import blocks
from gpbench.bench.plan.estimate import Size, estimate, training_seconds
from gpbench.bench.plan.read import read_plan

SIZE = Size(n=1000, d=10, M=50, latents=1)
RUNS = {name: one.resolve({}) for name, one in methods().items()}


def seconds(name, size=SIZE, iterations=None, **settings):
    return training_seconds(methods()[name], RUNS[name] | settings, size, iterations=iterations)


@pytest.mark.parametrize("name", RUNS)
def test_more_work_takes_longer(name):
    settings = RUNS[name]
    batch = bool(settings.get("batch_size"))
    if not batch and not name.startswith("sod-"):
        assert seconds(name, replace(SIZE, n=1500)) > seconds(name)
    assert seconds(name, replace(SIZE, d=100)) >= seconds(name)
    if "kernel" in settings:
        assert seconds(name, replace(SIZE, latents=3)) > seconds(name)
    if "inducing" in settings:
        assert seconds(name, replace(SIZE, M=200)) > seconds(name)
    assert seconds(name) > 0


@pytest.mark.parametrize("name", [name for name, settings in RUNS.items() if settings.get("batch_size")])
def test_a_mini_batch_step_does_not_depend_on_the_rows(name):
    assert seconds(name, replace(SIZE, n=100_000)) == seconds(name)


@pytest.mark.parametrize("name", [name for name, settings in RUNS.items() if "kernel" in settings])
def test_steps_end_at_the_limit_or_where_schemes_of_the_family_converge(name):
    assert seconds(name, iterations=2) == pytest.approx(2 * seconds(name, iterations=1))
    usual = methods()[name].timing.steps
    if usual is not None:
        assert seconds(name, iterations=10**9, max_iterations=10**9) <= usual * seconds(name, iterations=1) * (1 + 1e-9)


def test_a_method_says_what_its_own_steps_take():
    slow = replace(methods()["x-gpc"], timing=Timing(steps=10, overhead=1.0))
    assert training_seconds(slow, RUNS["x-gpc"], SIZE) == pytest.approx(10.0, rel=1e-2)
    assert training_seconds(slow, RUNS["x-gpc"], replace(SIZE, latents=3), iterations=2) == pytest.approx(6.0, rel=1e-2)


def test_fixed_hyperparameters_settle_sooner():
    assert seconds("gvi-fixed-point", hyperparameters="fixed") < seconds("gvi-fixed-point")


def test_a_scheme_that_is_told_to_run_on_does():
    assert seconds("x-gpc", stop="none", max_iterations=20_000) == pytest.approx(
        20_000 * seconds("x-gpc", iterations=1)
    )


@pytest.mark.parametrize(
    ("name", "size", "settings", "measured"),
    [
        ("x-gpc", Size(n=33_277, d=123, M=100, latents=1), {}, 6.4),
        ("svgpc", Size(n=40_781, d=8, M=100, latents=1), {}, 7.4),
        ("klsp", Size(n=700, d=20, M=8, latents=1), {}, 8.9),
        ("gfitc", Size(n=468, d=8, M=14, latents=1), {}, 0.75),
        ("mfsp", Size(n=400, d=20, M=12, latents=1), {}, 6.0),
        ("mfsp", Size(n=400, d=2, M=400, latents=1), {}, 6.1),
        ("kl", Size(n=700, d=20, M=700, latents=1), {}, 4.6),
        ("vi-mgpc", Size(n=193, d=9, M=19, latents=6), {}, 9.1),
    ],
)
def test_what_was_measured_is_met_within_a_factor_of_three(name, size, settings, measured):
    assert measured / 3 < seconds(name, size, **settings) < measured * 3


def test_a_plan_of_bigger_data_takes_longer_and_no_longer_than_its_limit(tmp_path):
    text = 'title = "T"\ndatasets = ["ringnorm-gen:500", "ringnorm-gen:5000"]\nsplit = "folds:10"\n'
    found = []
    for limit in ("", "limits = { seconds = 2 }\n"):
        (tmp_path / "mine.toml").write_text(text + limit + "[methods.klsp]\n", encoding="utf-8")
        own = estimate([(block, []) for block in blocks(read_plan(tmp_path / "mine.toml"))])
        found.append([each.seconds for each in own])
    assert found[0][0] < found[0][1]
    assert found[1] == [30.0, 30.0]  # ten cells, each 2 s of training and 1 s beside it


def test_rows_of_a_publisher_s_split_are_those_that_he_trains_on(tmp_path):
    text = 'title = "T"\ndatasets = ["banana"]\nsplit = "{}"\nsplits = 1\n[methods.klsp]\n'
    found = []
    for split in ("given", "holdout:4900*1"):
        (tmp_path / "mine.toml").write_text(text.format(split), encoding="utf-8")
        (one,) = estimate([(block, []) for block in blocks(read_plan(tmp_path / "mine.toml"))])
        found.append(one.seconds)
    assert found[0] == found[1]
