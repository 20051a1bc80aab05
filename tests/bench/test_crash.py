import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).parent
STRESS = int(os.environ.get("GPBENCH_STRESS", "1"))
KILLS = 25 * STRESS
PROCESSES = 3 if STRESS == 1 else 10 * STRESS
"""Kills of a sweep's process, of a worker, of both: each costs the start of two workers."""


@pytest.mark.slow
@pytest.mark.timeout(300 * STRESS)
def test_killed_sweeps_resume_to_the_results_of_one_that_nobody_killed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", HERE / "crash_driver.py", tmp_path, str(KILLS), "5", str(PROCESSES)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    at_random, at_lines, processes = map(int, done.stdout.split())
    assert at_random >= KILLS
    assert processes == PROCESSES
    assert at_lines >= 60  # three results, of some twenty lines each


ORPHANS = """
import sys
from bench_fakes import task
from gpbench.bench.workers import Workers
if __name__ == "__main__":
    list(Workers(2).run([task(trouble=f"wait:{sys.argv[1]}{index}", index=index) for index in range(2)]))
"""


def test_workers_die_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    signs = [tmp_path / f"pid{index}" for index in range(2)]
    for sign in signs:
        os.mkfifo(sign)
    with subprocess.Popen([sys.executable, script, tmp_path / "pid"], env=environment) as parent:
        workers = [psutil.Process(int(sign.read_text())) for sign in signs]  # both are inside their cells
        parent.kill()
        _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []
