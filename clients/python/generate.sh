#!/usr/bin/env bash
# Writes src/spechop/v1 anew from proto/. The tests compare the result with what is committed.
#     generate.sh [OUT]      PYTHON names an interpreter with grpcio-tools (deploy/requirements-test.txt has its version)
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-src}
"${PYTHON:-python3}" -m grpc_tools.protoc --proto_path=../../proto \
  --python_out="$out" --pyi_out="$out" spechop/v1/spechop.proto
