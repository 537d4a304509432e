# shellcheck shell=bash
# Read by eval/run.sh: parts over a local web, or with a large model, each named by itself.

# The embedded default over a local web, which holds the whole corpus: nothing is injected into the server. The local
# index guesses. Questions in the data sets' own mix of kinds.
web() {
  local set
  for set in "${SETS[@]}"; do
    over_web "$set" -- "$OUT/web/$set" 100 "${WEB_WAYS[@]}"
  done
}
WEB_WAYS=(--k 1 --variant k=auto,speculator=index --variant k=auto,speculator=index,plan-ahead=on)

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

# DeepResearch-9K, or what has its form. The local index guesses; it holds the pages of the local web. It has no hot subset:
# nothing is asked of one, and nobody has counted how often the titles of CORPUS are mentioned.
deepresearch() {
  "$SPECHOP" index build --corpus "$(corpus_of deepresearch)" --out "$INDEXES/deepresearch-extended"
  over_web deepresearch -- "$OUT/web/deepresearch" 0 --k 1 --variant k=3,speculator=index --variant k=auto,speculator=index
}

corpus_of() { # SET
  case $1 in
    deepresearch) echo "${CORPUS:-eval/datasets/2wikimultihopqa/corpus.jsonl.gz}" ;;
    *) echo "$DATA/${FOLDER[$1]}/corpus_extended.jsonl" ;;
  esac
}

# Sets QUESTIONS, too.
web_questions() { # SET COUNT
  case $1 in
    deepresearch)
      QUESTIONS=(--dataset deepresearch --questions "${DEEPRESEARCH:-eval/datasets/deepresearch/sample.parquet}"
        ${DEEPRESEARCH:+${COUNT:+--count "$COUNT"}} ${DIFFICULTY:+--kinds "$DIFFICULTY"}) ;;
    *) questions "$1" "$2" eval/datasets/own_mix.json ;;
  esac
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
  index_of "$set"
  web_questions "$set" "$count"
  default_parts
  asked serve "${INDEX[@]}" --set target.kind=web --set web.providers=searxng --set "web.searxng.url=http://$ADDRESS" \
    --set "web.allow=$ADDRESS" --set web.keep_s=0 --set web.searxng.ms_max=30000 --set speculator.kind=index --set question.verifier=rule --set question.confidence_min=0 \
    --set tuning.state=none "${server[@]}" -- \
    "${QUESTIONS[@]}" --concurrency "${CONCURRENCY:-1}" \
    --system "embedded default, web" --part "web=$(basename "$corpus") $(hash_of "$corpus"), ${WEB%:*} ms" \
    "${PARTS[@]}" --out "$out" "$@" || result=$?
  ended $web || result=1
  return $result
}

# A language model reads, in the process, and by default our small reader guesses for it over the same passages. Nothing is
# injected. Each reading has a core, so one takes as long whether or not another runs beside it. LARGE names the model;
# with PLANS=large it plans, too.
large_reads() {
  local set large=() model=${LARGE:-qwen2.5-coder-1.5b-instruct} name=large-reads
  large=(file="$SPECHOP_DATA_DIR/models/$model/model.gguf" workers=2 threads=1)
  local server=(--set reader.kind=local "${large[@]/#/--set=reader.}") system="our planner, $model reads" verifier=exact
  if [ "${PLANS:-}" = large ]; then
    server=(--set generator.kind=local --set generator.style=tagged "${large[@]/#/--set=generator.}" --set reader.kind=generator)
    system="$model plans and reads" name=large-plans verifier=rule
  fi
  for set in "${SETS[@]}"; do
    echo "== $name $set" >&2
    index_of "$set"
    web_questions "$set" 30
    asked serve "${INDEX[@]}" "${server[@]}" --set question.verifier=$verifier --set question.confidence_min=0 --set tuning.state=none -- \
      "${QUESTIONS[@]}" --variant k=3,speculator=index,verifier=$verifier --variant k=auto,speculator=index,verifier=$verifier --system "$system" \
      --part "model=$(model_part "$model")" --part "small reader=$(model_part spechop-reader)" --out "$OUT/$set-$name/live-0"
  done
}
