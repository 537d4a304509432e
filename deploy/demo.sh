#!/usr/bin/env bash
# Three real multi-hop questions over gRPC, without and with speculation, as they come; then once more with the
# latency of web search injected, so that the effect shows on a small machine too.
#     demo.sh SPECHOP_BINARY
set -euo pipefail
cd "$(dirname "$0")/.."

spechop=$1
questions=eval/datasets/2wikimultihopqa/demo_questions.jsonl
k=4
# Web search as measured in the paper, in milliseconds.
latency_mean=4150
latency_sigma=1680
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

# start [VARIABLE=VALUE…]: a server on a free loopback port; returns when it accepts questions.
start() {
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  env "$@" SPECHOP_SERVER_LISTEN="127.0.0.1:$port" "$spechop" serve --config deploy/demo.toml >"$log" 2>&1 &
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
}

# ask NAME QUESTION FLAG…: shows the run and notes its wall clock, in milliseconds, under NAME.
ask() {
  local name=$1 question=$2 begin end
  shift 2
  begin=${EPOCHREALTIME/[.,]/}
  if ! "$spechop" ask "$question" --addr "127.0.0.1:$port" "$@"; then
    echo "demo: no answer; the server's last words:" >&2
    tail -n 20 "$log" >&2
    exit 1
  fi
  end=${EPOCHREALTIME/[.,]/}
  echo $(((end - begin) / 1000)) >"$work/$name"
}

# pass TITLE: every question at k = 1, then every question at k, then what they took. In this order, so that the
# model has read other things between two askings of one question: its cache of recent prompts helps neither.
pass() {
  local title=$1 n one many
  # The fixed part of every prompt is read once, before anything is measured.
  "$spechop" ask "Who is the mother of the director of film Polish-Russian War?" --addr "127.0.0.1:$port" --k "$k" \
    >/dev/null 2>&1 || true
  for n in "${!question[@]}"; do
    heading "$title" "$n" 'k = 1: one step after the other'
    ask "one.$n" "${question[n]}" --k 1
  done
  for n in "${!question[@]}"; do
    heading "$title" "$n" "k = $k: speculating"
    ask "many.$n" "${question[n]}" --k "$k" --watch
  done
  printf '\n=== %s · seconds from question to answer ===\n' "$title"
  printf '%10s %10s %10s\n' 'k = 1' "k = $k" 'ratio'
  for n in "${!question[@]}"; do
    one=$(cat "$work/one.$n") many=$(cat "$work/many.$n")
    awk -v one="$one" -v many="$many" -v q="${question[n]}" \
      'BEGIN { printf "%10.2f %10.2f %10.2f   %s\n", one / 1000, many / 1000, many / one, q }'
  done
  awk '/^VmHWM:/ { printf "peak memory of the server: %d MiB\n", $2 / 1024 }' "/proc/$server/status"
}

heading() {
  printf '\n=== %s · question %d of %d · %s ===\n%s\n(the dataset says: %s)\n\n' \
    "$1" $(($2 + 1)) ${#question[@]} "$3" "${question[$2]}" "${expected[$2]}"
}

question=() expected=()
while IFS=$'\t' read -r q a; do
  question+=("$q") expected+=("$a")
done < <(python3 -c '
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line)
    print(record["question"], record["answer"], sep="\t")' "$questions")

# Where there is no guess, planning goes on with the answer left open: off by default, since it costs segments.
plan_ahead=SPECHOP_QUESTION_PLAN_AHEAD=true

echo "starting the server"
start $plan_ahead
pass "as it is"
stop

injected="log-normal, mean $latency_mean ms, sigma $latency_sigma ms"
echo
echo "starting the server again, with INJECTED latency on every look-up ($injected)"
start $plan_ahead SPECHOP_TARGET_INJECTED_LATENCY_MEAN_MS=$latency_mean SPECHOP_TARGET_INJECTED_LATENCY_SIGMA_MS=$latency_sigma \
  SPECHOP_TARGET_INJECTED_LATENCY_SEED=1
pass "with INJECTED web latency"
cat <<END

The second pass's look-ups were slowed down on purpose ($injected), as web search is slow.
Planner and reader are small enough for a laptop: every step is real and cited, but not every answer is right.
END
