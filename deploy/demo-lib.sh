# What the demonstrations share; sourced, after `spechop` is set to the binary. Whatever was started is ended when the
# script ends.

questions=eval/datasets/2wikimultihopqa/demo_questions.jsonl
start_seconds_max=120

work=$(mktemp -d)
started=() # process ids
# stop: ends what was started.
stop() {
  local process
  for process in "${started[@]}"; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  started=()
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# launch LOG COMMAND…: starts a command that prints `ready on ADDRESS` to LOG.
launch() {
  local log=$1
  shift
  : >"$log"
  "$@" >"$log" 2>"$log.err" &
  started+=($!)
}

# ready LOG PROCESS: waits until that command is ready, and sets `address`.
ready() {
  local log=$1 process=$2 deadline=$((SECONDS + start_seconds_max))
  until address=$(sed -n 's/^ready on //p' "$log") && [ -n "$address" ]; do
    if ! kill -0 "$process" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
      echo "demo: this did not start; its last words:" >&2
      tail -n 20 "$log.err" >&2
      exit 1
    fi
    sleep 0.2
  done
}

# serve LOG [VARIABLE=VALUE…]: begins to start a server on a free loopback port.
serve() {
  local log=$1
  shift
  launch "$log" env "$@" "$spechop" serve --config deploy/demo.toml --listen 127.0.0.1:0
}

# warm LOG PROCESS: returns when that server accepts questions, has read the fixed part of every prompt and has made a
# guess, so that no question pays for it. Its first look-up may be slow on purpose, and is not waited for. Every `ask`
# goes to this server from then on.
warm() {
  local asking
  log=$1 server=$2
  ready "$log" "$server"
  "$spechop" ask "Who is the mother of the director of film Polish-Russian War?" --addr "$address" \
    --k 4 --hop-budget 1 --watch=events >/dev/null 2>"$work/first" &
  asking=$!
  # The file comes with the process.
  until grep -qs '~ guess:\|~ no idea' "$work/first" || ! kill -0 "$asking" 2>/dev/null; do
    sleep 0.1
  done
  kill "$asking" 2>/dev/null || true
  wait "$asking" 2>/dev/null || true
}

# ask NAME N FLAG…: question N; its answer to NAME.text and its wall clock in milliseconds to NAME.ms.
ask() {
  local name=$1 n=$2 begin end
  shift 2
  begin=${EPOCHREALTIME/[.,]/}
  if ! "$spechop" ask "${question[n]}" --addr "$address" "$@" >"$work/$name.text"; then
    echo "demo: no answer; the server's last words:" >&2
    tail -n 20 "$log.err" >&2
    exit 1
  fi
  end=${EPOCHREALTIME/[.,]/}
  echo $(((end - begin) / 1000)) >"$work/$name.ms"
}

# seconds NAME: how long that run took.
seconds() {
  awk '{ printf "%.2f", $1 / 1000 }' "$work/$1.ms"
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
