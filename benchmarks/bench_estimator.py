"""What a scikit-learn estimator adds to a scheme's own ``fit``: 20 ms at most.

x-gpc and linear, alternately through ``gpbench.GPClassifier`` and bare, on the same rows, scaled beforehand for the
latter. Usage: bench_estimator.py [--quick]
"""

from time import process_time

import numpy as np
from _timing import Report, turns

import gpbench
from gpbench.bench.choices import Choice
from gpbench.bench.fitting import fit_rows
from gpbench.bench.resources import one_pool_size
from gpbench.data.scaling import scaling_of

LIMIT = 0.020
"""Seconds that the estimator may add."""


def main():
    with Report.of(__doc__) as report:
        rows, rounds = (1_000, 3) if report.options.quick else (10_000, 9)
        rng = np.random.default_rng(1)
        X = rng.normal(size=(rows, 20))
        y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=rows) > 0).astype(np.int64)
        scaled = scaling_of("standard", X, rows=np.arange(rows)).apply(X)
        for name, settings in (("x-gpc", {"max_iterations": 30, "stop": "none"}), ("linear", {})):
            chosen = Choice(gpbench.method(name), gpbench.method(name).resolve(settings))

            def bare(chosen=chosen):
                with one_pool_size(1):
                    start = process_time()
                    fit_rows(chosen, scaled, y, task="binary", classes=2, seed=0)
                    return process_time() - start

            def through(name=name, settings=settings):
                start = process_time()
                gpbench.GPClassifier(name, random_state=0, **settings).fit(X, y)
                return process_time() - start

            bare(), through()  # what a process does once is behind it
            found = turns({"bare": bare, "through": through}, rounds=rounds)
            added = np.array(found["through"]) - np.array(found["bare"])
            report.seconds(f"{name}, bare", found["bare"])
            report.number(f"{name}, added by the estimator, s", float(np.median(added)), limit=LIMIT)


if __name__ == "__main__":
    main()
