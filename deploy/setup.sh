#!/usr/bin/env bash
# Checks everything that the named parts need, says what will happen, and installs the Debian packages that are missing.
#     setup.sh PART… [-- BUILD…]        parts: build, python, maven, npm, fresh
# Nothing is compiled before the checks have passed. If nothing is missing and something
# has been built before, it takes milliseconds and says nothing.
#
# BUILD is a command that compiles. It begins as soon as the packages of `build` are there, and the others are
# installed meanwhile: on a bare machine that saves half a minute.
#
# SETUP_ROOT is put before every path outside the project: the tests pass a made-up root.
set -euo pipefail
cd "$(dirname "$0")/.."
root=${SETUP_ROOT:-}

parts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  parts+=("$1")
  shift
done
build=("${@:2}")

found=()    # what is there, one phrase each
packages=() # the Debian packages that will bring what is missing
problems=() # what no package of ours can mend

# need COMMAND PACKAGE: the package, unless the command is there.
need() {
  if command -v "$1" >/dev/null; then found+=("$1"); else packages+=("$2"); fi
}

# elf_class FILE: 1 for 32 bits, 2 for 64 bits, nothing if the file is not an ELF library.
elf_class() {
  local head
  head=$(od -An -tu1 -N5 "$1" 2>/dev/null | tr -s ' ') || return 0
  [[ $head == " 127 69 76 70 "* ]] && echo "${head##* }"
  return 0
}

# libclang_in FOLDER…: the libclang libraries in these folders, by the rule of clang-sys 1.9 (what bindgen uses):
# libclang.so and libclang-14.so, the versioned names of both, never libclang-cpp, and only the machine's word size.
libclang_in() {
  local folder file want=1
  [ "$(getconf LONG_BIT)" = 64 ] && want=2
  for folder in "$@"; do
    for file in "$folder"/libclang.so "$folder"/libclang-*.so "$folder"/libclang.so.* "$folder"/libclang-*.so.*; do
      if [ -e "$file" ] && [[ ${file##*/} != *-cpp.* ]] && [ "$(elf_class "$file")" = $want ]; then echo "$file"; fi
    done
  done
}

# The folders in which clang-sys looks, in its order, unless LIBCLANG_PATH is set.
libclang_folders() {
  local prefix IFS=:
  if prefix=$("${LLVM_CONFIG_PATH:-llvm-config}" --prefix 2>/dev/null); then
    printf '%s\n' "$prefix"/{bin,lib,lib64}
  fi
  printf '%s\n' ${LD_LIBRARY_PATH:-} ${LIBRARY_PATH:-}
  IFS=
  printf '%s\n' "$root"/usr/local/llvm*/lib* "$root"/usr/local/lib*/*/* "$root"/usr/local/lib*/* "$root"/usr/local/lib* \
    "$root"/usr/lib*/*/* "$root"/usr/lib*/* "$root"/usr/lib*
}

# The library of the highest version on standard input, the first one among equals. libclang.so has no version.
newest() {
  local file
  while read -r file; do
    printf '%s\t%s\n' "$(sed -n 's/^libclang\(-\|\.so\.\)\([0-9]*\).*/\2/p' <<<"${file##*/}")" "$file"
  done | sort -s -t $'\t' -k 1,1nr | sed -n '1s/^[^\t]*\t//p'
}

# libclang: the library that bindgen will load, or nothing. LIBCLANG_PATH, if it is set, names the library or its folder.
libclang() {
  local folders=()
  if [ -z "${LIBCLANG_PATH+set}" ]; then
    mapfile -t folders < <(libclang_folders)
    libclang_in "${folders[@]}" | newest
  else
    libclang_in "$(dirname "$LIBCLANG_PATH")" | grep -Fx -m 1 -- "$LIBCLANG_PATH" || libclang_in "$LIBCLANG_PATH" | newest
  fi
}

# The first number in the name of the file behind a library: libclang-14.so.1 is of LLVM 14.
llvm_of() { readlink -f "$1" | sed -n 's/.*libclang[^0-9]*\([0-9]*\).*/\1/p'; }

# Whether libclang will find stdbool.h and its like, which are a package of their own (libclang-common-14-dev).
has_builtin_headers() {
  local library=$1 real folder
  command -v clang >/dev/null && return 0
  real=$(readlink -f "$library")
  for folder in "${library%/*}" "${library%/*}"/../lib "${real%/*}" "${real%/*}"/../lib "$root"/usr/lib/llvm-*/lib "$root"/usr/lib "$root"/usr/lib64; do
    compgen -G "$folder/clang/$(llvm_of "$library")*/include/stdbool.h" >/dev/null && return 0
  done
  return 1
}

check_libclang() {
  local library
  library=$(libclang)
  if [ -z "$library" ] && [ -n "${LIBCLANG_PATH+set}" ]; then
    problems+=("LIBCLANG_PATH is $LIBCLANG_PATH, and no libclang for this machine lies there; unset it, or set it to the folder of libclang.so")
  elif [ -z "$library" ]; then
    packages+=(libclang-dev)
  elif has_builtin_headers "$library"; then
    found+=("libclang ($library)")
  elif [ -n "$(llvm_of "$library")" ]; then
    packages+=("libclang-common-$(llvm_of "$library")-dev")
  else
    packages+=(clang)
  fi
}

# The pinned toolchain or a later one. rustup answers with the pinned one, and fetches it first.
check_rust() {
  local wanted version
  wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
  if ! command -v cargo >/dev/null; then
    problems+=("there is no Rust toolchain: install rustup, or Rust $wanted or later, and make sure that cargo is on the PATH")
    return
  fi
  version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || version=
  if [ -z "$version" ]; then
    problems+=("'cargo --version' fails here: Rust $wanted is needed ('rustup toolchain install $wanted')")
  elif [ "$(printf '%s\n' "$wanted" "${version%%-*}" | sort -V | head -n 1)" != "$wanted" ]; then
    problems+=("cargo is $version, and $wanted or later is needed: update Rust ('rustup toolchain install $wanted')")
  else
    found+=("cargo $version")
  fi
}

# llama.cpp's build settles once for which processor and with which kernels it builds, and cargo keeps that. A build
# folder that came from a machine with other instructions (a cache, a disk image) would make programs that die with
# SIGILL here, and one of before .cargo/config.toml left kernels out would make slower ones.
forget_llama_built_otherwise() {
  local target=${CARGO_TARGET_DIR:-target} settled
  for settled in "$target"/*/build/llama-cpp-sys-2-*/out/build/CMakeCache.txt; do
    [ -e "$settled" ] || continue
    if ! grep -qx "GGML_AVX512_VNNI:[A-Z]*=${GGML_AVX512_VNNI:-OFF}" "$settled" ||
      ! grep -qx "GGML_AVX512_VBMI:[A-Z]*=${GGML_AVX512_VBMI:-OFF}" "$settled" ||
      ! grep -qx "GGML_LLAMAFILE:[A-Z]*=OFF" "$settled"; then
      echo "setup: llama.cpp was built for another processor, or otherwise: it will be built again" >&2
      rm -rf "$target"/*/build/llama-cpp-sys-2-* "$target"/*/.fingerprint/llama-cpp-sys-2-*
    fi
  done
}

# How packages are installed: the words before `apt-get`, in as_root.
check_installer() {
  as_root=()
  if ! command -v apt-get >/dev/null; then
    problems+=("there is no apt-get: please install what these Debian packages hold: ${packages[*]}")
  elif [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null; then
      as_root=(sudo)
    else
      problems+=("only root can install packages: run as root 'apt-get install ${packages[*]}', then try again")
    fi
  fi
}

first=() # those packages that the build needs
for part in "${parts[@]}"; do
  case $part in
    build)
      need cmake cmake
      need c++ g++
      need make make
      check_libclang
      check_rust
      forget_llama_built_otherwise
      first=("${packages[@]}")
      ;;
    python)
      need python3 python3
      python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
      if python3 -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)' 2>/dev/null; then
        # A virtual environment has a pip of its own, or none: Debian's is no help there.
        python3 -c 'import pip' 2>/dev/null ||
          problems+=("python3 is that of a virtual environment without pip: leave it, or run 'python3 -m ensurepip' in it")
      else
        python3 -c 'import pip' 2>/dev/null || packages+=(python3-pip)
      fi
      ;;
    maven) need mvn maven ;;
    npm) need npm npm ;;
    fresh) need mmdebstrap mmdebstrap ;;
    *)
      echo "setup.sh: there is no part '$part'; the parts are build, python, maven, npm, fresh" >&2
      exit 2
      ;;
  esac
done

[ ${#packages[@]} -eq 0 ] || check_installer
is_first_build=
if [[ " ${parts[*]} " == *" build "* ]] && ! compgen -G "${CARGO_TARGET_DIR:-target}/*/deps" >/dev/null; then is_first_build=yes; fi

if [ ${#packages[@]} -gt 0 ] || [ ${#problems[@]} -gt 0 ] || [ -n "$is_first_build" ]; then
  [ ${#found[@]} -eq 0 ] || printf 'setup: found %s\n' "$(printf '%s, ' "${found[@]}" | sed 's/, $//')" >&2
  [ ${#packages[@]} -eq 0 ] || echo "setup: missing, from Debian packages: ${packages[*]}" >&2
fi
if [ ${#problems[@]} -gt 0 ]; then
  printf 'setup: %s\n' "${problems[@]}" >&2
  exit 1
fi
if [ -n "$is_first_build" ]; then
  echo "setup: a first build compiles about 400 crates and llama.cpp: 4 minutes for a demonstration, 10 for a release on 2 slow cores (here: $(nproc) cores), and 1 GB on disk" >&2
fi

# install PACKAGE…
install() {
  [ $# -eq 0 ] || "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

if [ ${#packages[@]} -gt 0 ] && ! "${as_root[@]}" apt-get update -qq; then
  # One source of several that has gone bad need not be the one that is needed.
  echo "setup: 'apt-get update' has failed: trying the lists that are there" >&2
fi
if [ ${#build[@]} -eq 0 ]; then
  install "${packages[@]}"
  exit
fi

# behind COMMAND…: in the background, with a process group of its own for it and all that it starts.
behind() {
  set -m
  "$@" </dev/null &
  set +m
}

# What runs behind a script does not hear Ctrl-C, and would outlive it: cargo's compilers, too.
trap 'for group in $(jobs -p); do kill -- "-$group"; done 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM HUP
if [ ${#first[@]} -gt 0 ]; then
  # What cargo cannot fetch here, the build asks for once more, and says why it cannot.
  behind cargo fetch --locked --quiet --target "$(uname -m)-unknown-linux-gnu" 2>/dev/null
  install "${first[@]}"
  wait
fi
behind "${build[@]}"
install "${packages[@]:${#first[@]}}"
wait $!
