#!/usr/bin/env bash
# What the tests use besides our own code, into the data folder: a Python environment with a real llama.cpp server
# and an unmodified gRPC client, and, where Go is installed, grpcurl. From Debian, for root: searx, a real metasearch
# engine.
set -euo pipefail
cd "$(dirname "$0")/.."

grpcurl=v1.9.3
data=${SPECHOP_DATA_DIR:?}
venv=$data/venv

# A copy of the list is left behind when everything in it is installed.
if ! cmp -s deploy/requirements-test.txt "$venv/requirements-test.txt"; then
  echo "installing $(grep -c == deploy/requirements-test.txt) Python packages into $venv" >&2
  # One made by another Python is of no use.
  "$venv/bin/python" -c '' 2>/dev/null || python3 -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary=:all: \
    --requirement deploy/requirements-test.txt
  cp deploy/requirements-test.txt "$venv/requirements-test.txt"
fi

if [ ! -x "$data/bin/grpcurl-$grpcurl" ]; then
  if ! command -v go >/dev/null; then
    echo "Go is not installed: what needs grpcurl is left out (the Python client is there)" >&2
  elif GOBIN="$data/bin" GOFLAGS=-trimpath go install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$grpcurl"; then
    mv "$data/bin/grpcurl" "$data/bin/grpcurl-$grpcurl"
    ln -sf "grpcurl-$grpcurl" "$data/bin/grpcurl"
  else
    echo "WARNING: grpcurl could not be built: what needs it is left out (the Python client is there)" >&2
  fi
fi

# SearXNG itself is in no registry: PyPI's `searxng` is a client of it. searx is what it grew out of; its interface is the
# same. It is there for the Python of the system alone, and not in every release of Debian.
if ! deploy/has-searx.sh; then
  if [ "$(id -u)" -eq 0 ] && [[ $(apt-cache policy python3-searx 2>/dev/null) == *"Candidate: "[0-9]* ]]; then
    echo "installing python3-searx from Debian" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-searx >/dev/null ||
      echo "python3-searx cannot be installed: its test is left out" >&2
  else
    echo "searx cannot be installed here: its test is left out (install python3-searx, if this Debian has it)" >&2
  fi
fi
