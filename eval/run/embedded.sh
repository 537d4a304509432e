# shellcheck shell=bash
# Read by eval/run.sh: further parts over the embedded index, each named by itself.

# What the embedded default answers at k = 1, on every question of the data sets' own mix.
answers() {
  local set
  default_parts
  for set in "${SETS[@]}"; do
    index_of "$set"
    questions "$set" "${ALL[$set]}"
    asked serve "${INDEX[@]}" --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none -- \
      "${QUESTIONS[@]}" --k 1 --system "embedded default" "${PARTS[@]}" --out "$OUT/answers/$set"
  done
}

# The same over HippoRAG's corpora alone, on those of its questions that are here and that nothing was trained on.
answers_theirs() {
  local set ids
  default_parts
  ids=$(mktemp)
  for set in "${SETS[@]}"; do
    echo "== answers theirs $set" >&2
    "$SPECHOP" index build --corpus "$DATA/${FOLDER[$set]}/corpus.jsonl" --out "$INDEXES/$set-theirs"
    untrained_of "$set" "$DATA/${FOLDER[$set]}/questions.jsonl" >"$ids"
    questions "$set" "" "$ids"
    asked serve --set "index.dir=$INDEXES/$set-theirs" --set speculator.kind=none --set question.verifier=rule \
      --set question.confidence_min=0 --set tuning.state=none -- \
      "${QUESTIONS[@]}" --k 1 \
      --system "embedded default, trained on questions of this form" "${PARTS[@]}" --out "$OUT/answers-theirs/$set"
  done
}

# Questions of this file that nothing was trained on.
untrained_of() { # SET FILE
  python3 - "$1" "$2" <<'END'
import json, sys
there = {row.get("_id") or row["id"] for row in map(json.loads, open(sys.argv[2]))}
untrained = json.load(open("eval/datasets/untrained.json"))[sys.argv[1]]
print(json.dumps({sys.argv[1]: [one for part in untrained.values() for one in part if one in there]}))
END
}

# What more or less effort is worth, by turns with the standard agent.
effort() {
  local set
  default_parts
  for set in "${SETS[@]}"; do
    index_of "$set"
    questions "$set" "${ALL[$set]}"
    asked serve "${INDEX[@]}" --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none -- \
      "${QUESTIONS[@]}" --k 1 --variant k=1,effort=low --variant k=1,effort=high --system "embedded default" \
      "${PARTS[@]}" --out "$OUT/effort/$set"
  done
}

# What `k = auto` chooses, live, beside fixed settings of k, planning ahead and the least chance; the latency of web search,
# twelve questions at once, which leave the machine idle most of the time. The server has learnt from 60 other questions
# before, as one that has run for an hour has. With FREE=1 target calls have no price and no limit, as in fixed settings.
choice() {
  local set folder name result=0 free=() at_once=12
  default_parts
  # No more at once than there are questions.
  [ "${COUNT:-12}" -ge 12 ] || at_once=$COUNT
  [ -n "${FREE:-}" ] && free=(--set tuning.call_worth=0 --set tuning.calls_max=1000)
  folder=$(mktemp -d)
  for set in "${SETS[@]}"; do
    name=$set${FREE:+-free}
    echo "== choice $name" >&2
    unsampled "$set" 60 >"$folder/ids.json"
    index_of "$set"
    started serve "${INDEX[@]}" --set question.verifier=exact --set question.confidence_min=0 --set tuning.state=none \
      --set target.injected_latency.mean_ms=4150 --set target.injected_latency.sigma_ms=1680 \
      --set target.injected_latency.seed=1 "${free[@]}" --listen 127.0.0.1:0
    questions "$set" 60 "$folder/ids.json"
    awaited "$SPECHOP" eval live --addr "$ADDRESS" "${QUESTIONS[@]}" --without-standard --variant k=auto \
      --concurrency $at_once --system "embedded default" --out "$folder/$set" >/dev/null || result=$?
    questions "$set" 120
    awaited "$SPECHOP" eval live --addr "$ADDRESS" "${QUESTIONS[@]}" --k 1 --variant k=3 --variant k=4 --variant k=4,plan-ahead=on \
      --variant k=4,plan-ahead=on,chance-min=0.1 --variant k=8,plan-ahead=on --variant k=auto --concurrency $at_once \
      --system "embedded default" "${PARTS[@]}" --out "$OUT/choice/$name" || result=$?
    ended $PID || result=1
    [ $result = 0 ] && python3 eval/bench/beside.py "$OUT/choice/$name"
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

# Look-ups that are drafted while the planner writes, on the embedded default, nothing injected: k = 1 drafts nothing,
# k = 3 one look-up a hop, auto if it has paid. All of that without draft tokens (`off`) and with them (`on`).
drafts() {
  local set way tokens
  default_parts
  for set in "${SETS[@]}"; do
    for way in off on; do
      echo "== drafts $set-$way" >&2
      tokens=false
      [ $way = on ] && tokens=true
      index_of "$set"
      questions "$set" "$DRAFTS"
      asked serve "${INDEX[@]}" --set generator.draft_tokens=$tokens --set question.drafts=auto --set question.verifier=exact \
        --set question.confidence_min=0 --set tuning.state=none -- \
        "${QUESTIONS[@]}" --k 1 --variant k=3,verifier=exact,drafts=1 --variant k=auto,verifier=exact \
        --system "embedded default, draft tokens $way" "${PARTS[@]}" --out "$OUT/drafts/$set-$way"
    done
    python3 eval/bench/beside.py "$OUT/drafts/$set-off" "$OUT/drafts/$set-on"
  done
}
# More than are asked elsewhere: auto learns as it goes.
DRAFTS=100

# What speculation takes from a machine that has no room for it: the embedded default, 8, 16 and 64 questions at once, or
# AT_ONCE alone.
saturation() {
  local at_once=(${AT_ONCE:-8 16 64})
  echo "== saturation, ${at_once[*]} at once" >&2
  python3 eval/bench/saturation.py --spechop "$SPECHOP" --index "$INDEXES/2wiki-extended" \
    --questions "$SPECHOP_DATA_DIR/eval/2wiki.jsonl" --at-once "${at_once[@]}" --out "$OUT/saturation${AT_ONCE:+-$AT_ONCE}"
}

# What draft tokens, and drafted look-ups with them, are to sixteen questions at once.
saturation_drafts() {
  echo "== saturation, drafts" >&2
  python3 eval/bench/saturation.py --spechop "$SPECHOP" --index "$INDEXES/2wiki-extended" \
    --questions "$SPECHOP_DATA_DIR/eval/2wiki.jsonl" --at-once 16 --ways plain 1 auto --out "$OUT/saturation-drafts"
}

# What it is worth to answers that words count beside vectors: k = 1, on every question that nothing was trained on.
words() {
  local set weight runs=()
  default_parts
  for set in "${SETS[@]}"; do
    for weight in 0 0.2; do
      echo "== words $set $weight" >&2
      index_of "$set"
      questions "$set" "" eval/datasets/untrained.json
      asked serve "${INDEX[@]}" --set index.lexical_weight=$weight --set question.confidence_min=0 --set tuning.state=none -- \
        "${QUESTIONS[@]}" --k 1 \
        --system "embedded default, words count $weight" "${PARTS[@]}" --out "$OUT/words/$set-$weight"
    done
  done
  shopt -s nullglob
  runs=("$OUT"/words/{2wiki,musique}-*/)
  "$SPECHOP" eval report "${runs[@]}" --out "$OUT/words/report"
}

# What answers say of themselves: every untrained question, and inputs that are none, over the index of 2WikiMultihopQA.
confidence() {
  local set off
  default_parts
  for set in "${SETS[@]}"; do
    questions "$set" "" eval/datasets/untrained.json
    says_of_itself "$set" "$set"
  done
  if [ "${SETS[0]}" = 2wiki ]; then
    off=$(mktemp)
    eval/datasets/make_off_form.py "$off"
    QUESTIONS=(--dataset 2wiki --questions "$off" --seed $SEED ${COUNT:+--count "$COUNT"})
    says_of_itself 2wiki off-form
  fi
}

says_of_itself() { # SET NAME
  echo "== confidence $2" >&2
  index_of "$1"
  asked serve "${INDEX[@]}" --set question.confidence_min=0 --set question.form_min=0 --set tuning.state=none -- \
    "${QUESTIONS[@]}" --k 1 --system "embedded default" "${PARTS[@]}" --out "$OUT/confidence/$2"
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
    for model in $(sed -n 's#^file = "DATA/models/\(.*\)/[^/]*"#\1#p' "$file"); do parts+=(--part "model=$(model_part "$model")"); done
    for set in "${SETS[@]}"; do
      echo "== ablation $set-$name" >&2
      index_of "$set"
      questions "$set" "$count"
      asked serve --config "$config" "${INDEX[@]}" --set question.confidence_min=0 --set tuning.state=none \
        --set question.segment_ms_max=900000 --set question.target_ms_max=900000 --set question.deadline_ms=3600000 -- \
        "${QUESTIONS[@]}" --k 1 --system "$(sed -n '1s/^# //p' "$file")" "${parts[@]}" --deadline 3600 \
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
  awaited "$SPECHOP" eval retrieval --dataset "$set" --model "$MODELS/$F32" --index "$INDEXES/$name-f32" \
    --look-ups "$SPECHOP_DATA_DIR/eval/$set-look-ups.jsonl" \
    --hot "hot 5 %=$hot-0.05" --hot "hot 10 %=$hot-0.10" --hot "hot 25 %=$hot-0.25" \
    --other "encoder in eight bits=$INDEXES/$name-int8" --other-model "$MODELS/$F32-int8" \
    --qdrant "$ADDRESS" --out "$OUT/retrieval/$name" "$@" >/dev/null || result=$?
  ended $qdrant || result=1
  rm -rf "$STORED"
  return $result
}
