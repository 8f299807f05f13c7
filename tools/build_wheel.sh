#!/usr/bin/env bash
# Makes the wheel of Mica, from a bare Debian 12 machine on: installs what is
# missing, builds, links the extension with Abseil, glog and gflags inside, and
# lets auditwheel say which systems it fits. The wheel takes the place of older
# ones in the folder. May be run again at any time; only what has changed is
# done. tools/check_wheel.sh tries the wheel.
#
#   --out DIR   where the wheel goes; by default build/dist
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extra_apt_packages=(dpkg-dev)
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh
# shellcheck source=lib/archives.sh
source tools/lib/archives.sh

out=build/dist
while (($#)); do
  case $1 in
    --out)
      (($# > 1)) || die "--out: wants a folder"
      out=$2
      shift
      ;;
    *) die "no option $1: there is --out DIR" ;;
  esac
  shift
done
most_bytes=$((25 * 1000 * 1000))
# What a wheel doesn't bring: oneDNN's, torch's, and the OpenMP runtime that
# both share.
not_brought=(libdnnl.so.3 libgomp.so.1 libtorch_python.so libtorch_cpu.so
  libc10.so)
python=.venv/bin/python

# pip and scikit-build-core, in the build that is there: what is noted of an
# environment that was, scikit-build-core would begin anew for.
pack() {
  rm -rf build/wheel build/.skbuild-info.json
  mkdir -p build/wheel
  "$python" -m pip wheel . --no-deps --no-build-isolation --verbose \
    --wheel-dir build/wheel -C build-dir=build \
    -C cmake.define.MICA_TESTS=ON \
    -C "cmake.define.MICA_ARCHIVES=$archives_dir/lib" \
    -C build.targets=_mica_wheel
}

# Refuses any library of the system's that isn't among those of a manylinux tag,
# and names the wheel after the lowest one that it fits.
audit() {
  local library excluded=()
  for library in "${not_brought[@]}"; do excluded+=(--exclude "$library"); done
  rm -rf build/wheel/fit
  PATH=$PWD/.venv/bin:$PATH "$python" -m auditwheel show \
    build/wheel/*.whl || return 1
  PATH=$PWD/.venv/bin:$PATH "$python" -m auditwheel repair \
    --plat auto --wheel-dir build/wheel/fit "${excluded[@]}" \
    build/wheel/*.whl || return 1
  compgen -G 'build/wheel/fit/*-manylinux_2_*_x86_64.whl' >/dev/null || return 1
  # A library that it had to bring in is one too many.
  ! "$python" -m zipfile -l build/wheel/fit/*.whl | grep -F 'mica.libs/'
}

prepare _mica wheel
say "The wheel"
prepare_archives || die "could not build the archives"
run_step "pip wheel" wheel pack || die "could not make the wheel"
run_step "auditwheel" auditwheel audit ||
  die "the wheel asks for what other systems don't have"
wheel=$(echo build/wheel/fit/*.whl)
bytes=$(stat -c %s "$wheel")
((bytes <= most_bytes)) ||
  die "the wheel has $bytes bytes, and $most_bytes are the bar"
mkdir -p "$out"
rm -f "$out"/mica-*.whl
cp "$wheel" "$out"
say "$out/${wheel##*/}: $bytes bytes; everything took $SECONDS s"
