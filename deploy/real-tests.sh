#!/usr/bin/env bash
# Runs the tests that need pulled models and installed tools. Plain `cargo test` leaves them out.
set -euo pipefail
cd "$(dirname "$0")/.."

leave_out=()
if [ ! -x "${SPECHOP_DATA_DIR:?}/bin/grpcurl" ]; then
  echo "grpcurl is not installed: its test is left out" >&2
  leave_out+=(--skip grpcurl)
fi
if ! deploy/has-searx.sh; then
  echo "searx is not installed: its tests are left out" >&2
  leave_out+=(--skip searx)
fi
if [ ! -x "$SPECHOP_DATA_DIR/bin/qdrant" ]; then
  if [ -z "${QDRANT_URL:-}" ]; then
    echo "Qdrant is not installed: its tests are left out" >&2
    leave_out+=(--skip qdrant::)
  else
    echo "Qdrant is not installed: the tests that kill it or start it anew are left out" >&2
    leave_out+=(--skip qdrant::cluster:: --skip qdrant::faults:: --skip qdrant::tls:: --skip a_key_is_needed)
  fi
fi
exec cargo test --locked --workspace --no-fail-fast --test 'real*' -- "${leave_out[@]}"
