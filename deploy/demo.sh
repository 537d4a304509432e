#!/usr/bin/env bash
# Three real multi-hop questions over gRPC, without and with speculation: as it is, and with the latency of web search
# injected into every look-up, so that the effect shows on a small machine too. Each question is shown once, while it
# is answered with speculation and injected latency; a table at the end holds the times of all runs.
#     demo.sh SPECHOP_BINARY
set -euo pipefail
cd "$(dirname "$0")/.."

spechop=$1
questions=eval/datasets/2wikimultihopqa/demo_questions.jsonl
k=4
# Web search as measured in the paper, in milliseconds.
latency_mean=4150
latency_sigma=1680
latency_seed=1
start_seconds_max=120

work=$(mktemp -d)
log=$work/server.log
server=
stop() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
  fi
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# start [VARIABLE=VALUE…]: a server on a free loopback port; returns when it accepts questions and has read the fixed
# part of every prompt, so that no question pays for it. If there is no guess, the server plans on with the answer left
# open: that is off by default, since it costs segments.
start() {
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  env "$@" SPECHOP_QUESTION_PLAN_AHEAD=true SPECHOP_SERVER_LISTEN="127.0.0.1:$port" \
    "$spechop" serve --config deploy/demo.toml >"$log" 2>&1 &
  server=$!
  local deadline=$((SECONDS + start_seconds_max))
  until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    if ! kill -0 "$server" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
      echo "demo: the server did not start:" >&2
      tail -n 20 "$log" >&2
      exit 1
    fi
    sleep 0.2
  done
  "$spechop" ask "Who is the mother of the director of film Polish-Russian War?" --addr "127.0.0.1:$port" \
    --k "$k" --hop-budget 1 >/dev/null 2>&1 || true
}

# ask NAME N FLAG…: question N, its answer for people to NAME.text and its wall clock in milliseconds to NAME.ms.
ask() {
  local name=$1 n=$2 begin end
  shift 2
  begin=${EPOCHREALTIME/[.,]/}
  if ! "$spechop" ask "${question[n]}" --addr "127.0.0.1:$port" "$@" >"$work/$name.text"; then
    echo "demo: no answer; the server's last words:" >&2
    tail -n 20 "$log" >&2
    exit 1
  fi
  end=${EPOCHREALTIME/[.,]/}
  echo $(((end - begin) / 1000)) >"$work/$name.ms"
}

# seconds NAME: how long that run took.
seconds() {
  awk '{ printf "%.2f", $1 / 1000 }' "$work/$1.ms"
}

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

peak_memory() {
  awk '/^VmHWM:/ { printf "%d MiB", $2 / 1024 }' "/proc/$server/status"
}

question=() expected=()
while IFS=$'\t' read -r q a; do
  question+=("$q") expected+=("$a")
done < <(python3 -c '
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line)
    print(record["question"], record["answer"], sep="\t")' "$questions")

# Every question at k = 1 comes before any at a larger k: so the model has read other things between two askings of one
# question, and its cache of recent prompts helps neither.
echo "=== ${#question[@]} questions as it is: a look-up takes milliseconds ==="
start
briefly plain.one 1
briefly plain.many "$k"
memory=$(peak_memory)
stop

injected="log-normal, mean $latency_mean ms, sigma $latency_sigma ms"
printf '\n=== with INJECTED web latency on every look-up (%s) ===\n' "$injected"
start SPECHOP_TARGET_INJECTED_LATENCY_MEAN_MS=$latency_mean SPECHOP_TARGET_INJECTED_LATENCY_SIGMA_MS=$latency_sigma \
  SPECHOP_TARGET_INJECTED_LATENCY_SEED=$latency_seed
briefly slow.one 1
for n in "${!question[@]}"; do
  printf '\n=== question %d of %d, k = %d: %s ===\n' $((n + 1)) ${#question[@]} "$k" "${question[n]}"
  ask "slow.many.$n" "$n" --k "$k" --watch
  cat "$work/slow.many.$n.text"
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
