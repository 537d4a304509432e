#!/usr/bin/env bash
# Runs `make demo` and `make test` on a machine that has nothing but git, make and a Rust toolchain: a bare Debian root
# in a folder, made from Debian's packages, in which the last commit is cloned.
#     fresh.sh OUT VARIANT…      variants: plain, llvm (LLVM's run-time libraries are there, libclang is not)
# Leaves OUT/VARIANT.log (everything) and OUT/VARIANT.md (machine, versions, times, results). Needs root, mmdebstrap,
# 15 GB on disk, and an hour a variant on two cores.
#
#   FRESH_DIR=DIR      where the roots are made (default: /var/tmp/spechop-fresh); they are removed if all went well
#   FRESH_COMMANDS=…   what is run in the clone (default: "make demo;make demo;make test": the second
#                      demo finds everything built)
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/root-lib.sh

if [ $# -lt 2 ]; then
  echo "usage: fresh.sh OUT VARIANT…   (variants: plain, llvm)" >&2
  exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "fresh.sh: only root can make a root folder: try again as root" >&2
  exit 1
fi
rust=$(rustc --print sysroot) || {
  echo "fresh.sh: there is no Rust toolchain on root's PATH to put into the roots" >&2
  exit 1
}
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
dir=${FRESH_DIR:-/var/tmp/spechop-fresh}
IFS=';' read -ra commands <<<"${FRESH_COMMANDS:-make demo;make demo;make test}"
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)

make_root() {
  local variant=$1 root=$2 packages=ca-certificates,git,make
  case $variant in
    plain) ;;
    llvm) packages+=,libclang-cpp$(apt-cache depends libclang-dev | sed -n 's/.*Depends: libclang-\([0-9]*\)-dev$/\1/p') ;;
    *)
      echo "fresh.sh: there is no variant '$variant'; the variants are plain, llvm" >&2
      exit 2
      ;;
  esac
  mmdebstrap --quiet --variant=minbase --include="$packages" "$suite" "$root"
  take_over_network "$root"
  mkdir -p "$root/opt/rust"
  cp -a "$rust"/{bin,lib} "$root/opt/rust/"
  git clone --quiet --no-hardlinks . "$root/root/spechop"
}

# What a reader wants to know of the machine, and what set-up brought.
describe() {
  local variant=$1 root=$2
  printf '# A fresh machine, variant %s\n\n' "$variant"
  printf 'Made by `make fresh`. Commit %s.\n\n' "$(git rev-parse --short HEAD)"
  printf '| | |\n|---|---|\n'
  printf '| machine | %s, %s cores, %s |\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
    "$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)"
  printf '| Debian | %s (%s packages before) |\n' "$(cat "$root/etc/debian_version")" "$(inside "$root" dpkg-query -f '.\n' -W | wc -l)"
  printf '| Rust | %s |\n' "$(inside "$root" rustc --version)"
  printf '| libclang before | %s |\n' "$(cd "$root" && find usr -name 'libclang*.so*' -printf '%f ' | grep . || echo none)"
}

status=0
for variant in "$@"; do
  root=$dir/$variant
  log=$out/$variant.log
  report=$out/$variant.md
  rm -rf "$root"
  mkdir -p "$dir"
  echo "fresh: $variant: making a bare Debian $suite in $root" >&2
  make_root "$variant" "$root"
  describe "$variant" "$root" >"$report"
  : >"$log"
  failed=
  for command in "${commands[@]}"; do
    echo "fresh: $variant: $command (log: $log)" >&2
    echo "### $command" >>"$log"
    begin=$SECONDS
    rc=0
    before=$(wc -l <"$log")
    inside "$root" bash -c "cd /root/spechop && $command" >>"$log" 2>&1 </dev/null || rc=$?
    took=$((SECONDS - begin))
    printf '| `%s` | exit %d after %d min %d s, %d lines |\n' "$command" "$rc" $((took / 60)) $((took % 60)) \
      $(($(wc -l <"$log") - before)) >>"$report"
    [ "$rc" -eq 0 ] || failed=yes
  done
  {
    printf '| gcc, cmake | %s, %s |\n' "$(inside "$root" gcc -dumpfullversion)" "$(inside "$root" cmake --version | sed -n '1s/.* //p')"
    printf '\n'
    sed -n 's/^setup: /- &/p; s/^[0-9]* passed, [0-9]* failed$/- &/p' "$log"
  } >>"$report"
  cat "$report" >&2
  if [ -n "$failed" ]; then
    status=1
    echo "fresh: $variant FAILED; the root is left in $root" >&2
    tail -n 20 "$log" >&2
  else
    rm -rf "$root"
  fi
done
exit $status
