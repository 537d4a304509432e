#!/usr/bin/env bash
# Draws where the processor time of the planner's segments goes, and prints the functions that take most of it.
#     eval/bench/flame.sh FOLDER      needs perf (Debian: linux-perf); installs inferno into the data folder
set -euo pipefail
cd "$(dirname "$0")/../.."

out=${1:?say the folder}
inferno=0.12.8
tools=${SPECHOP_DATA_DIR:?}/flame
command -v perf >/dev/null || { echo "there is no perf: install Debian's linux-perf" >&2; exit 1; }
"$tools/bin/inferno-flamegraph" --version 2>/dev/null | grep -q "$inferno" ||
  cargo install --quiet --locked --root "$tools" --version "$inferno" inferno

bench=$(cargo bench --locked -q -p spechop-llm --bench steps --no-run --message-format=json |
  python3 -c 'import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == "steps":
        print(message["executable"])')

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The processor's own counters are closed in many containers. The stacks are read from copies of them, since the
# programs keep no frame pointers.
perf record --quiet --event cpu-clock --freq 199 --call-graph dwarf,16384 --output "$folder/perf.data" "$bench" 1 >/dev/null
perf script --input "$folder/perf.data" 2>/dev/null | "$tools/bin/inferno-collapse-perf" 2>/dev/null >"$folder/stacks"

mkdir -p "$out"
"$tools/bin/inferno-flamegraph" --title "The planner's segments, processor time" --minwidth 0.5 <"$folder/stacks" >"$out/planner.svg"
python3 - "$folder/stacks" <<'PYTHON' | tee "$out/planner.md"
import collections
import re
import sys

total, leaves = 0, collections.Counter()
for line in open(sys.argv[1]):
    stack, count = line.rsplit(" ", 1)
    # Without the types of templates: their names are as long as a page.
    name = re.sub(r"<.*", "", stack.rsplit(";", 1)[-1])
    leaves[name] += int(count)
    total += int(count)
print(f"{total} samples\n\n| function | share |\n|---|---|")
for name, count in leaves.most_common(15):
    print(f"| `{name}` | {count / total:.1%} |")
PYTHON
