#!/usr/bin/env bash
# Indexes the shipped corpus for the demo, unless exactly that was done before.
#     index-demo.sh SPECHOP_BINARY
set -euo pipefail
cd "$(dirname "$0")/.."

spechop=$1
data=${SPECHOP_DATA_DIR:?}
corpus=eval/datasets/2wikimultihopqa/corpus.jsonl.gz
in_degree=eval/datasets/2wikimultihopqa/in_degree.jsonl.gz
hot_fraction=0.25
index=$data/indexes/2wiki
made=$data/indexes/2wiki.made

# What the index depends on; with another encoder its vectors mean nothing.
inputs=$(sha256sum "$corpus" "$in_degree" "$data/models/default-encoder"; echo "hot fraction $hot_fraction")
if [ -d "$index" ] && [ "$inputs" = "$(cat "$made" 2>/dev/null)" ]; then
  echo "index: already in $index" >&2
  exit 0
fi
# An index of other inputs has to go; one of the same inputs that was interrupted goes on.
if [ -f "$made" ]; then rm -rf "$index" "$made"; fi
mkdir -p "$data/indexes"
"$spechop" index build --corpus "$corpus" --out "$index" --hot-fraction "$hot_fraction" --in-degree "$in_degree"
printf '%s\n' "$inputs" >"$made"
