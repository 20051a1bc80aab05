"""gpbench's schemes against rivals from other libraries: time to the best rival's NLL, and the NLL at the end.

Usage: bench_peers.py [--quick] [--seconds S] [--rounds R] [--schemes LIST] [--rivals LIST] [--json FILE]
[DATASET...]; GPBENCH_MIRROR names where files come from. Rivals are run as their users run them: inducing inputs
learned, the library's own optimiser and rates. All methods run in the harness on the same split, with the same looks,
one thread, one after another, and the whole list is gone through R times (A B A B ...), each round on a split of its
own that all share; so a busy minute falls on all.

What is on the clock: training alone, the choice of inducing inputs included, in processor seconds of the process that
trains, which a rival's process reports of itself. Not on it: loading, looks, and a rival's start-up and compilation,
which have columns of their own.

What is picked how: a method's end is the median NLL of its last three looks. The target is 1.02 times the lowest end
of any *rival*, picked afterwards, in each round. A method arrives where the median of three looks is first at or
below it, the look itself too ("first"), and stays from where no later such median is above it ("stays"). The ratio is
the fastest rival's seconds over the method's, each the median over rounds. Nothing of gpbench's is picked afterwards:
one default a method, the same on all sets. Rivals whose environments are absent are named, with the command that
installs them, and left out; so are data sets that cannot be had and methods that refuse so many rows. A gpbench method
that fails makes the benchmark fail; a rival that fails has the time until then. The plan beyond/peers keeps such runs
as cells and makes its table of them.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from gpbench.bench.cell import Limits
from gpbench.bench.choices import Choice
from gpbench.bench.expand import Request, expand
from gpbench.bench.methods import method, methods
from gpbench.bench.runner import run_cell
from gpbench.bench.sources import sources
from gpbench.config import load_config
from gpbench.errors import DataError, UsageError
from gpbench.peers.rivals import peer_facts
from gpbench.report.compare import attainment
from gpbench.report.traces import trace_of

DATASETS = (  # three embedded, five generated, two of the mirror
    "breast-cancer-wisconsin", "digits-odd-even", "digits-3-5", "banana", "magic", "twonorm-gen:7400",
    "ringnorm-gen:7400", "gpdraw8-gen:50000", "twonorm-gen:1000000", "ringnorm-gen:1000000",
)  # fmt: skip
RIVALS = {  # what it is called here -> id, settings
    "gpflow adam": ("gpflow-svgp", {}),
    "gpflow adam .05": ("gpflow-svgp", {"rate": 0.05}),
    "gpflow natural": ("gpflow-svgp", {"optimizer": "natural", "link": "logit"}),
    "gpflow fixed Z": ("gpflow-svgp", {"learn_inducing": False}),
    "gpjax dual": ("gpjax-dual", {}),
    "gpytorch adam": ("gpytorch-svgp", {}),
    "gpytorch pg": ("gpytorch-pg", {}),
    "sklearn": ("sklearn-gpc", {}),
}
SCHEMES = ("pep", "x-gpc", "x-gpc-z", "svgpc", "sep-mgpc", "gfitc")
ALIKE = {"max_iterations": 1_000_000, "stop": "none"}
"""Of rivals alone: none of them stops before the time is up."""


def chosen(schemes, rivals):
    """Label -> choice, and the labels of rivals; what cannot run here is named and left out."""
    absent, found, outside = {}, {}, []
    for peer in peer_facts():
        if peer["problem"] is not None:
            print(f"left out: {', '.join(peer['methods'])}: {peer['problem']}")
            absent |= dict.fromkeys(peer["methods"])
    for name in schemes:
        if name not in methods():
            print(f"left out: there is no method {name} here")
            continue
        found[name] = Choice(method(name), method(name).resolve({}))
    for label in rivals:
        name, settings = RIVALS[label]
        if name not in absent:
            known = method(name)
            alike = {key: value for key, value in ALIKE.items() if key in known.settings()}
            found[label] = Choice(known, known.resolve(alike | settings))
            outside.append(label)
    return found, outside


def cell(choice, source, *, split, number, seconds):
    """The result of a method on a split."""
    request = Request(
        choices=[choice], sources=[source], split=split, limits=Limits(seconds=seconds), indices=(number,)
    )
    return run_cell(expand(request)[0]).result


def end_of(result):
    """Median of the last three looks; infinite without any."""
    return attainment.end_of(trace_of(result, "nll").values) if result.trace["nll"] else math.inf


def arrival(result, target):
    """Seconds at which the target is first reached, and from which on it is kept; infinite where it is not."""
    if not result.trace["nll"]:
        return math.inf, math.inf
    trace = trace_of(result, "nll")
    return attainment.arrival(trace, target), attainment.stays(trace, target)


def row_of(results, targets):
    """What a table says of one method on one set, from its results and the targets, a round each."""
    firsts, stays = zip(*(arrival(*pair) for pair in zip(results, targets, strict=True)), strict=True)
    steps = [step_of(result) for result in results]
    return {
        "first": median(firsts),
        "stays": median(stays),
        "first_of_rounds": firsts,
        "stays_of_rounds": stays,
        "end": float(np.mean([end_of(result) for result in results])),
        "end_of_rounds": [end_of(result) for result in results],
        "error": float(np.mean([result.metrics["error"] or math.nan for result in results])),
        "step_us": 1e6 * median(steps),
        "iterations": median(result.metrics["iterations"] for result in results),
        "seconds": median(result.metrics["cpu_seconds"] or math.nan for result in results),
        "startup": median(result.metrics.get("startup_seconds") or 0.0 for result in results),
        "compile": median(result.metrics.get("compile_seconds") or 0.0 for result in results),
        "clock": sorted({getattr(result, "clock", None) or "wall" for result in results}),
        "ended": sorted({f"{result.status}, {result.stopped_by}" for result in results}),
    }


def step_of(result):
    """Seconds of a step: from the first look, which has seen the choice of inducing inputs, to the last."""
    seconds, iterations = result.trace["seconds"], result.trace["iteration"]
    if len(seconds) < 2 or iterations[-1] == iterations[0]:
        return math.nan
    return (seconds[-1] - seconds[0]) / (iterations[-1] - iterations[0])


def duel(name, source, choices, outside, *, rounds, seconds, failures):
    """The rows of one data set: label -> row; None where no rival got anywhere."""
    split = f"holdout:0.1*{rounds}"
    results = {label: [] for label in choices}
    for number in range(rounds):
        for label, choice in choices.items():
            if results[label] is None:
                continue
            try:
                result = cell(choice, source, split=split, number=number, seconds=seconds)
            except UsageError as error:
                print(f"  {label} is left out: {error}", flush=True)
                results[label] = None
                continue
            if not result.finished:
                print(f"  {label}, round {number + 1}: {result.status}: {result.problem.message[:200]}", flush=True)
                if result.problem.type == "UsageError":
                    results[label] = None
                    continue
                if label not in outside:
                    failures.append(f"{label} on {name}")
                    results[label] = None
                    continue
            results[label].append(result)
    results = {label: own for label, own in results.items() if own}
    rivals = [label for label in outside if label in results]
    if not rivals:
        print("  no rival ran")
        return None
    targets = [1.02 * min(end_of(results[label][number]) for label in rivals) for number in range(rounds)]
    rows = {label: row_of(own, targets) for label, own in results.items()}
    best = {when: min(rows[label][when] for label in rivals) for when in ("first", "stays")}
    lowest = min(rows[label]["end"] for label in rivals)
    for label, row in rows.items():
        row["rival"] = label in rivals
        row["ratio_first"], row["ratio_stays"] = (ratio(best[when], row[when]) for when in ("first", "stays"))
        row["above"] = row["end"] / lowest - 1.0
    print_rows(name, rows, targets)
    return {"targets": targets, "best_end": lowest, "rows": rows}


def ratio(best, own):
    """How many times sooner than the best rival; 0 where the target is never reached, NaN where no rival keeps it."""
    if math.isinf(best):
        return math.nan
    return 0.0 if math.isinf(own) else best / max(own, 1e-9)


def words(seconds):
    return "never" if math.isinf(seconds) else f"{seconds:.3g}"


def print_rows(name, rows, targets):
    """The table of one data set."""
    clocks = sorted({clock for row in rows.values() for clock in row["clock"]})
    goal = ", ".join(f"{target:.4f}" for target in targets)
    print(f"{name}: target NLL {goal} (a round each); {' and '.join(clocks)} seconds")
    heads = (
        "first, s",
        "stays, s",
        "x first",
        "x stays",
        "end NLL",
        "to best",
        "step, us",
        "start-up, s",
        "compile, s",
    )
    print(f"  {'':16}" + "".join(f"{head:>12}" for head in heads))
    for label, row in rows.items():
        times = (words(row["first"]), words(row["stays"]))
        ratios = tuple("" if row["rival"] else f"{row[key]:.1f}" for key in ("ratio_first", "ratio_stays"))
        apart = tuple(f"{row[key]:.1f}" if row["rival"] else "" for key in ("startup", "compile"))
        rest = (f"{row['end']:.4f}", f"{100 * row['above']:+.1f} %", f"{row['step_us']:.0f}")
        ended = "" if all("ok" in each for each in row["ended"]) else f"   ({'; '.join(row['ended'])})"
        print(f"  {label:16}" + "".join(f"{word:>12}" for word in (*times, *ratios, *rest, *apart)) + ended, flush=True)


def print_summary(found, schemes):
    """Over data sets: geometric means, the least, and how many ends are at or below the best rival's."""
    print(f"over {len(found)} data sets, against the best rival of each:")
    heads = ("x first", "x stays", "least", "reached", "end <= best", "worst end")
    print(f"  {'':16}" + "".join(f"{head:>14}" for head in heads))
    for label in schemes:
        own = [each["rows"][label] for each in found.values() if label in each["rows"]]
        if not own:
            continue
        cells = []
        for key in ("ratio_first", "ratio_stays"):
            known = [row[key] for row in own if row[key] > 0.0]
            cells.append(f"{geometric_mean(known):.1f}" if known else "-")
        kept = [row["ratio_stays"] for row in own if not math.isnan(row["ratio_stays"])]
        reached = sum(value > 0.0 for value in kept)
        cells += [f"{min(kept, default=math.nan):.1f}", f"{reached}/{len(kept)}"]
        below = sum(row["above"] <= 0.0 for row in own)
        cells += [f"{below}/{len(own)}", f"{100 * max(row['above'] for row in own):+.1f} %"]
        print(f"  {label:16}" + "".join(f"{word:>14}" for word in cells))
    print("  geometric means are over the sets where the target is reached; least and reached count all, 0 is never")


def names_of(text, known, what):
    found = [each.strip() for each in text.split(",") if each.strip()]
    for each in found:
        if known is not None and each not in known:
            raise argparse.ArgumentTypeError(f"expected {what} of {', '.join(known)}; got {each}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--seconds", type=float, default=10.0, help="training seconds of each method in each round")
    parser.add_argument("--rounds", type=int, default=2, help="splits, a round each: A B A B ...")
    parser.add_argument("--schemes", type=lambda text: names_of(text, None, "methods"), default=SCHEMES)
    parser.add_argument("--rivals", type=lambda text: names_of(text, RIVALS, "rivals"), default=list(RIVALS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there")
    parser.add_argument("--quick", action="store_true", help="half a second on one embedded set, to show that it runs")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.datasets, arguments.seconds, arguments.rounds = DATASETS[:1], 0.5, 1
    choices, outside = chosen(arguments.schemes, arguments.rivals)
    config, failures, found = load_config(), [], {}
    for name in arguments.datasets:
        try:
            (source,) = sources([name], config)
            rows = duel(
                name,
                source,
                choices,
                outside,
                rounds=arguments.rounds,
                seconds=arguments.seconds,
                failures=failures,
            )
        except (DataError, UsageError) as error:
            print(f"{name} is left out: {error}", flush=True)
            continue
        if rows is not None:
            found[name] = rows
            if arguments.json is not None:
                arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if found:
        print_summary(found, [label for label in choices if label not in outside])
    if failures:
        sys.exit(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
