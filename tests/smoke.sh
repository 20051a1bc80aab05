#!/bin/sh
# Runs every method that `gpbench list` knows on tiny embedded data, and checks that each cell ends well.
set -eu
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
export GPBENCH_RESULTS="$folder/results"

gpbench list methods --json >"$folder/methods.json"
# One line a method: its id, and --inducing where it has that setting.
python - "$folder/methods.json" >"$folder/methods.txt" <<'END'
import json
import sys
from pathlib import Path

for method in json.loads(Path(sys.argv[1]).read_text())["methods"]:
    names = {setting["name"] for setting in method["settings"]}
    print(method["id"], "--inducing 10" if "inducing" in names else "")
END

while read -r method options; do
    echo "smoke: $method"
    # shellcheck disable=SC2086  # options are words
    gpbench run --method "$method" --dataset breast-cancer-wisconsin --split "holdout:0.2*1" --max-iterations 30 $options \
        --json >"$folder/run.json"
    python - "$folder/run.json" <<'END'
import json
import sys
from pathlib import Path

cells = json.loads(Path(sys.argv[1]).read_text())["cells"]
if [cell["status"] for cell in cells] != ["ok"]:
    sys.exit(f"expected one cell that ends well; got {cells}")
END
done <"$folder/methods.txt"
gpbench report --format markdown
