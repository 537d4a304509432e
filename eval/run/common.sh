# shellcheck shell=bash
# Read by eval/run.sh: which questions and indexes, and servers that are started, asked and ended.

# Sets QUESTIONS to the arguments that name them: COUNT of them at most. With an empty number, all of them if there is no
# COUNT. Arrays, since a folder's name may hold a blank.
questions() { # SET NUMBER [IDS]
  local count=${2:-${COUNT:-}}
  [ -z "$count" ] || [ "${COUNT:-$count}" -ge "$count" ] || count=$COUNT
  QUESTIONS=(--dataset "$1" --questions "$SPECHOP_DATA_DIR/eval/$1.jsonl" --ids "${3:-eval/datasets/own_mix_large.json}"
    ${count:+--count "$count"} --seed $SEED)
}

# Sets INDEX to the arguments that name an index, and its hot subset if that is not the one which lies in its folder.
index_of() { # SET [FRACTION]
  INDEX=(--set "index.dir=$INDEXES/$1-extended" ${2:+--set "speculator.hot_dir=$INDEXES/$1-hot-$2"})
}

# An index of a corpus of a data set, and its hot subsets. Those are cut out of it without encoding anything again. The usual
# one comes last, and stays.
indexed() { # SET CORPUS NAME HOT ARGUMENTS…
  local folder=$DATA/${FOLDER[$1]} corpus=$2 whole=$INDEXES/$3 hot=$INDEXES/$4 fraction
  shift 4
  for fraction in 0.05 0.10 0.25; do
    "$SPECHOP" index build --corpus "$folder/$corpus.jsonl" --out "$whole" --hot-fraction $fraction \
      --in-degree "$folder/title_mention_indegree.jsonl" "$@"
    rm -rf "$hot-$fraction"
    cp -r "$whole/hot" "$hot-$fraction"
  done
}

# A planner that knows the gold decompositions, as an endpoint, for as long as this script runs.
GOLD=()

# Indexes of a corpus by E5-small in full precision, with its hot subsets, and in eight bits.
in_both_precisions() { # SET CORPUS NAME
  in_full_precision "$@"
  "$SPECHOP" index build --corpus "$DATA/${FOLDER[$1]}/$2.jsonl" --model "$MODELS/$F32-int8" --out "$INDEXES/$3-int8"
}

in_full_precision() { # SET CORPUS NAME
  indexed "$1" "$2" "$3-f32" "$3-f32-hot" --model "$MODELS/$F32"
}

# What runs beside this shell, by PID: the file with what it has said.
declare -A SAID=()

# Whatever ends this shell also ends what runs beside it. A server does not mind a closed terminal by itself. A subshell has
# traps of its own.
end_together() {
  SAID=()
  trap 'kill "${!SAID[@]}" 2>/dev/null && wait; :' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

# Runs a command that takes long. A shell that waits for it so hears signals meanwhile.
awaited() { # COMMAND…
  local pid result=0
  "$@" &
  pid=$!
  SAID[$pid]=/dev/null
  wait $pid || result=$?
  unset "SAID[$pid]"
  return $result
}

# Starts something that prints `ready on ADDRESS`, waits for that, and sets ADDRESS and PID.
ready() { # COMMAND…
  local log
  log=$(mktemp)
  "$@" >"$log" 2>"$log.err" &
  PID=$!
  SAID[$PID]=$log.err
  for _ in $(seq 600); do
    ADDRESS=$(sed -n 's/^ready on //p' "$log")
    [ -n "$ADDRESS" ] && return
    kill -0 $PID 2>/dev/null || break
    sleep 0.2
  done
  cat "$log.err" >&2
  kill $PID 2>/dev/null || true
  wait $PID 2>/dev/null || true
  # Its number may soon be somebody else's.
  unset "SAID[$PID]"
  return 1
}

started() { ready "$SPECHOP" "$@"; } # ARGUMENTS…

# Ends it. Fails with what it said if it failed: only a replay itself knows that it was asked for what is not recorded.
ended() { # PID
  local result=0 said=${SAID[$1]}
  kill "$1" 2>/dev/null || true
  wait "$1" || result=$?
  unset "SAID[$1]"
  case $result in 0 | 143) return ;; esac
  cat "$said" >&2
  return $result
}

# Asks a server that this starts, and ends it.
asked() { # SERVER-ARGUMENTS… -- LIVE-ARGUMENTS…
  local server=() result=0
  while [ "$1" != -- ]; do server+=("$1"); shift; done
  shift
  started "${server[@]}" --listen 127.0.0.1:0 || return 1
  local pid=$PID
  awaited "$SPECHOP" eval live --addr "$ADDRESS" "$@" || result=$?
  ended $pid || result=1
  return $result
}

# A Qdrant that holds an index, as one node, in the folder STORED; sets ADDRESS and PID, too.
in_qdrant() { # INDEX
  STORED=$(mktemp -d)
  ready python3 deploy/upstream.py "$STORED" || return 1
  awaited "$SPECHOP" index push "$INDEXES/$1" --url "$ADDRESS" >/dev/null || { ended $PID || true; return 1; }
}

hash_of() { sha256sum "$1" | cut -c 1-16; }

# A model by its folder, and a hash of all that is in it: a tokenizer or a reader.toml changes what it says, too. Hidden is
# what `spechop models` has noted of it.
model_part() { # FOLDER
  local files hash=unknown
  files=$(cd "$SPECHOP_DATA_DIR/models/$1" && find -L . -type f ! -path '*/.*' -exec sha256sum {} + | LC_ALL=C sort -k 2) &&
    [ -n "$files" ] && hash=$(hash_of - <<<"$files")
  echo "$1 $hash"
}

# Sets PARTS to the arguments that name the models of the embedded default.
default_parts() {
  PARTS=(--part "planner=$(model_part spechop-planner-merged)" --part "reader=$(model_part spechop-reader)"
    --part "encoder=$(model_part "$ENCODER")")
}
