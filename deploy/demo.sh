#!/usr/bin/env bash
# Three real multi-hop questions over gRPC, without and with speculation: as it is, and with the latency of web search
# injected into every look-up, so that the effect shows on a small machine too. Each question is shown once, while it
# is answered with speculation and injected latency; a table at the end holds the times of all runs.
#     demo.sh SPECHOP_BINARY
set -euo pipefail
cd "$(dirname "$0")/.."

spechop=$1
source deploy/demo-lib.sh
k=4
# Web search as measured in the paper, in milliseconds.
latency_mean=4150
latency_sigma=1680
latency_seed=1
# If there is no guess, the server plans on with the answer left open. By default it does so once it has seen that it pays.
ahead=SPECHOP_QUESTION_PLAN_AHEAD=true

# answer NAME: what that run answered: the first line of what `ask` prints.
answer() {
  head -n 1 "$work/$1.text"
}

# briefly NAME K: every question at K; their seconds in one line. The answers are in the table at the end.
briefly() {
  local n
  printf 'k = %d:' "$2"
  for n in "${!question[@]}"; do
    ask "$1.$n" "$n" --k "$2"
    printf '  %6s s' "$(seconds "$1.$n")"
  done
  printf '\n'
}

# Both servers load at once. The second one is idle until the first one is done.
serve "$work/plain.log" "$ahead"
serve "$work/slow.log" "$ahead" SPECHOP_TARGET_INJECTED_LATENCY_MEAN_MS=$latency_mean \
  SPECHOP_TARGET_INJECTED_LATENCY_SIGMA_MS=$latency_sigma SPECHOP_TARGET_INJECTED_LATENCY_SEED=$latency_seed
servers=("${started[@]}")
warm "$work/plain.log" "${servers[0]}"

# Every question at k = 1 comes before any at a larger k: so the model has read other things between two askings of one
# question, and its cache of recent prompts helps neither.
echo "=== ${#question[@]} questions as it is: a look-up takes milliseconds ==="
briefly plain.one 1
briefly plain.many "$k"
memory=$(peak_memory)

injected="log-normal, mean $latency_mean ms, sigma $latency_sigma ms"
printf '\n=== with INJECTED web latency on every look-up (%s) ===\n' "$injected"
warm "$work/slow.log" "${servers[1]}"
briefly slow.one 1
for n in "${!question[@]}"; do
  printf '\n=== question %d of %d, k = %d: %s ===\n' $((n + 1)) ${#question[@]} "$k" "${question[n]}"
  ask "slow.many.$n" "$n" --k "$k" --watch
  # The heading says already that the latency is injected.
  grep -v '^INJECTED LATENCY' "$work/slow.many.$n.text"
  echo "seconds to this answer: $(seconds "slow.one.$n") at k = 1, $(seconds "slow.many.$n") at k = $k"
done
stop

printf '\n=== seconds from question to answer ===\n'
printf '%10s  %24s  %24s\n' '' 'as it is' 'INJECTED web latency'
printf '%10s  %8s%8s%8s  %8s%8s%8s   %s\n' '' 'k = 1' "k = $k" ratio 'k = 1' "k = $k" ratio 'answer (the data set says)'
different=0
for n in "${!question[@]}"; do
  printf 'question %d' $((n + 1))
  for pass in plain slow; do
    [ "$(answer "$pass.one.$n")" = "$(answer "$pass.many.$n")" ] || different=$((different + 1))
    awk -v one="$(cat "$work/$pass.one.$n.ms")" -v many="$(cat "$work/$pass.many.$n.ms")" \
      'BEGIN { printf "  %8.2f%8.2f%8.2f", one / 1000, many / 1000, many / one }'
  done
  printf '   %s (%s)\n' "$(answer "slow.many.$n")" "${expected[n]}"
done
echo "Speculation changed $different of these answers. Peak memory of the server: $memory."
cat <<END
The right half was slowed down on purpose ($injected), as web search is slow.
Planner and reader are small enough for a laptop: every step is real and cited, but not every answer is right.
END
