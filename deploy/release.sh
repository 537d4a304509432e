#!/usr/bin/env bash
# Builds a release: the archive of the program, its bill of materials, and their SHA-256 sums.
#     release.sh OUT [BINARY]       BINARY: a program that is there, in the place of a build
#
# The binary needs glibc, libstdc++ and libgomp of the system: the models' libraries are opened while it runs, which a
# static glibc cannot do. Everything else is in it. Which versions of those it needs at least is said at the end: build
# on the oldest system that it shall run on (deploy/Dockerfile builds on Debian 12). llama.cpp is built for AVX2.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: release.sh OUT [BINARY]" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
binary=${2:-}
python=${SPECHOP_DATA_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/spechop}/venv/bin/python
if ! "$python" -c 'import cyclonedx' 2>/dev/null; then
  echo "release.sh: the bill of materials needs cyclonedx-python-lib, which 'make release' installs" >&2
  exit 1
fi

if [ -z "$binary" ]; then
  # With SOURCE_DATE_EPOCH, llama.cpp would be built without vector instructions. With those that the Makefile asks for
  # if this machine has them, the program would run on few others.
  unset SOURCE_DATE_EPOCH GGML_AVX512 GGML_AVX512_VBMI GGML_AVX512_VNNI
  # No path of this machine stays in the program. A folder of its own, since these flags compile everything anew.
  target=${CARGO_TARGET_DIR:-target}/release-build
  home=${CARGO_HOME:-$HOME/.cargo}
  # C++ names its sources, too. Nothing but blanks sets these flags apart.
  if [[ $PWD$home == *[[:space:]]* ]]; then
    echo "release.sh: a path with a blank would stay in the program: build in a folder, and with a CARGO_HOME, without one" >&2
    exit 1
  fi
  mapped=" -ffile-prefix-map=$PWD=. -ffile-prefix-map=$home=cargo"
  # A path may hold a blank, so cargo's flags are set apart by what it takes for that.
  CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$PWD=."$'\x1f'"--remap-path-prefix=$home=cargo" \
    CFLAGS="${CFLAGS:-}$mapped" CXXFLAGS="${CXXFLAGS:-}$mapped" \
    CARGO_TARGET_DIR=$target cargo build --release --locked -p spechop
  binary=$target/release/spechop
  if grep -qaF "$home/" "$binary"; then
    echo "release.sh: the program names files in $home: if $target is older than this script, remove it" >&2
    exit 1
  fi
fi

version=$("$binary" --version | cut -d ' ' -f 2)
name=spechop-$version-$(uname -m)-linux-gnu

# What the system must bring. Anything more is a mistake of the build.
needed=$(readelf -d "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for library in $needed; do
  case $library in
    libc.so.6 | libm.so.6 | libgcc_s.so.1 | libstdc++.so.6 | libgomp.so.1 | ld-linux-*) ;;
    *)
      echo "release.sh: the program needs $library, which not every system has" >&2
      exit 1
      ;;
  esac
done
# newest PREFIX: the newest version of these symbols that the program asks for.
newest() {
  objdump -T "$binary" | grep -oE "\b$1_[0-9.]+" | sort -Vu | tail -n 1 | cut -d _ -f 2
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
install -d -m 755 "$folder/$name"
install -m 755 "$binary" "$folder/$name/spechop"
install -m 644 LICENSE README.md CHANGELOG.md deploy/spechop.example.toml deploy/systemd/spechop.service "$folder/$name/"
install -m 644 deploy/systemd/spechop.sysusers "$folder/$name/"

# The same commit makes the same bytes.
when=$(git log -1 --format=@%ct 2>/dev/null || echo @0)
tar --sort=name --mtime="$when" --owner=0 --group=0 --numeric-owner -C "$folder" -cf - "$name" |
  gzip -n -6 >"$out/$name.tar.gz"
"$python" deploy/sbom.py >"$out/$name.cdx.json"
(cd "$out" && sha256sum "$name.tar.gz" "$name.cdx.json" >"$name.sha256")
echo "$out/$name.tar.gz: glibc $(newest GLIBC) or later, libstdc++ with GLIBCXX_$(newest GLIBCXX), libgomp"
