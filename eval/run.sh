#!/usr/bin/env bash
# Records, simulates, replays and asks live everything that the tables of docs/MEASURED.md come from.
#
#   eval/run.sh DATA [PART…]     DATA as eval/train/README.md describes it; parts: see the end of this file
#   eval/run.sh DATA prepare web web_guesses     over a local web: not among the usual parts
#   eval/run.sh DATA deepresearch          questions of DeepResearch-9K over a local web: six of ours in its form, or those of
#                                          DEEPRESEARCH=FILE (Parquet or JSON), of DIFFICULTY=L2 alone. The web holds the
#                                          passages of 2WikiMultihopQA, or those of CORPUS=FILE (JSON lines, plain or gzip)
#   eval/run.sh DATA prepare large_reads   a language model reads and the small reader guesses: not among the usual parts
#   eval/run.sh DATA prepare drafts        look-ups and tokens that are drafted while the planner writes, nothing injected
#   eval/run.sh DATA prepare ablation      who plans and who reads: a run for each configuration in eval/ablation
#   eval/run.sh DATA prepare words         what it is worth to answers that words count beside vectors
#   eval/run.sh DATA prepare answers       what the embedded default answers at k = 1, on every question of the own mix
#   eval/run.sh DATA prepare answers_theirs        the same over HippoRAG's corpora, on its questions that nothing was trained on
#   eval/run.sh DATA prepare confidence    what answers say of themselves: every untrained question, and inputs that are none
#   eval/run.sh DATA prepare saturation    8, 16 and 64 questions of 2WikiMultihopQA at once, at k = 1, 3 and auto, nothing injected
#   eval/run.sh DATA prepare saturation_drafts     16 at once, with draft tokens and drafted look-ups and without
#   eval/run.sh DATA prepare effort        answers and seconds of low, normal and high effort, on the same questions
#   eval/run.sh DATA prepare choice        what k = auto chooses, beside fixed settings, live with injected latency
#   eval/run.sh DATA decisions             100 decisions of the verifier on the embedded default, for a person to label
#   eval/run.sh DATA prepare retrieval retrieval_theirs  how well retrievers find gold passages (needs deploy/test-tools.sh): not
#                                          among the usual parts
#
# Every step goes on where it was stopped, at the same commit; what was recorded or asked is not run again. Stage times are wall times: nothing
# else should run beside it. SPECHOP, GOLD_PORT and OUT may be set. What lies in eval/runs is simulated, drawn from and reported
# there; everything else goes to the data folder by default, since a run takes no rows of another machine or commit.
# OUT/times.tsv gets a line for each part that has succeeded: when it began, its seconds, the load before and after it.
# COUNT asks fewer questions of each sample (8 at least), to try it. Parts without a sample do not read it: saturation,
# saturation_drafts, retrieval, retrieval_theirs, decisions, and deepresearch with its own six questions.
set -euo pipefail
cd "$(dirname "$0")/.."

DATA=${1:?say the folder of the data}
shift
SPECHOP=${SPECHOP:-target/release/spechop}
SPECHOP_DATA_DIR=$("$SPECHOP" data-dir)
export SPECHOP_DATA_DIR
# Runs name the commit that is checked out, so the program should be of it.
if [ -n "$(find crates eval index proto Cargo.lock -newer "$(command -v "$SPECHOP")" \( -path '*/src/*' -o -name '*.proto' -o -name Cargo.lock \) -print -quit)" ]; then
  echo "WARNING: $SPECHOP is older than its sources: build it again, if they have changed" >&2
fi
# What is stored is simulated, drawn from and reported where it lies. What this machine records or asks is another run.
case " $* " in
  *" simulate "* | *" report "* | *" decisions "*) OUT=${OUT:-eval/runs} ;;
  *) OUT=${OUT:-$SPECHOP_DATA_DIR/eval/runs} ;;
esac
INDEXES=$SPECHOP_DATA_DIR/indexes
MODELS=$SPECHOP_DATA_DIR/models
ENCODER=$(cat "$MODELS/default-encoder" 2>/dev/null || echo e5-small-v2-int8)
F32=e5-small-v2
WEB=4150:1680:1
SEED=1

# Full speculation: what is guessed is never looked up.
FULL=k=1,verifier=none,target=off
# The paper's verifier with our algorithm; and with the paper's: the paper to the letter.
PAPERS=(--variant k=inf,verifier=paper --variant k=inf,verifier=paper,algorithm=paper)

declare -A FOLDER=([2wiki]=2wikimultihopqa [musique]=musique)
# ONLY takes one of them.
SETS=(${ONLY:-2wiki musique})
# As many questions as there are in the data set's own mix of kinds (eval/datasets/README.md).
declare -A ALL=([2wiki]=200 [musique]=150)
# How many of them are asked live.
LIVE=40

# What the parts share, and the parts that are not among the usual ones.
. eval/run/common.sh
. eval/run/embedded.sh
. eval/run/web.sh
end_together

prepare() {
  mkdir -p "$SPECHOP_DATA_DIR/eval"
  local set folder
  for set in "${SETS[@]}"; do
    folder=$DATA/${FOLDER[$set]}
    cat "$folder"/{questions,extra_questions,goldonly_covered}.jsonl >"$SPECHOP_DATA_DIR/eval/$set.jsonl"
    indexed "$set" corpus_extended "$set-extended" "$set-hot"
  done
}

gold_planner() {
  [ ${#GOLD[@]} -gt 0 ] && return
  local log pid set files=()
  log=$(mktemp)
  for set in "${SETS[@]}"; do
    files+=("$SPECHOP_DATA_DIR/eval/$set.jsonl")
  done
  python3 eval/ablation/gold_planner.py --port "${GOLD_PORT:-0}" "${files[@]}" >"$log" &
  pid=$!
  SAID[$pid]=$log
  until grep -q http "$log"; do
    kill -0 $pid || return 1
    sleep 0.2
  done
  GOLD=(--system "gold planner" --set generator.kind=openai --set generator.style=tagged
    --set "generator.base_url=$(grep -o 'http[^ ]*' "$log")" --set generator.model=gold --set reader.kind=spans
    --part "planner=gold_planner.py $(sha256sum eval/ablation/gold_planner.py | cut -c 1-16)")
}

record() { # NAME SET COUNT ARGUMENTS…
  local name=$1 set=$2 count=$3
  shift 3
  echo "== record $name" >&2
  questions "$set" "$count"
  awaited "$SPECHOP" eval record "${QUESTIONS[@]}" --inject 0 --inject $WEB --out "$OUT/$name/bundle" "$@"
}

record_gold() {
  gold_planner
  local set
  for set in "${SETS[@]}"; do
    index_of "$set"
    record "$set-gold" "$set" ${ALL[$set]} --suite --variant $FULL "${INDEX[@]}" "${GOLD[@]}"
  done
}

record_own() {
  local set
  for set in "${SETS[@]}"; do
    index_of "$set"
    record "$set-own" "$set" ${ALL[$set]} --system "embedded default" --suite --variant $FULL "${PAPERS[@]}" "${INDEX[@]}"
  done
}

# Further speculators, into the gold planner's bundles.
record_speculators() {
  gold_planner
  local set fraction
  for set in "${SETS[@]}"; do
    for fraction in 0.05 0.10; do
      index_of "$set" $fraction
      record "$set-gold" "$set" ${ALL[$set]} --rename hot=hot-$fraction --variant k=3,speculator=hot-$fraction \
        "${INDEX[@]}" "${GOLD[@]}"
    done
  done
}

# Language models from memory are slow here: fewer questions, a bundle of their own.
record_llm() {
  gold_planner
  local set name
  local -A guesser=([llm-135m]=smollm2-135m-instruct [llm-1.5b]=qwen2.5-coder-1.5b-instruct)
  for set in "${SETS[@]}"; do
    index_of "$set"
    for name in llm-135m llm-1.5b; do
      record "$set-gold-llm" "$set" 30 --k 1 --rename llm=$name --rename hot=hot-by-$name --variant k=3,speculator=$name \
        --variant $FULL,speculator=$name "${INDEX[@]}" \
        "${GOLD[@]/gold planner/gold planner, models guess from memory}" \
        --set speculator.model.kind=local --set speculator.model.style=tagged \
        --set "speculator.model.file=$SPECHOP_DATA_DIR/models/${guesser[$name]}/model.gguf"
    done
  done
}

record_large() {
  local set
  for set in "${SETS[@]}"; do
    index_of "$set"
    record "$set-1.5b" "$set" 5 --k 1,3 --system "Qwen2.5-Coder-1.5B" "${INDEX[@]}" \
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
  local bundle name latency out
  for bundle in "$OUT"/*/bundle; do
    name=$(basename "$(dirname "$bundle")")
    echo "== simulate $name" >&2
    for latency in 0 $WEB; do
      out=$OUT/$name/simulated-${latency%%:*}
      # shellcheck disable=SC2046
      "$SPECHOP" eval simulate --bundle "$bundle" $(variants_of "$name") --inject $latency --out "$out" >"$out.txt"
      case $name in *-own) simulate_papers "$bundle" $latency "$OUT/$name/simulated-paper-${latency%%:*}" ;; esac
    done
  done
}

# The paper's verifier beside ours, with either algorithm. A run of its own: an older bundle may lack a stage behind a guess
# that the paper's verifier alone accepts, and a question that lacks one is left out of all rows.
simulate_papers() { # BUNDLE LATENCY OUT
  "$SPECHOP" eval simulate --bundle "$1" --k inf --variant k=inf,algorithm=paper "${PAPERS[@]}" --whole-only --inject "$2" \
    --out "$3" >"$3.txt"
}

# The recorded stages, waited for: what the service itself adds. Eight times as fast.
replay() {
  local set jobs=()
  for set in "${SETS[@]}"; do
    echo "== replay $set-gold" >&2
    questions "$set" 100
    {
      end_together
      asked eval replay --bundle "$OUT/$set-gold/bundle" --inject $WEB --speed 8 -- \
        "${QUESTIONS[@]}" --speed 8 --k 1,2,3,inf --of "$OUT/$set-gold/bundle" --out "$OUT/$set-gold/replayed-4150"
    } &
    jobs+=($!)
    SAID[$!]=/dev/null
  done
  # Nothing computes: one does not disturb the other.
  local job result=0
  for job in "${jobs[@]}"; do
    wait "$job" || result=$?
    unset "SAID[$job]"
  done
  return $result
}

# The embedded default, computing: with added latency, and as it is.
live() {
  local set web=()
  web=(--set target.injected_latency.mean_ms=4150 --set target.injected_latency.sigma_ms=1680 --set target.injected_latency.seed=1)
  for set in "${SETS[@]}"; do
    echo "== live $set-own" >&2
    index_of "$set"
    questions "$set" $LIVE
    asked serve "${INDEX[@]}" --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none -- \
      "${QUESTIONS[@]}" --k 1,3 --of "$OUT/$set-own/bundle" --out "$OUT/$set-own/live-0"
    full "$set" live-0
    asked serve "${INDEX[@]}" --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none "${web[@]}" -- \
      "${QUESTIONS[@]}" --k 1,3,inf --concurrency 1,8 --of "$OUT/$set-own/bundle" --out "$OUT/$set-own/live-4150"
    full "$set" live-4150
  done
}

# Full speculation, beside the rows of a live run. Its server has the hot subset alone, and reads as many passages as are
# read for a guess, so its look-ups are the guesses of the other server.
full() { # SET RUN
  local hot=$INDEXES/$1-extended/hot result=0
  started serve --set "index.dir=$hot" --set "speculator.hot_dir=$hot" --set question.passages=2 \
    --set question.verifier=rule --set question.confidence_min=0 --set tuning.state=none --listen 127.0.0.1:0
  questions "$1" $LIVE
  awaited "$SPECHOP" eval live --addr "$ADDRESS" --target-off "$ADDRESS" "${QUESTIONS[@]}" --without-standard --variant $FULL \
    --of "$OUT/$1-own/bundle" --out "$OUT/$1-own/$2" || result=$?
  ended $PID || result=1
  return $result
}

# Decisions about guesses that the paper's verifier lets pass, too. A stage behind such a guess may not be recorded. With
# the latency of the web, since a guess that comes later than its look-up is not decided about.
decisions() {
  local set folder sample=$OUT/decisions/sample.jsonl
  folder=$(mktemp -d)
  for set in "${SETS[@]}"; do
    "$SPECHOP" eval simulate --bundle "$OUT/$set-own/bundle" --inject $WEB --variant k=1 --variant k=4 --variant k=4,verifier=paper \
      --whole-only --out "$folder/$set" >/dev/null
  done
  # Somebody may have labelled what is there.
  [ -e "$sample" ] && echo "$sample is there, and stays: the table is printed alone" >&2 && sample=
  mkdir -p "$OUT/decisions"
  "$SPECHOP" eval decisions "$folder"/* ${sample:+--out "$sample"}
}

report() {
  local runs papers
  shopt -s nullglob
  # Each of these words is a pattern, so what is not there is left out.
  runs=("$OUT"/{2wiki,musique}-*/{simulated,replayed,live}-[0-9]*/ "$OUT"/web/{2wik[i],musiqu[e],deepresearc[h]}/)
  papers=("$OUT"/{2wiki,musique}-*/simulated-paper-*/)
  "$SPECHOP" eval report "${runs[@]}" --out "$OUT/report"
  [ ${#papers[@]} = 0 ] || "$SPECHOP" eval report "${papers[@]}" --out "$OUT/report/paper"
}

# Runs a part, and notes how long it took and how busy the machine was. A part that fails is not noted.
timed() { # PART
  local began before seconds=$SECONDS
  began=$(date -u +%FT%TZ) before=$(load)
  "$1"
  mkdir -p "$OUT"
  {
    [ -s "$OUT/times.tsv" ] || printf 'part\tbegan\tseconds\tload before\tload after\tcommit\tquestions\n'
    printf '%s\t' "$1" "$began" $((SECONDS - seconds)) "$before" "$(load)" "$(commit)"
    echo "${SETS[*]}${COUNT:+, $COUNT at most}"
  } >>"$OUT/times.tsv"
}

# Processes that ran or waited for a core: means of the last 1, 5 and 15 minutes.
load() { cut -d ' ' -f 1-3 /proc/loadavg 2>/dev/null || echo unknown; }

# The commit that is checked out. A + behind it: the program was changed since.
commit() {
  local commit
  commit=$(git rev-parse HEAD 2>/dev/null) || { echo unknown && return; }
  git diff --quiet HEAD -- crates index proto eval/src Cargo.lock || commit+=+
  echo "$commit"
}

# Everything is read before anything begins, so these files may be edited while they run.
main() {
  local part parts=(prepare record_gold record_own record_speculators record_llm record_large simulate replay live report)
  [ $# -gt 0 ] && parts=("$@")
  for part in "${parts[@]}"; do
    timed "$part"
  done
  exit
}
main "$@"
