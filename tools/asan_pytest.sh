#!/usr/bin/env bash
# Python tests with the extension under the address and undefined-behaviour
# sanitizers: builds it, and runs pytest, which gets the arguments. Without any,
# the tests of capture run, and those of the interpreter's library on each
# version of CPython that CMake finds.
#
# Python's own objects are in malloc's memory, filled when they are freed, and
# its headers' assertions hold: what is used or given back after it is gone is
# told, in child processes too. Fails if anything was told, whatever the tests
# make of it.
#
# Wants what tools/test.sh installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh

build="build-asan-python"
tests=("$@")
if ((!$#)); then
  tests=(-q python/interpreter tests/e2e/capture tests/e2e/test_guard_soundness.py
    tests/e2e/test_random_numbers.py tests/e2e/test_training_capture.py
    tests/e2e/test_torch_compile.py)
fi
[[ -x .venv/bin/python ]] || die "no .venv: run tools/test.sh first"
build_preset asan-python

# The second of the two writes to the standard error, whatever log_path says, and
# ends the process; pytest leaves that stream alone with --capture=sys.
preload=()
for library in asan ubsan stdc++; do
  preload+=("$("${CXX:-c++}" -print-file-name="lib$library.so")")
done
reports=$PWD/$build/reports
rm -rf "$reports"
mkdir -p "$reports"
options=log_path=$reports/report:print_stacktrace=1
asan=$options:detect_leaks=0:handle_abort=1:allocator_may_return_null=1
status=0
LD_PRELOAD=$(IFS=: && echo "${preload[*]}") \
  ASAN_OPTIONS=$asan:max_free_fill_size=1024 \
  UBSAN_OPTIONS=$options PYTHONMALLOC=malloc_debug \
  MICA_BUILD=$build MICA_REFERENCES=none PYTHONPATH=$build/python \
  .venv/bin/python -m pytest -o "pythonpath=$build/python tools tests" \
  --capture=sys "${tests[@]}" || status=$?
for report in "$reports"/*; do
  # Not a warning, such as of a test that asks for more memory than there is.
  grep -qsE 'ERROR:|runtime error:' "$report" || continue
  say "$report:"
  sed 's/^/    /' "$report"
  status=1
done
exit "$status"
