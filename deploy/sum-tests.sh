#!/usr/bin/env bash
# Runs test commands one after the other and ends with one line, `N passed, N failed`, over all their test binaries.
#     sum-tests.sh COMMAND…
# Each COMMAND is one argument, a line of shell. Fails if a test failed, or a command failed for any other reason,
# or a command ran no test. What fails without naming a test (a binary that dies or does not compile) counts as one.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 ignored=0
for command; do
  bash -c "$command" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  # test result: ok. 26 passed; 0 failed; 0 ignored; …
  read -r p f i < <(awk '
    /^test result:/ { for (i = 2; i <= NF; i++) if ($i ~ /^(passed|failed|ignored);$/) sum[$i] += $(i - 1) }
    END { print sum["passed;"] + 0, sum["failed;"] + 0, sum["ignored;"] + 0 }' "$log")
  if [ "$f" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$p" -eq 0 ]; }; then
    echo "no test has failed, but this has (exit code $status, $p passed): $command" >&2
    f=1
  fi
  passed=$((passed + p)) failed=$((failed + f)) ignored=$((ignored + i))
done
[ "$ignored" -eq 0 ] || echo "($ignored ignored)"
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
