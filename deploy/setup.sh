#!/usr/bin/env bash
# Installs the Debian packages that are missing for what is named: build, python, maven, npm.
# Does nothing, in milliseconds, where everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
# need COMMAND PACKAGE: the package, unless the command is there.
need() { command -v "$1" >/dev/null || missing+=("$2"); }

for part in "$@"; do
  case $part in
    build)
      need cmake cmake
      need c++ g++
      need make make
      # What the bindings to llama.cpp are generated with.
      if [ -z "${LIBCLANG_PATH:-}" ] && ! compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null &&
        ! compgen -G '/usr/lib*/libclang*.so*' >/dev/null; then
        missing+=(libclang-dev)
      fi
      ;;
    python)
      need python3 python3
      python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
      python3 -c 'import pip' 2>/dev/null || missing+=(python3-pip)
      ;;
    maven) need mvn maven ;;
    npm) need npm npm ;;
    *)
      echo "setup.sh: nothing is known about $part" >&2
      exit 2
      ;;
  esac
done

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "setup: please install what these Debian packages hold: ${missing[*]}" >&2
    exit 1
  fi
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "setup: run as root: apt-get install ${missing[*]}" >&2
      exit 1
    }
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

# Run in the repository, a rustup installation answers with the pinned toolchain, and fetches it first.
wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
if ! command -v cargo >/dev/null; then
  echo "setup: no Rust toolchain: install rustup, or Rust $wanted or later, and make sure that cargo is on the PATH" >&2
  exit 1
fi
found=$(cargo --version | cut -d ' ' -f 2)
if [ "$(printf '%s\n' "$wanted" "${found%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
  echo "setup: cargo is $found, and $wanted or later is needed: update Rust (with rustup, it is fetched by itself)" >&2
  exit 1
fi
