#!/usr/bin/env bash
# Makes Mica's wheels, from a bare Debian 12 machine on: installs what is missing,
# builds, links the extension with Abseil, glog and gflags inside, and lets
# auditwheel say which systems it fits. There is one for the CPython of .venv, and
# one for each other version that the machine has an environment of
# (tools/python_environment.sh); all else in them is the same. They take the place
# of older ones in the folder. May be run again at any time; only what has changed
# is done. tools/check_wheel.sh tries them.
#
#   --out DIR   where the wheels go; by default build/dist
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
not_brought=(libdnnl.so.3 libgomp.so.1 libtorch.so libtorch_python.so
  libtorch_cpu.so libc10.so)
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

# pack_other VERSION: the wheel that was packed, with the extension for another
# CPython in it.
pack_other() {
  local short=${1/./} folder=build/wheel/$1 tree made
  build_preset release "_mica_wheel_$short" || return 1
  "$python" -m wheel unpack build/wheel/mica-*.whl --dest "$folder" || return 1
  tree=$(echo "$folder"/mica-*)
  rm "$tree"/mica/_mica.*.so
  cmake --install build --component "python_$short" --strip \
    --prefix "$tree" || return 1
  "$python" -m wheel pack "$tree" --dest-dir "$folder" || return 1
  made=$("$python" -m wheel tags --remove --python-tag "cp$short" \
    --abi-tag "cp$short" "$folder"/mica-*.whl | tail -n 1) || return 1
  [[ -f $folder/$made ]]
}

# audit FOLDER: refuses any library of the system's that isn't among those of a
# manylinux tag, and names the wheel there after the lowest one that it fits.
audit() {
  local library excluded=()
  for library in "${not_brought[@]}"; do excluded+=(--exclude "$library"); done
  rm -rf "$1/fit"
  PATH=$PWD/.venv/bin:$PATH "$python" -m auditwheel show "$1"/*.whl || return 1
  PATH=$PWD/.venv/bin:$PATH "$python" -m auditwheel repair \
    --plat auto --wheel-dir "$1/fit" "${excluded[@]}" "$1"/*.whl || return 1
  compgen -G "$1/fit/*-manylinux_2_*_x86_64.whl" >/dev/null || return 1
  # A library that it had to bring in is one too many.
  ! "$python" -m zipfile -l "$1"/fit/*.whl | grep -F 'mica.libs/'
}

prepare _mica wheel
say "The wheels"
prepare_archives || die "could not build the archives"
run_step "pip wheel" wheel pack || die "could not make the wheel"
folders=(build/wheel)
for version in "${other_pythons[@]}"; do
  if [[ -z $(environment_of "$version") ]]; then
    say "  CPython $version: no wheel, as there is no environment of it" \
      "(tools/python_environment.sh $version)"
    continue
  fi
  run_step "the same for CPython $version" "wheel-$version" \
    pack_other "$version" || die "could not make the wheel for CPython $version"
  folders+=("build/wheel/$version")
done
wheels=()
for folder in "${folders[@]}"; do
  run_step "auditwheel, $folder" "auditwheel-${folder##*/}" audit "$folder" ||
    die "the wheel asks for what other systems don't have"
  wheels+=("$folder"/fit/*.whl)
done
mkdir -p "$out"
rm -f "$out"/mica-*.whl
for wheel in "${wheels[@]}"; do
  bytes=$(stat -c %s "$wheel")
  ((bytes <= most_bytes)) ||
    die "${wheel##*/} has $bytes bytes, and $most_bytes are the bar"
  cp "$wheel" "$out"
  say "$out/${wheel##*/}: $bytes bytes"
done
say "everything took $SECONDS s"
