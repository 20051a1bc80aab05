import os
import subprocess
import sys
from pathlib import Path

import psutil

HERE = Path(__file__).parent
KILLS = 25


def test_killed_sweeps_resume_to_the_results_of_one_that_nobody_killed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", HERE / "crash_driver.py", tmp_path, str(KILLS), "5"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    at_random, at_lines = map(int, done.stdout.split())
    assert at_random >= KILLS
    assert at_lines >= 60  # three results, of some twenty lines each


ORPHANS = """
from bench_fakes import task
from gpbench.bench.execution import Processes
if __name__ == "__main__":
    list(Processes(2).run([task(trouble="wait", index=index) for index in range(2)]))
"""


def test_workers_die_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        workers = [psutil.Process(int(parent.stdout.readline())) for _ in range(2)]  # both are inside their cells
        parent.kill()
        _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []
