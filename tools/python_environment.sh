#!/usr/bin/env bash
# Makes an environment of another CPython than the tree's own, outside of the
# tree and once: torch and what the tests need. The build then makes an extension
# for it, too, and tools/test.sh runs the tests of capture on it.
#
#   tools/python_environment.sh 3.12 [FOLDER]
#
# FOLDER is one for all versions; what CMake calls MICA_ENVIRONMENTS, and has the
# same default. Wants that CPython with its headers (pyenv's, or on the PATH), a
# few minutes, and some 5 GB: torch comes with CUDA's libraries where its index
# has no build for the CPU alone. MICA_PYTHON_312 and its like name an interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh

version=${1:-}
case $version in
  3.11 | 3.12 | 3.13) ;;
  *) die "usage: tools/python_environment.sh 3.11|3.12|3.13 [FOLDER]" ;;
esac
environment=${2:-$HOME/.cache/mica-environments}/$version

# Has its headers, those of its insides included.
fits() {
  "$1" -I -c '
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(
    sysconfig.get_path("include"), "internal", "pycore_frame.h"
)
version = ".".join(map(str, sys.version_info[:2]))
sys.exit(version != sys.argv[1] or not os.path.exists(header))
' "$version" >/dev/null 2>&1
}

find_interpreter() {
  local named="MICA_PYTHON_${version/./}" candidate
  for candidate in "${!named:-}" \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/"python$version" \
    "python$version"; do
    if [[ -n $candidate ]] && fits "$candidate"; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

stamp=$environment/.mica-requirements
sum=$(cat tools/requirements-build.txt tools/requirements-test.txt | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$sum" ]]; then
  say "$environment is there already"
  exit 0
fi
python=$(find_interpreter) ||
  die "no CPython $version with its headers on this machine"
[[ -x $environment/bin/python ]] ||
  run_step "environment of CPython $version" "environment-$version" \
    "$python" -m venv "$environment" || die "could not make $environment"

run_step "Python packages" "pip-$version" "$environment/bin/python" -m pip \
  install --progress-bar off --no-compile --no-cache-dir \
  -r tools/requirements-build.txt -r tools/requirements-test.txt ||
  die "could not install torch and what the tests need"
# The package is the tree's, wherever that lies: PYTHONPATH says where.
echo "$sum" >"$stamp"
say "$environment is ready: configure the build again (cmake build)"
