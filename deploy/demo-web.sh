#!/usr/bin/env bash
# Three real multi-hop questions, looked up in a web: search engine and pages run on this machine and take as long as the
# paper measured. Nothing is injected into the service. While a look-up waits for the web, the local index guesses.
# A table at the end compares k = 1, 3 and auto.
#     demo-web.sh SPECHOP_BINARY CORPUS [MEAN:SIGMA]
set -euo pipefail
cd "$(dirname "$0")/.."

spechop=$1
corpus=$2
source deploy/demo-lib.sh
# Search and slowest page together, in milliseconds; by default as measured in the paper.
latency=${3:-4150:1680}

launch "$work/web.log" "$spechop" eval web --corpus "$corpus" --latency "$latency" --listen 127.0.0.1:0
ready "$work/web.log" "${started[-1]}"
web=$address
cat "$work/web.log.err"
# What was kept of an earlier look-up would answer at once; `--fresh` passes it by.
serve "$work/server.log" SPECHOP_TARGET_KIND=web SPECHOP_WEB_PROVIDERS=searxng SPECHOP_WEB_SEARXNG_URL="http://$web" SPECHOP_WEB_ALLOW="$web" \
  SPECHOP_SPECULATOR_KIND=index
warm "$work/server.log" "${started[-1]}"

# Every question at one k comes before any at the next, so that no cache of prompts helps. The last k learns from all
# questions before it.
echo "=== ${#question[@]} questions over the web at http://$web, log-normal, mean and sigma $latency ms ==="
for k in 1 3 auto; do
  if [ "$k" = 3 ]; then
    printf '\n=== question 1 at k = 3: %s ===\n' "${question[0]}"
    ask 3.0 0 --k 3 --fresh --watch --json
  fi
  printf 'k = %-4s:' "$k"
  for n in "${!question[@]}"; do
    [ -e "$work/$k.$n.ms" ] || ask "$k.$n" "$n" --k "$k" --fresh --json
    printf '  %6s s' "$(seconds "$k.$n")"
  done
  printf '\n'
done
"$spechop" tuning --addr "$address" --k 1,2,3,4,5,6,7,8 --json >"$work/tuning.json"
memory=$(peak_memory)
stop

printf '%s\n' "${expected[@]}" >"$work/expected"
python3 deploy/demo_web.py "$work"
cat <<END

RelLat: seconds divided by those at k = 1. RelLat*: the paper's bound from the p, alpha and beta measured just now, for
endless questions. Simulated: these questions, played again on a virtual clock. First there: when the answer was first
written, on guesses that were confirmed later. Look-ups: started, and of them of no use.
The web is slow by script; the service does not know. Peak memory of the server: $memory.
END
