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
exec cargo test --locked --workspace --no-fail-fast --test 'real*' -- "${leave_out[@]}"
