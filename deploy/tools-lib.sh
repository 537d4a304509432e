# What test-tools.sh and checks/tools.sh share; sourced. What is installed goes into the data folder.

data=${SPECHOP_DATA_DIR:?}
venv=$data/venv

# After an upgrade of Python an environment has lost its packages, and only its copy of the list is left.
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$venv"

# named PROGRAM VERSION: has the program's name lead to this version, or nowhere if it is not installed: another version
# is not what is tested. A program that somebody has put there by hand stays.
named() {
  if [ -x "$data/bin/$1-$2" ]; then
    ln -sf "$1-$2" "$data/bin/$1"
  elif [[ $(readlink "$data/bin/$1") == "$1"-* ]]; then
    rm "$data/bin/$1"
  fi
}

# compiled PROGRAM VERSION PACKAGE: has Go compile a program, from its sources.
compiled() {
  GOBIN="$data/bin" GOFLAGS=-trimpath go install "$3@$2" && mv "$data/bin/$1" "$data/bin/$1-$2"
}

# scratch: makes an empty folder, named by `folder`, which goes when this subshell ends.
scratch() {
  # In the `if` of a caller `set -e` does not count, and without a folder all would be done in the repository's root.
  folder=$(mktemp -d) || exit
  trap 'rm -rf "$folder"' EXIT
}

# download PACKAGE…: Debian packages, into this folder. Installs nothing.
download() {
  local get=(apt-get download -qq -o APT::Sandbox::User=root "$@") said
  if said=$("${get[@]}" 2>&1); then return; fi
  if [ "$(id -u)" -eq 0 ]; then
    # A machine that has never installed anything has no lists, and old ones name what is gone.
    apt-get update -qq && "${get[@]}" >/dev/null
  else
    echo "$said" >&2
    return 1
  fi
}
