#!/usr/bin/env bash
# A flame graph of the server while it answers questions one by one:
#
#   eval/bench/flame.sh BINARY INDEX QUESTIONS OUT.svg [COUNT]
#
# QUESTIONS: 2WikiMultihopQA, as eval/run.sh prepares it. The graph's first level are the threads: local-model (the
# planner's engine), reader, encoder, tokio-rt-worker. Beside the SVG stands OUT.folded, a line for each stack.
# Needs perf (Debian's linux-perf) and `cargo install --locked inferno`.
set -euo pipefail

spechop=${1:?the binary} index=${2:?the index} questions=${3:?the questions} out=${4:?where the SVG goes} count=${5:-40}
root=$(cd "$(dirname "$0")/../.." && pwd)
for tool in perf inferno-collapse-perf inferno-flamegraph; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: see the head of $0" >&2; exit 1; }
done

folder=$(mktemp -d)
"$spechop" serve --set "index.dir=$index" --set tuning.state=none --listen 127.0.0.1:0 >"$folder/said" 2>"$folder/log" &
server=$!
trap 'kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT
until grep -qs '^ready on' "$folder/said"; do
  kill -0 "$server" || { cat "$folder/log" >&2; exit 1; }
  sleep 0.1
done
address=$(sed -n 's/^ready on //p' "$folder/said")

# There are no frame pointers; four KiB of stack are enough to walk it.
perf record --quiet -e cpu-clock -F 499 --call-graph dwarf,4096 -p "$server" -o "$folder/perf.data" &
recording=$!
"$spechop" eval live --addr "$address" --dataset 2wiki --questions "$questions" --ids "$root/eval/datasets/own_mix.json" \
  --count "$count" --k 1 --concurrency 1 --system "embedded default" --out "$folder/asked" >/dev/null
kill -INT "$recording"
wait "$recording" || true

perf script -i "$folder/perf.data" --no-inline 2>/dev/null | inferno-collapse-perf >"${out%.svg}.folded"
inferno-flamegraph --title "SpecHop, $count questions one by one" --minwidth 0.2 "${out%.svg}.folded" >"$out"

echo "of all samples, by thread and by what it computed:"
awk '{ n = $NF; sub(/ [0-9]+$/, ""); split($0, stack, ";"); leaf = stack[1] " " stack[length(stack)]; sum[leaf] += n; all += n }
  END { for (leaf in sum) printf "%5.1f %%  %s\n", 100 * sum[leaf] / all, leaf }' "${out%.svg}.folded" | sort -rn | head -14
