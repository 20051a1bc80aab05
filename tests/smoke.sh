#!/bin/sh
# Runs every method that `gpbench list` knows on tiny data of each task that it does, and checks that each cell ends well.
set -eu
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
export GPBENCH_RESULTS="$folder/results"

# Counts and ordinal categories of a smooth function; no such data come with gpbench.
python - "$folder" <<'END'
import csv
import sys
from pathlib import Path

import numpy as np

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 2))
f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
for name, y in {"count": rng.poisson(np.exp(f)), "ordinal": 1 + np.digitize(f, [-0.5, 0.5])}.items():
    with (Path(sys.argv[1]) / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "y"), *zip(*X.T.tolist(), y.tolist(), strict=True)])
END

gpbench list methods --json >"$folder/methods.json"
gpbench peers list --json >"$folder/peers.json"
for task in binary multiclass count ordinal; do
    case $task in
    binary) data="--dataset breast-cancer-wisconsin" ;;
    multiclass) data="--dataset wine" ;;
    *) data="--dataset $folder/$task.csv --task $task" ;;
    esac
    # The options that name the methods of the task, without rivals whose environments are absent.
    methods="$(
        python - "$task" "$folder/methods.json" "$folder/peers.json" <<'END'
import json
import sys
from pathlib import Path

task, *names = sys.argv[1:]
methods, peers = (json.loads(Path(name).read_text()) for name in names)
absent = {name: peer["problem"] for peer in peers["peers"] if peer["problem"] for name in peer["methods"]}
for method in methods["methods"]:
    if task not in method["tasks"]:
        continue
    if method["id"] in absent:
        print(f"smoke: {method['id']} is left out: {absent[method['id']]}", file=sys.stderr)
    else:
        print("--method", method["id"], end=" ")
END
    )"
    [ -n "$methods" ] || continue
    echo "smoke, $task: $methods" | sed 's/ --method//g'
    # Few training rows, since full schemes take their cube; 4: some cells failed, which is looked at below.
    # shellcheck disable=SC2086  # options are words
    gpbench run $methods $data --split "holdout:0.7*1" --max-iterations 30 --inducing 10 --json >"$folder/run.json" ||
        [ $? -eq 4 ]
    python - "$folder/run.json" "$methods" <<'END'
import json
import sys
from pathlib import Path

wanted = sys.argv[2].split()[1::2]
cells = json.loads(Path(sys.argv[1]).read_text())["cells"]
ended = {cell["method"]: (cell["status"], cell["problem"]) for cell in cells}
bad = {method: ended.get(method, "no cell") for method in wanted if ended.get(method, ("",))[0] != "ok"}
if bad:
    sys.exit(f"expected cells that end well; got {bad}")
END
done
gpbench report --format markdown
