#!/bin/sh
# Runs every method that `gpbench list` knows on tiny embedded data, and checks that each cell ends well.
set -eu
results="$(mktemp -d)"
trap 'rm -rf "$results"' EXIT
export GPBENCH_RESULTS="$results"

for method in $(gpbench list methods --json | python -c 'import json, sys; print(*[m["id"] for m in json.load(sys.stdin)["methods"]])'); do
    echo "smoke: $method"
    gpbench run --method "$method" --dataset breast-cancer-wisconsin --split "holdout:0.2*1" --inducing 10 --max-iterations 30 --json |
        python -c 'import json, sys; cells = json.load(sys.stdin)["cells"]; assert [c["status"] for c in cells] == ["ok"], cells'
done
gpbench report --format markdown
