#!/usr/bin/env bash
# Makes what `cmake --preset aarch64` wants: installs the cross compiler and the
# emulator, and unpacks Debian's arm64 packages of what the tree depends on to
# build-aarch64/packages. Those can't be installed beside this machine's own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh

packages=(
  libabsl-dev libabsl20220623 libgflags-dev libgflags2.2 libgoogle-glog-dev
  libgoogle-glog0v6 libgtest-dev libgmock-dev libbenchmark-dev
  libbenchmark1debian nlohmann-json3-dev libxxhash-dev libunwind-dev libunwind8
  liblzma5
)
target=$PWD/build-aarch64/packages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$target" "$work"/{lists,cache/archives}/partial "$work/files"

install_apt ca-certificates g++-aarch64-linux-gnu qemu-user
# Lists and files of another architecture, apart from the system's.
apt=(
  apt-get -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache"
  -o Dir::State::status=/dev/null -o APT::Architecture=arm64
  -o APT::Architectures=arm64 -o APT::Sandbox::User=root
)
run_step "list arm64 packages" aarch64-lists "${apt[@]}" update
cd "$work/files"
log_dir=$OLDPWD/$log_dir
run_step "download ${#packages[@]} packages" aarch64-download \
  "${apt[@]}" download "${packages[@]}"
for file in *.deb; do dpkg-deb -x "$file" "$target"; done
say "$target is ready: cmake --preset aarch64"
