"""gpbench's stochastic schemes against rivals from other libraries: one step, and time to a common NLL, as ratios.

Usage: bench_peers.py [--quick] [--seconds S] [DATASET...]; GPBENCH_MIRROR names where files come from. Every method
runs in the harness, on the same split, with the same kernel, inducing inputs and looks, one thread, one after another.
The target is 1.02 times the best NLL that any method reaches (the mean of its last three looks). Times are training
alone; start-up and compilation of a rival stand apart. Rivals whose environments are absent are named, with the command
that installs them, and left out; so are data sets that cannot be had, and methods that refuse so many rows. A cell that
fails makes the benchmark fail.
"""

import argparse
import sys
from statistics import fmean

from gpbench.bench.cell import Limits
from gpbench.bench.choices import Choice
from gpbench.bench.expand import Request, expand
from gpbench.bench.methods import method
from gpbench.bench.runner import run_cell
from gpbench.bench.sources import sources
from gpbench.config import load_config
from gpbench.errors import DataError, UsageError
from gpbench.peers.inventory import peer_facts

DATASETS = ("breast-cancer-wisconsin", "digits-odd-even", "banana", "magic", "twonorm-gen:7400", "ringnorm-gen:7400")
METHODS = (  # what it is called here, id, settings
    ("x-gpc", "x-gpc", {}),
    ("svgpc", "svgpc", {}),
    ("klsp-sgd", "klsp-sgd", {"learn_inducing": False}),
    ("gpflow adam", "gpflow-svgp", {}),
    ("gpflow natural", "gpflow-svgp", {"optimizer": "natural"}),
    ("gpytorch adam", "gpytorch-svgp", {}),
    ("gpytorch pg", "gpytorch-pg", {}),
    ("sklearn", "sklearn-gpc", {}),
)
ALIKE = {"max_iterations": 1_000_000, "stop": "none"}
"""Nobody stops before the time is up."""


def choices():
    """The methods that can run here, under the names of the table."""
    absent = {}
    for peer in peer_facts():
        if peer["problem"] is not None:
            print(f"left out: {', '.join(peer['methods'])}: {peer['problem']}")
            absent |= dict.fromkeys(peer["methods"])
    found = []
    for label, name, settings in METHODS:
        if name not in absent:
            known = method(name)
            alike = {key: value for key, value in ALIKE.items() if key in known.settings()}
            found.append((label, Choice(known, known.resolve(alike | settings))))
    return found


def cell(choice, source, seconds, *, failures):
    """The result of one method on a data set; None where it fails, or refuses so many rows."""
    request = Request(
        choices=[choice], sources=[source], split="holdout:0.1*1", limits=Limits(seconds=seconds), indices=(0,)
    )
    result = run_cell(expand(request)[0]).result
    if not result.finished:
        print(f"  {choice.method.id}: {result.status}: {result.problem.message}", flush=True)
        if result.problem.type != "UsageError":
            failures.append(choice.method.id)
        return None
    return result


def step_seconds(result):
    """Seconds of a step: from the first look, which has seen the choice of inducing inputs, to the end."""
    seconds, iterations = result.trace["seconds"], result.trace["iteration"]
    if iterations[-1] == iterations[0]:
        return float("nan")
    return (seconds[-1] - seconds[0]) / (iterations[-1] - iterations[0])


def reached(result, target):
    """Training seconds and iteration at the first look at which the NLL is no more than the target."""
    trace = result.trace
    for seconds, iteration, nll in zip(trace["seconds"], trace["iteration"], trace["nll"], strict=True):
        if nll is not None and nll <= target:
            return seconds, iteration
    return None


def describe(results):
    """Print the table of one data set; ratios are to the first method's."""
    ends = {label: fmean(result.trace["nll"][-3:]) for label, result in results.items()}
    target = 1.02 * min(ends.values())
    first = next(iter(results))
    step, goal = step_seconds(results[first]), reached(results[first], target)
    print(f"  target NLL {target:.4f}; a step of {first} takes {1e6 * step:.0f} us", end="")
    print(f", the target {goal[0]:.3g} s" if goal else ", the target is not reached")
    print(
        f"  {'':15}{'step':>8}{'to target':>12}{'iterations':>12}{'end NLL':>10}{'start-up, s':>13}{'compile, s':>12}"
    )
    for label, result in results.items():
        metrics, found = result.metrics, reached(result, target)
        when = "never" if found is None else f"{found[0] / goal[0]:.2f}" if goal else f"{found[0]:.3g} s"
        apart = [metrics.get(name) for name in ("startup_seconds", "compile_seconds")]
        words = ["" if each is None else f"{each:.1f}" for each in apart]
        print(
            f"  {label:15}{step_seconds(result) / step:8.2f}{when:>12}{'' if found is None else found[1]:>12}"
            f"{ends[label]:10.4f}{words[0]:>13}{words[1]:>12}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--seconds", type=float, default=10.0, help="training seconds of each method on each set")
    parser.add_argument("--quick", action="store_true", help="half a second on one embedded set, to show that it runs")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.datasets, arguments.seconds = DATASETS[:1], 0.5
    methods, config, failures = choices(), load_config(), []
    for name in arguments.datasets:
        print(f"{name}:", flush=True)
        (source,) = sources([name], config, target=None, task=None, impute=None)
        results = {}
        try:
            for label, choice in methods:
                if (result := cell(choice, source, arguments.seconds, failures=failures)) is not None:
                    results[label] = result
        except (DataError, UsageError) as error:
            print(f"  left out: {error}")
            continue
        if results:
            describe(results)
    if failures:
        sys.exit(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
