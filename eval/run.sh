#!/usr/bin/env bash
# Records, simulates, replays and asks live everything that the tables of docs/MEASURED.md come from.
#
#   eval/run.sh DATA [PART…]     DATA as eval/train/README.md describes it; parts: see the end of this file
#   eval/run.sh DATA prepare web web_guesses     over a local web: not among the usual parts; web_f32: with the encoder in full
#                                          precision
#   eval/run.sh DATA deepresearch          questions of DeepResearch-9K over a local web: six of ours in its form, or those of
#                                          DEEPRESEARCH=FILE (Parquet or JSON), of DIFFICULTY=L2 alone
#   eval/run.sh DATA prepare large_reads   a language model reads and the small reader guesses: not among the usual parts
#   eval/run.sh DATA prepare drafts        look-ups and tokens that are drafted while the planner writes, nothing injected
#   eval/run.sh DATA prepare ablation      who plans and who reads: a run for each configuration in eval/ablation
#   eval/run.sh DATA prepare words         what it is worth to answers that words count beside vectors
#   eval/run.sh DATA prepare answers       what the embedded default answers at k = 1, on every question of the own mix
#   eval/run.sh DATA prepare saturation    8, 16 and 64 questions of 2WikiMultihopQA at once, at k = 1, 3 and auto, nothing injected
#   eval/run.sh DATA prepare effort        answers and seconds of low, normal and high effort, on the same questions
#   eval/run.sh DATA prepare choice        what k = auto chooses, beside fixed settings, live with injected latency
#   eval/run.sh DATA decisions             100 decisions of the verifier on the embedded default, for a person to label
#   eval/run.sh DATA prepare retrieval retrieval_theirs  how well retrievers find gold passages (needs deploy/test-tools.sh): not
#                                          among the usual parts
#
# Every step goes on where it was stopped; what was recorded or asked is not run again. Stage times are wall times: nothing
# else should run beside it. SPECHOP, OUT and GOLD_PORT may be set;
# COUNT asks fewer questions of each sample (8 at least), to try it.
set -euo pipefail
cd "$(dirname "$0")/.."

DATA=${1:?say the folder of the data}
shift
SPECHOP=${SPECHOP:-target/release/spechop}
SPECHOP_DATA_DIR=$("$SPECHOP" data-dir)
export SPECHOP_DATA_DIR
OUT=${OUT:-eval/runs}
INDEXES=$SPECHOP_DATA_DIR/indexes
MODELS=$SPECHOP_DATA_DIR/models
ENCODER=$(cat "$MODELS/default-encoder" 2>/dev/null || echo e5-small-v2-int8)
F32=e5-small-v2
WEB=4150:1680:1
SEED=1

# Full speculation: what is guessed is never looked up.
FULL=k=1,verifier=none,target=off

declare -A FOLDER=([2wiki]=2wikimultihopqa [musique]=musique)
# ONLY takes one of them.
SETS=(${ONLY:-2wiki musique})
# As many questions as there are in the data set's own mix of kinds (eval/datasets/README.md).
declare -A ALL=([2wiki]=200 [musique]=150)
# How many of them are asked live.
LIVE=40

questions() { # SET COUNT [IDS]
  local count=$2
  [ "${COUNT:-$2}" -lt "$2" ] && count=$COUNT
  echo --dataset "$1" --questions "$SPECHOP_DATA_DIR/eval/$1.jsonl" --ids "${3:-eval/datasets/own_mix_large.json}" --count "$count" --seed $SEED
}

index_of() { # SET [FRACTION]
  local hot=${2:+$1-hot-$2}
  echo --set "index.dir=$INDEXES/$1-extended" --set "speculator.hot_dir=$INDEXES/${hot:-$1-extended/hot}"
}

prepare() {
  mkdir -p "$SPECHOP_DATA_DIR/eval"
  local set folder
  for set in "${SETS[@]}"; do
    folder=$DATA/${FOLDER[$set]}
    cat "$folder"/{questions,extra_questions,goldonly_covered}.jsonl >"$SPECHOP_DATA_DIR/eval/$set.jsonl"
    indexed "$set" corpus_extended "$set-extended" "$set-hot"
  done
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
gold_planner() {
  [ ${#GOLD[@]} -gt 0 ] && return
  local log
  log=$(mktemp)
  python3 eval/ablation/gold_planner.py --port ${GOLD_PORT:-18099} "$SPECHOP_DATA_DIR"/eval/{2wiki,musique}.jsonl >"$log" &
  trap "kill $! 2>/dev/null || true" EXIT
  until grep -q http "$log"; do sleep 0.2; done
  GOLD=(--system "gold planner" --set generator.kind=openai --set generator.style=tagged
    --set "generator.base_url=$(grep -o 'http[^ ]*' "$log")" --set generator.model=gold --set reader.kind=spans
    --part "planner=gold_planner.py $(sha256sum eval/ablation/gold_planner.py | cut -c 1-16)")
}

record() { # NAME SET COUNT ARGUMENTS…
  local name=$1 set=$2 count=$3
  shift 3
  echo "== record $name" >&2
  # shellcheck disable=SC2046
  "$SPECHOP" eval record $(questions "$set" "$count") --inject 0 --inject $WEB --mix-commits --out "$OUT/$name/bundle" "$@"
}

record_gold() {
  gold_planner
  local set
  for set in "${SETS[@]}"; do
    # shellcheck disable=SC2046
    record "$set-gold" "$set" ${ALL[$set]} --suite --variant $FULL $(index_of "$set") "${GOLD[@]}"
  done
}

record_own() {
  local set
  for set in "${SETS[@]}"; do
    # shellcheck disable=SC2046
    record "$set-own" "$set" ${ALL[$set]} --system "embedded default" --suite --variant $FULL $(index_of "$set")
  done
}

# Further speculators, into the gold planner's bundles.
record_speculators() {
  gold_planner
  local set fraction
  for set in "${SETS[@]}"; do
    for fraction in 0.05 0.10; do
      # shellcheck disable=SC2046
      record "$set-gold" "$set" ${ALL[$set]} --rename hot=hot-$fraction --variant k=3,speculator=hot-$fraction \
        $(index_of "$set" $fraction) "${GOLD[@]}"
    done
  done
}

# Language models from memory are slow here: fewer questions, a bundle of their own.
record_llm() {
  gold_planner
  local set name
  local -A guesser=([llm-135m]=smollm2-135m-instruct [llm-1.5b]=qwen2.5-coder-1.5b-instruct)
  for set in "${SETS[@]}"; do
    for name in llm-135m llm-1.5b; do
      # shellcheck disable=SC2046
      record "$set-gold-llm" "$set" 30 --k 1 --rename llm=$name --rename hot=hot-by-$name --variant k=3,speculator=$name \
        --variant $FULL,speculator=$name $(index_of "$set") \
        "${GOLD[@]/gold planner/gold planner, models guess from memory}" \
        --set speculator.model.kind=local --set speculator.model.style=tagged \
        --set "speculator.model.file=$SPECHOP_DATA_DIR/models/${guesser[$name]}/model.gguf"
    done
  done
}

record_large() {
  local set
  for set in "${SETS[@]}"; do
    # shellcheck disable=SC2046
    record "$set-1.5b" "$set" 5 --k 1,3 --system "Qwen2.5-Coder-1.5B" $(index_of "$set") \
      --set generator.kind=local --set generator.style=tagged --set reader.kind=generator \
      --set "generator.file=$SPECHOP_DATA_DIR/models/qwen2.5-coder-1.5b-instruct/model.gguf"
  done
}

# What each bundle can be played with.
variants_of() { # NAME
  case $1 in
    *-gold) echo --suite --variant $FULL --control blind --control silent --variant k=3,speculator=hot-0.05 --variant k=3,speculator=hot-0.10 ;;
    *-gold-llm) echo --k 1 --variant k=3,speculator=llm-135m --variant $FULL,speculator=llm-135m \
      --variant k=3,speculator=llm-1.5b --variant $FULL,speculator=llm-1.5b ;;
    *-own) echo --suite --variant $FULL --control blind --control silent ;;
    *-1.5b) echo --k 1,3 ;;
  esac
}

simulate() {
  local bundle name
  for bundle in "$OUT"/*/bundle; do
    name=$(basename "$(dirname "$bundle")")
    echo "== simulate $name" >&2
    # shellcheck disable=SC2046
    for latency in 0 $WEB; do
      "$SPECHOP" eval simulate --bundle "$bundle" $(variants_of "$name") --inject $latency \
        --out "$OUT/$name/simulated-${latency%%:*}" >"$OUT/$name/simulated-${latency%%:*}.txt"
    done
  done
}

# Starts something that prints `ready on ADDRESS`, waits for that, and sets ADDRESS and PID.
ready() { # COMMAND…
  local log
  log=$(mktemp)
  "$@" >"$log" 2>"$log.err" &
  PID=$!
  for _ in $(seq 600); do
    grep -q '^ready on' "$log" && break
    kill -0 $PID 2>/dev/null || { cat "$log.err" >&2; return 1; }
    sleep 0.2
  done
  ADDRESS=$(sed -n 's/^ready on //p' "$log")
}

started() { ready "$SPECHOP" "$@"; } # ARGUMENTS…

ended() { # PID
  kill "$1"
  wait "$1" || true
}

# Asks a server that this starts, and ends it.
asked() { # SERVER-ARGUMENTS… -- LIVE-ARGUMENTS…
  local server=() result=0
  while [ "$1" != -- ]; do server+=("$1"); shift; done
  shift
  started "${server[@]}" --listen 127.0.0.1:0 || return 1
  local pid=$PID
  "$SPECHOP" eval live --addr "$ADDRESS" "$@" || result=$?
  ended $pid
  return $result
}

# What the embedded default answers at k = 1, on every question of the data sets' own mix.
answers() {
  local set
  for set in "${SETS[@]}"; do
    # shellcheck disable=SC2046
    asked serve $(index_of "$set") --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none -- \
      $(questions "$set" ${ALL[$set]}) --k 1 --system "embedded default" \
      --part "encoder=$(model_part "$ENCODER/model.onnx")" --out "$OUT/answers/$set"
  done
}

# What more or less effort is worth, by turns with the standard agent.
effort() {
  local set
  for set in "${SETS[@]}"; do
    # shellcheck disable=SC2046
    asked serve $(index_of "$set") --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none -- \
      $(questions "$set" ${ALL[$set]}) --k 1 --variant k=1,effort=low --variant k=1,effort=high --system "embedded default" \
      --part "encoder=$(model_part "$ENCODER/model.onnx")" --part "reader=$(model_part spechop-reader/model.onnx)" \
      --out "$OUT/effort/$set"
  done
}

# What `k = auto` chooses, live, beside fixed settings of k, planning ahead and the least chance; the latency of web search,
# twelve questions at once, which leave the machine idle most of the time. The server has learnt from 60 other questions
# before, as one that has run for an hour has. CALL_WORTH is what it takes for the price of a target call.
choice() {
  local set folder result=0
  folder=$(mktemp -d)
  for set in "${SETS[@]}"; do
    echo "== choice $set" >&2
    unsampled "$set" 60 >"$folder/ids.json"
    # shellcheck disable=SC2046
    started serve $(index_of "$set") --set question.verifier=exact --set question.confidence_min=0 --set tuning.state=none \
      --set "tuning.call_worth=${CALL_WORTH:-0.05}" --set target.injected_latency.mean_ms=4150 \
      --set target.injected_latency.sigma_ms=1680 --set target.injected_latency.seed=1 --listen 127.0.0.1:0
    # shellcheck disable=SC2046
    "$SPECHOP" eval live --addr "$ADDRESS" $(questions "$set" 60 "$folder/ids.json") --without-standard --variant k=auto \
      --concurrency 12 --system "embedded default" --out "$folder/$set" >/dev/null || result=$?
    # shellcheck disable=SC2046
    "$SPECHOP" eval live --addr "$ADDRESS" $(questions "$set" 60) --k 1 --variant k=3 --variant k=4 --variant k=4,plan-ahead=on \
      --variant k=4,plan-ahead=on,chance-min=0.1 --variant k=8,plan-ahead=on --variant k=auto --concurrency 12 \
      --system "embedded default" --part "encoder=$(model_part "$ENCODER/model.onnx")" \
      --part "reader=$(model_part spechop-reader/model.onnx)" --out "$OUT/choice/$set" || result=$?
    ended $PID
  done
  return $result
}

# Questions that stand in no sample.
unsampled() { # SET COUNT
  python3 - "$SPECHOP_DATA_DIR/eval/$1.jsonl" "$1" "$2" <<'END'
import json, random, sys
sampled = set(json.load(open("eval/datasets/own_mix_large.json"))[sys.argv[2]])
every = [row.get("_id") or row["id"] for row in map(json.loads, open(sys.argv[1]))]
others = [one for one in every if one not in sampled]
print(json.dumps({sys.argv[2]: random.Random(1).sample(others, int(sys.argv[3]))}))
END
}

# The recorded stages, waited for: what the service itself adds. Eight times as fast.
replay() {
  local set jobs=()
  for set in "${SETS[@]}"; do
    echo "== replay $set-gold" >&2
    # shellcheck disable=SC2046
    asked eval replay --bundle "$OUT/$set-gold/bundle" --inject $WEB --speed 8 -- \
      $(questions "$set" 100) --speed 8 --k 1,2,3 --of "$OUT/$set-gold/bundle" --out "$OUT/$set-gold/replayed-4150" &
    jobs+=($!)
  done
  # Nothing computes: one does not disturb the other.
  local job result=0
  for job in "${jobs[@]}"; do wait "$job" || result=$?; done
  return $result
}

# The embedded default, computing: with added latency, and as it is.
live() {
  local set web=()
  web=(--set target.injected_latency.mean_ms=4150 --set target.injected_latency.sigma_ms=1680 --set target.injected_latency.seed=1)
  for set in "${SETS[@]}"; do
    echo "== live $set-own" >&2
    # shellcheck disable=SC2046
    asked serve $(index_of "$set") --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none -- \
      $(questions "$set" $LIVE) --k 1,3 --of "$OUT/$set-own/bundle" --out "$OUT/$set-own/live-0"
    full "$set" live-0
    # shellcheck disable=SC2046
    asked serve $(index_of "$set") --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none "${web[@]}" -- \
      $(questions "$set" $LIVE) --k 1,3,inf --concurrency 1,8 --of "$OUT/$set-own/bundle" --out "$OUT/$set-own/live-4150"
    full "$set" live-4150
  done
}

# Full speculation, beside the rows of a live run. Its server has the hot subset alone, and reads as many passages as are
# read for a guess, so its look-ups are the guesses of the other server.
full() { # SET RUN
  local hot=$INDEXES/$1-extended/hot result=0
  started serve --set "index.dir=$hot" --set "speculator.hot_dir=$hot" --set question.passages=2 \
    --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none --listen 127.0.0.1:0
  # shellcheck disable=SC2046
  "$SPECHOP" eval live --addr "$ADDRESS" --target-off "$ADDRESS" $(questions "$1" $LIVE) --without-standard --variant $FULL \
    --of "$OUT/$1-own/bundle" --out "$OUT/$1-own/$2" || result=$?
  ended $PID
  return $result
}

# A language model reads, in the process, and by default our small reader guesses for it over the same passages. Nothing is
# injected. Each reading has a core, so one takes as long whether or not another runs beside it. LARGE names the model;
# with PLANS=large it plans, too.
large_reads() {
  local set large=() model=${LARGE:-qwen2.5-coder-1.5b-instruct} name=large-reads
  large=(file="$SPECHOP_DATA_DIR/models/$model/model.gguf" workers=2 threads=1)
  local server=(--set reader.kind=local "${large[@]/#/--set=reader.}") system="our planner, $model reads"
  if [ "${PLANS:-}" = large ]; then
    server=(--set generator.kind=local --set generator.style=tagged "${large[@]/#/--set=generator.}" --set reader.kind=generator)
    system="$model plans and reads" name=large-plans
  fi
  for set in "${SETS[@]}"; do
    echo "== $name $set" >&2
    # shellcheck disable=SC2046
    asked serve $(index_of "$set") "${server[@]}" --set question.verifier=exact --set tuning.state=none -- \
      $(web_questions "$set" 30) --variant k=3,speculator=index,verifier=exact --variant k=auto,speculator=index,verifier=exact --system "$system" \
      --part "model=$(model_part "$model/model.gguf")" \
      --part "small reader=$(model_part spechop-reader/model.onnx)" --out "$OUT/$set-$name/live-0"
  done
}

# Look-ups that are drafted while the planner writes, on the embedded default, nothing injected: k = 1 drafts nothing,
# k = 3 one look-up a hop, auto if it has paid. All of that without draft tokens (`off`) and with them (`on`).
drafts() {
  local set way tokens
  for set in "${SETS[@]}"; do
    for way in off on; do
      echo "== drafts $set-$way" >&2
      tokens=false
      [ $way = on ] && tokens=true
      # shellcheck disable=SC2046
      asked serve $(index_of "$set") --set generator.draft_tokens=$tokens --set question.drafts=auto --set question.verifier=exact \
        --set question.confidence_min=0 --set tuning.state=none -- \
        $(questions "$set" "$DRAFTS") --k 1 --variant k=3,verifier=exact,drafts=1 --variant k=auto,verifier=exact \
        --system "embedded default, draft tokens $way" \
        --part "planner=$(model_part spechop-planner-merged/model.gguf)" --part "reader=$(model_part spechop-reader/model.onnx)" \
        --out "$OUT/drafts/$set-$way"
    done
  done
}
# More than are asked elsewhere: auto learns as it goes.
DRAFTS=100

# The embedded default over a local web, which holds the whole corpus: nothing is injected into the server. The local
# index guesses. Questions in the data sets' own mix of kinds.
web() {
  local set
  for set in "${SETS[@]}"; do
    over_web "$set" -- "$OUT/web/$set" 100 "${WEB_WAYS[@]}"
  done
}
WEB_WAYS=(--k 1 --variant k=auto,speculator=index --variant k=auto,speculator=index,plan-ahead=on)

# The same with the encoder in full precision, which ranks the passages of pages and searches the index.
web_f32() {
  local set ENCODER=$F32
  for set in "${SETS[@]}"; do
    in_full_precision "$set" corpus_extended "$set"
    over_web "$set" --set "encoder.dir=$MODELS/$F32" --set "index.dir=$INDEXES/$set-f32" \
      --set "speculator.hot_dir=$INDEXES/$set-f32/hot" -- "$OUT/web/$set-f32" 100 "${WEB_WAYS[@]}"
  done
}

# Who guesses how much, and rightly. It is no matter of the web's times, so it has shorter ones, as long as every guess is
# there before them. The memory has seen half of the questions; each of those who use it begins with the same memory, and
# nothing is asked at k = 1, from which it would learn the other half.
web_guesses() {
  local set memory=$OUT/web/memory guesser WEB=1500:300:1
  mkdir -p "$memory"
  for set in "${SETS[@]}"; do
    over_web "$set" -- "$OUT/web/$set-guesses" 100 --variant k=3,speculator=hot --variant k=3,speculator=index --without-standard
    over_web "$set" --set "speculator.memory_file=$memory/$set.json" -- "$OUT/web/$set-half" 50 --k 1
    for guesser in memory cascade; do
      [ -e "$memory/$set-$guesser.json" ] || cp "$memory/$set.json" "$memory/$set-$guesser.json"
      over_web "$set" --set "speculator.memory_file=$memory/$set-$guesser.json" -- "$OUT/web/$set-$guesser" 100 \
        --variant "k=3,speculator=$guesser" --without-standard
    done
  done
}

# Who plans and who reads: each configuration of eval/ablation, at k = 1. Slow models are asked fewer questions, always the
# first of the same order. A model that answers with nothing that can be used leaves a row out; the report says so.
ablation() {
  local file name set model config count parts
  for file in eval/ablation/*.toml; do
    name=$(basename "$file" .toml) config=$(mktemp --suffix .toml)
    count=$(sed -n 's/^# questions: //p' "$file")
    sed "s#\"DATA/#\"$SPECHOP_DATA_DIR/#" "$file" >"$config"
    parts=(--part "configuration=$(basename "$file") $(hash_of "$file")")
    for model in $(sed -n 's#^file = "DATA/models/\(.*\)"#\1#p' "$file"); do parts+=(--part "model=$(model_part "$model")"); done
    for set in "${SETS[@]}"; do
      echo "== ablation $set-$name" >&2
      # shellcheck disable=SC2046
      asked serve --config "$config" $(index_of "$set") --set question.confidence_min=0 --set tuning.state=none \
        --set question.segment_ms_max=900000 --set question.target_ms_max=900000 --set question.deadline_ms=3600000 -- \
        $(questions "$set" "$count") --k 1 --system "$(sed -n '1s/^# //p' "$file")" "${parts[@]}" --deadline 3600 \
        --out "$OUT/ablation/$set-$name" || echo "ablation $set-$name is not whole" >&2
    done
  done
  ablation_report
}

ablation_report() {
  local runs
  shopt -s nullglob
  runs=("$OUT"/ablation/{2wiki,musique}-*/)
  "$SPECHOP" eval report "${runs[@]}" --out "$OUT/ablation/report"
}

# What it is worth to answers that words count beside vectors: k = 1, on every question that nothing was trained on.
words() {
  local set weight runs=()
  for set in "${SETS[@]}"; do
    for weight in 0 0.2; do
      echo "== words $set $weight" >&2
      # shellcheck disable=SC2046
      asked serve $(index_of "$set") --set index.lexical_weight=$weight --set question.confidence_min=0 --set tuning.state=none -- \
        --dataset "$set" --questions "$SPECHOP_DATA_DIR/eval/$set.jsonl" --ids eval/datasets/untrained.json --k 1 \
        --system "embedded default, words count $weight" --part "planner=$(model_part spechop-planner-merged/model.gguf)" \
        --part "reader=$(model_part spechop-reader/model.onnx)" --out "$OUT/words/$set-$weight"
    done
  done
  shopt -s nullglob
  runs=("$OUT"/words/{2wiki,musique}-*/)
  "$SPECHOP" eval report "${runs[@]}" --out "$OUT/words/report"
}

# Which retriever finds the gold passages. The weight of words is fitted on questions that no table is about.
retrieval() {
  local set on=()
  asked_hops
  for set in "${SETS[@]}"; do
    on+=(--on "$set" "$SPECHOP_DATA_DIR/eval/$set-look-ups.jsonl" "$INDEXES/$set-f32")
    in_both_precisions "$set" corpus_extended "$set"
  done
  # The runs that are there name the fit they were made with.
  [ -e "$OUT/retrieval/fit.json" ] || "$SPECHOP" eval fit-words --model "$MODELS/$F32" "${on[@]}" \
    --held-out eval/datasets/untrained.json --out "$OUT/retrieval/fit.json"
  for set in "${SETS[@]}"; do
    retrieved "$set" "$set" --within "$SPECHOP_DATA_DIR/eval/$set-corpus.jsonl" --held-out eval/datasets/untrained.json \
      --fit "$OUT/retrieval/fit.json" --fp32
  done
}

# The same over HippoRAG's corpora alone, on those of its questions that are here: retrievers that have an index of their own.
retrieval_theirs() {
  local set eval=$SPECHOP_DATA_DIR/eval
  asked_hops
  for set in "${SETS[@]}"; do
    in_both_precisions "$set" corpus "$set-theirs"
    python3 eval/datasets/sample_ids.py "$eval/$set-look-ups.jsonl" "$eval/$set-corpus.jsonl" >"$eval/$set-sample.json"
    retrieved "$set" "$set-theirs" --held-out "$eval/$set-sample.json"
  done
}

# The questions and hops that retrievers are asked, and HippoRAG's corpora.
asked_hops() {
  local set
  mkdir -p "$SPECHOP_DATA_DIR/eval"
  for set in "${SETS[@]}"; do
    python3 eval/datasets/make_look_ups.py "$DATA" "$set" "$SPECHOP_DATA_DIR/eval/$set-look-ups.jsonl"
    cp "$DATA/${FOLDER[$set]}/corpus.jsonl" "$SPECHOP_DATA_DIR/eval/$set-corpus.jsonl"
  done
}

# Asks every retriever over the indexes of this name. The first encoder is that in full precision.
retrieved() { # SET NAME ARGUMENTS…
  local set=$1 name=$2 qdrant result=0 hot
  shift 2
  echo "== retrieval $name" >&2
  in_qdrant "$name-f32"
  qdrant=$PID hot=$INDEXES/$name-f32-hot
  "$SPECHOP" eval retrieval --dataset "$set" --model "$MODELS/$F32" --index "$INDEXES/$name-f32" \
    --look-ups "$SPECHOP_DATA_DIR/eval/$set-look-ups.jsonl" \
    --hot "hot 5 %=$hot-0.05" --hot "hot 10 %=$hot-0.10" --hot "hot 25 %=$hot-0.25" \
    --other "encoder in eight bits=$INDEXES/$name-int8" --other-model "$MODELS/$F32-int8" \
    --qdrant "$ADDRESS" --out "$OUT/retrieval/$name" "$@" >/dev/null || result=$?
  ended $qdrant
  rm -rf "$STORED"
  return $result
}

# Indexes of a corpus by E5-small in full precision, with its hot subsets, and in eight bits.
in_both_precisions() { # SET CORPUS NAME
  in_full_precision "$@"
  "$SPECHOP" index build --corpus "$DATA/${FOLDER[$1]}/$2.jsonl" --model "$MODELS/$F32-int8" --out "$INDEXES/$3-int8"
}

in_full_precision() { # SET CORPUS NAME
  indexed "$1" "$2" "$3-f32" "$3-f32-hot" --model "$MODELS/$F32"
}

# A Qdrant that holds an index, as one node, in the folder STORED; sets ADDRESS and PID, too.
in_qdrant() { # INDEX
  STORED=$(mktemp -d)
  ready python3 deploy/upstream.py "$STORED" || return 1
  "$SPECHOP" index push "$INDEXES/$1" --url "$ADDRESS" >/dev/null || { ended $PID; return 1; }
}

hash_of() { sha256sum "$1" | cut -c 1-16; }

# A model by its folder, file and hash.
model_part() { echo "$1 $(hash_of "$SPECHOP_DATA_DIR/models/$1")"; }

corpus_of() { # SET
  case $1 in
    deepresearch) echo eval/datasets/2wikimultihopqa/corpus.jsonl.gz ;;
    *) echo "$DATA/${FOLDER[$1]}/corpus_extended.jsonl" ;;
  esac
}

web_questions() { # SET COUNT
  case $1 in
    deepresearch) echo --dataset deepresearch --questions "${DEEPRESEARCH:-eval/datasets/deepresearch/sample.parquet}" ${DIFFICULTY:+--kind "$DIFFICULTY"} ;;
    *) questions "$1" "$2" eval/datasets/own_mix.json ;;
  esac
}

# DeepResearch-9K, or what has its form. The local index guesses; it holds the pages of the local web.
deepresearch() {
  "$SPECHOP" index build --corpus "$(corpus_of deepresearch)" --out "$INDEXES/deepresearch-extended" --hot-fraction 0.25 \
    --in-degree eval/datasets/2wikimultihopqa/in_degree.jsonl.gz
  over_web deepresearch -- "$OUT/web/deepresearch" 0 --k 1 --variant k=3,speculator=index --variant k=auto,speculator=index
}

# Asks a server over a local web with the whole corpus of a data set. What was kept of earlier look-ups would make later
# variants fast, so nothing is. The usual limit would cut one search in two hundred off: the local web is as slow again
# whenever it is asked the same, so trying again would not help.
over_web() { # SET SERVER-ARGUMENTS… -- OUT COUNT LIVE-ARGUMENTS…
  local set=$1 server=() out count corpus web result=0
  shift
  while [ "$1" != -- ]; do server+=("$1"); shift; done
  out=$2 count=$3
  shift 3
  echo "== web $out" >&2
  corpus=$(corpus_of "$set")
  started eval web --corpus "$corpus" --latency "${WEB%:*}" --seed $SEED --listen 127.0.0.1:0
  web=$PID
  # shellcheck disable=SC2046
  asked serve $(index_of "$set") --set target.kind=web --set web.providers=searxng --set "web.searxng.url=http://$ADDRESS" \
    --set "web.allow=$ADDRESS" --set web.keep_s=0 --set web.searxng.ms_max=30000 --set speculator.kind=index --set question.verifier=rule --set question.confidence_min=0 \
    --set tuning.state=none "${server[@]}" -- \
    $(web_questions "$set" "$count") --concurrency "${CONCURRENCY:-1}" \
    --system "embedded default, web" --part "web=$(basename "$corpus") $(hash_of "$corpus"), ${WEB%:*} ms" \
    --part "planner=$(model_part spechop-planner-merged/model.gguf)" --part "reader=$(model_part spechop-reader/model.onnx)" \
    --part "encoder=$(model_part "$ENCODER/model.onnx")" --out "$out" "$@" || result=$?
  ended $web
  return $result
}

# What speculation takes from a machine that has no room for it: the embedded default, 8, 16 and 64 questions at once.
saturation() {
  echo "== saturation" >&2
  python3 eval/bench/saturation.py --spechop "$SPECHOP" --index "$INDEXES/2wiki-extended" \
    --questions "$SPECHOP_DATA_DIR/eval/2wiki.jsonl" --out "$OUT/saturation"
}

# Decisions about guesses that the paper's verifier lets pass, too. A stage behind such a guess may not be recorded.
decisions() {
  local set folder
  folder=$(mktemp -d)
  for set in "${SETS[@]}"; do
    "$SPECHOP" eval simulate --bundle "$OUT/$set-own/bundle" --variant k=1 --variant k=4 --variant k=4,verifier=paper \
      --whole-only --out "$folder/$set" >/dev/null
  done
  mkdir -p "$OUT/decisions"
  "$SPECHOP" eval decisions "$folder"/* --out "$OUT/decisions/sample.jsonl"
}

report() {
  local runs
  shopt -s nullglob
  runs=("$OUT"/{2wiki,musique}-*/{simulated,replayed,live}-*/ "$OUT"/web/{2wiki,musique,deepresearch}/)
  "$SPECHOP" eval report "${runs[@]}" --out "$OUT/report"
}

# Read whole before anything begins: it may be edited while it runs.
main() {
  local part parts=(prepare record_gold record_own record_speculators record_llm record_large simulate replay live report)
  [ $# -gt 0 ] && parts=("$@")
  for part in "${parts[@]}"; do
    $part
  done
  exit
}
main "$@"
