#!/usr/bin/env bash
# Checks the files of deploy/: linters and schemas, alerts, and the dashboard against a real server and a real Prometheus.
# The last line is of the form that deploy/sum-tests.sh adds up.
#     run.sh [PYTHON MODULE…]       e.g. test_files
#
#   SPECHOP_BIN=FILE   the program (default: the one that `cargo build` left)
set -euo pipefail
cd "$(dirname "$0")"

python=${SPECHOP_DATA_DIR:?}/venv/bin/python
if ! "$python" -c 'import yaml' 2>/dev/null; then
  echo "the tools of deploy/checks are not installed: run deploy/checks/tools.sh" >&2
  exit 1
fi
exec "$python" -B main.py "$@"
