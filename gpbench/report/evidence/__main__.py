"""``python -m gpbench.report.evidence RESULTS``: what the reference results come to, written below a results folder.

``reproduced/PLAN/`` of every plan of which there is anything; ``experiments.csv``, ``verdicts.md``, ``claims.csv``,
``findings.csv``, ``causes.csv`` with ``apart.csv``, and ``summary.png`` with ``summary.csv`` beside them; and
``README.md`` from ``README.template.md``. Only the reference results are read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpbench.errors import GpbenchError
from gpbench.report.evidence.write import write_evidence
from gpbench.terminal import echo

if __name__ == "__main__":
    try:
        written, unwritten = write_evidence(Path(sys.argv[1]))
    except GpbenchError as error:
        sys.exit(f"gpbench: {error}")
    for path in written:
        echo(str(path), content=True)
    if unwritten:
        sys.exit("\n".join(f"gpbench: {each.plan} cannot be made, run it again: {each.why}" for each in unwritten))
