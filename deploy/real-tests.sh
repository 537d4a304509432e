#!/usr/bin/env bash
# Runs the tests that need pulled models and installed tools. Plain `cargo test` leaves them out.
set -euo pipefail
cd "$(dirname "$0")/.."

# What is asked is on this machine, whatever the environment says of proxies.
no_proxy=127.0.0.1,localhost,${no_proxy:-${NO_PROXY:-}}
export no_proxy NO_PROXY=$no_proxy

leave_out=()
if [ ! -x "${SPECHOP_DATA_DIR:?}/bin/grpcurl" ]; then
  echo "grpcurl is not installed: its test is left out" >&2
  leave_out+=(--skip grpcurl)
fi
if [ ! -e "$SPECHOP_DATA_DIR/searxng/installed" ]; then
  echo "SearXNG is not installed: its tests are left out" >&2
  leave_out+=(--skip searxng)
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
if [ ! -x "$SPECHOP_DATA_DIR/bin/nginx" ]; then
  echo "Redis and nginx are not there: the tests with several servers are left out" >&2
  leave_out+=(--skip redis:: --skip replicas::)
fi
if ! command -v node >/dev/null; then
  echo "Node is not installed: the page's tests are left out" >&2
  leave_out+=(--skip page::)
elif [ ! -x /usr/bin/chromium ] || [ ! -e "$SPECHOP_DATA_DIR/page-tests/installed" ]; then
  echo "Chromium, or what drives it, is not installed: the page's tests in a browser are left out" >&2
  leave_out+=(--skip page::browser)
fi
if ! command -v node >/dev/null || [ ! -e "$SPECHOP_DATA_DIR/node-tests/installed" ]; then
  echo "the clients for Node are not installed: their tests are left out" >&2
  leave_out+=(--skip the_openai_client_for_node --skip the_documented_client_for_node --skip the_ai_sdk_for_node)
fi
if [ ! -f "$SPECHOP_DATA_DIR/mcp/version" ]; then
  echo "the MCP server that has everything is not installed: its test is left out" >&2
  leave_out+=(--skip the_server_with_everything)
fi
status=0
cargo test --locked --workspace --no-fail-fast --test 'real*' -- "${leave_out[@]}" || status=$?
if "$SPECHOP_DATA_DIR/venv/bin/python" -c 'import yaml, kubernetes_validate, cyclonedx' 2>/dev/null; then
  deploy/checks/run.sh || status=$?
else
  echo "the linters of deploy/checks are not installed: the tests of deploy/ are left out" >&2
fi
exit $status
