#!/usr/bin/env bash
# Asks through a real Open WebUI, in a real browser. It is no part of `make test`: the package brings 5 GB from PyPI.
#     open-webui.sh SPECHOP_BINARY PICTURE        SPECHOP_INDEX_DIR names the index of the demonstration
set -euo pipefail
cd "$(dirname "$0")/../.."

version=0.12.4
spechop=$1
picture=$(realpath -m "$2")
data=${SPECHOP_DATA_DIR:?}
venv=$data/open-webui
source deploy/demo-lib.sh

# After an upgrade of Python an environment has lost its packages, and only its version is left.
if [ "$(cat "$venv/version" 2>/dev/null)" != $version ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  echo "installing open-webui $version into $venv (5 GB, minutes)" >&2
  python3 -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary=:all: "open-webui==$version"
  echo $version >"$venv/version"
fi

# What is asked is on this machine, whatever the environment says of proxies.
no_proxy=127.0.0.1,localhost,${no_proxy:-${NO_PROXY:-}}
export no_proxy NO_PROXY=$no_proxy

log=$work/spechop.log
serve "$log"
ready "$log" "${started[0]}"

# Nothing is asked but the question: no titles, no tags, no model hub, no news.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
headers='{"0": {"headers": {"spechop-events": "true"}}}'
env DATA_DIR="$work/webui" WEBUI_AUTH=False WEBUI_SECRET_KEY=none OFFLINE_MODE=True HF_HUB_OFFLINE=1 \
  ENABLE_OLLAMA_API=False OPENAI_API_BASE_URL="http://$address/v1" OPENAI_API_KEY=none OPENAI_API_CONFIGS="$headers" \
  ENABLE_TITLE_GENERATION=False ENABLE_TAGS_GENERATION=False ENABLE_FOLLOW_UP_GENERATION=False \
  ENABLE_AUTOCOMPLETE_GENERATION=False BYPASS_EMBEDDING_AND_RETRIEVAL=True ENABLE_VERSION_UPDATE_CHECK=False \
  "$venv/bin/open-webui" serve --host 127.0.0.1 --port "$port" >"$work/webui.log" 2>&1 &
started+=($!)
deadline=$((SECONDS + 300))
until python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/health', timeout=5)" 2>/dev/null; do
  if ! kill -0 "${started[1]}" 2>/dev/null || [ $SECONDS -ge $deadline ]; then
    tail -n 30 "$work/webui.log" >&2
    echo "open-webui.sh: Open WebUI did not start" >&2
    exit 1
  fi
  sleep 1
done

WEBUI_URL=http://127.0.0.1:$port PAGE_TOOLS=$data/page-tests SHOT=$picture QUESTION=${question[0]} \
  STEP="Who is the mother of Prince Ferdinand" ANSWER="Schloss Nymphenburg" SOURCE="Prince Ferdinand of Bavaria" \
  node deploy/checks/open_webui.mjs || {
  tail -n 40 "$work/webui.log" >&2
  exit 1
}
