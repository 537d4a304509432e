#!/usr/bin/env bash
# Attacks the server at full length and writes OUT/table.md: what was observed before the mends
# (eval/runs/attack/before.tsv), and what is observed now. Findings that need no attack of their own are
# shown by tests (eval/runs/attack/tests.tsv). Wants a machine to itself, since it compares times, and the
# default models.
#     attack.sh OUT
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -ne 1 ]; then
  echo "usage: attack.sh OUT" >&2
  exit 2
fi
out=$1
mkdir -p "$out"
log=$out/attack.log

# The laws of the window and the scheduler are asserted in this build while it is attacked.
status=0
cargo test --locked --workspace --no-fail-fast -- --ignored --nocapture --test-threads=1 attack_ >"$log" 2>&1 || status=$?
mapfile -t names < <(cut -f 3 eval/runs/attack/tests.tsv | tr ' ' '\n')
SPECHOP_CANCELS=100000 cargo test --locked --workspace --no-fail-fast -- "${names[@]}" >>"$log" 2>&1 || status=$?

# A row for each line of tests.tsv: what its tests show, if every one of them has passed.
rows_of_tests() {
  local finding attack tests shows before name
  while IFS=$'\t' read -r finding attack tests shows before; do
    for name in $tests; do
      grep -qE "^test (.*::)?$name \.\.\. ok$" "$log" || shows="NOT shown: $name"
    done
    echo "| $finding | $attack | $before | $shows |"
    if [[ $shows == NOT* ]]; then status=1; fi
  done <eval/runs/attack/tests.tsv
}
{
  echo '# Attacks'
  echo
  echo "Made by \`make attack\`: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores,"
  echo "debug build, commit $(git log -1 --format='%h of %cs'). The attacks on single requests and frames are also part of \`make test\`."
  echo 'What was observed before is of commit 4a5432a, a release build with real models.'
  echo
  echo '| finding | attack | before | now |'
  echo '|---|---|---|---|'
  awk -F '\t' 'FILENAME ~ /before.tsv$/ { before[$1] = $2; next }
    /^\| .* \| .* \| .* \|$/ { split($0, cell, / *\| */); printf "| %s | %s | %s | %s |\n", cell[2], cell[3], before[cell[2]], cell[4] }' \
    eval/runs/attack/before.tsv "$log"
  rows_of_tests
  echo
  grep -E '^test result:.* [1-9][0-9]* (passed|failed)|^test result: FAILED' "$log" | sed 's/^/- /' || true
} >"$out/table.md"
cat "$out/table.md"
if [ "$status" -ne 0 ]; then
  echo "attack.sh: an attack succeeded; see $log" >&2
  grep -E 'panicked at' -A 2 "$log" >&2 || true
fi
exit "$status"
