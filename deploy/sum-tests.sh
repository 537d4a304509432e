#!/usr/bin/env bash
# Runs a test command and ends with one line, `N passed, N failed`, over all its test binaries.
# Fails where a test failed, where the command failed for any other reason, and where nothing ran.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

# test result: ok. 26 passed; 0 failed; 0 ignored; …
read -r passed failed ignored < <(awk '
  /^test result:/ { for (i = 2; i <= NF; i++) if ($i ~ /^(passed|failed|ignored);$/) sum[$i] += $(i - 1) }
  END { print sum["passed;"] + 0, sum["failed;"] + 0, sum["ignored;"] + 0 }' "$log")

# A binary that does not compile, or dies, reports nothing, and neither does a run of no tests: no success.
if [ "$passed" -eq 0 ] && [ "$status" -eq 0 ]; then status=1; fi
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
[ "$ignored" -eq 0 ] || echo "($ignored ignored)"
echo "$passed passed, $failed failed"
exit "$status"
