#!/usr/bin/env bash
# Runs a program that `cmake --preset aarch64` built, under qemu-aarch64.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
packages=$root/build-aarch64/packages
libraries=$packages/usr/lib/aarch64-linux-gnu:$packages/lib/aarch64-linux-gnu
exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" "$@"
