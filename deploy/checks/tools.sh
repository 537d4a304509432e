#!/usr/bin/env bash
# What deploy/checks/run.sh uses, into the data folder: linters from PyPI, and Prometheus from Debian. What cannot be had
# here is named, and run.sh leaves its tests out.
#     tools.sh [helm]       helm: Helm, too, which Go compiles for minutes
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/tools-lib.sh

helm=v3.22.0

if ! cat deploy/checks/requirements*.txt | cmp -s - "$venv/requirements-checks.txt"; then
  echo "installing what checks deploy/ into $venv" >&2
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary=:all:)
  if "${pip[@]}" --requirement deploy/checks/requirements.txt; then
    "${pip[@]}" --no-deps --require-hashes --requirement deploy/checks/requirements-pinned.txt ||
      echo "WARNING: hadolint cannot be had for this machine: the Dockerfiles are not linted" >&2
    cat deploy/checks/requirements*.txt >"$venv/requirements-checks.txt"
  else
    echo "WARNING: the linters from PyPI cannot be installed: their tests are left out" >&2
  fi
fi

# Only its two programs, without the service that Debian's package starts. So it needs no root, and nothing of it stays.
fetch_prometheus() {
  scratch
  chmod 755 "$folder"
  (cd "$folder" && download prometheus) || return 1
  dpkg-deb -x "$folder"/prometheus_*.deb "$folder/root" || return 1
  mkdir -p "$data/bin"
  install -m 755 "$folder"/root/usr/bin/{prometheus,promtool} "$data/bin/"
}

if [ ! -x "$data/bin/prometheus" ] || [ ! -x "$data/bin/promtool" ]; then
  if ! command -v apt-get >/dev/null; then
    echo "there is no apt-get: Prometheus is left out, and the tests of alerts and dashboard with it" >&2
  elif ! (fetch_prometheus); then
    echo "WARNING: Prometheus could not be fetched: the tests of alerts and dashboard are left out" >&2
  fi
fi

if [ "${1:-}" = helm ]; then
  if [ ! -x "$data/bin/helm-$helm" ] && command -v go >/dev/null; then
    echo "compiling Helm: 4.5 minutes of processor time" >&2
    compiled helm "$helm" helm.sh/helm/v3/cmd/helm
  fi
  named helm "$helm"
  if [ ! -x "$data/bin/helm" ] && ! command -v helm >/dev/null; then
    echo "tools.sh: Go is not installed, and Helm comes through it: install Go, or Helm on the PATH" >&2
    exit 1
  fi
fi
