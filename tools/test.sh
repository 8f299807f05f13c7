#!/usr/bin/env bash
# Every check of the tree, from a bare Debian 12 machine on: installs what is
# missing, builds, and runs all tests. Runs to the end whatever fails; the last
# line counts, and the exit status is 0 only if nothing failed. A test that is
# skipped for a reason that isn't in `may_skip` is a failure: what wasn't tried
# doesn't pass for what works. tools/nightly.sh has what takes longer.
#
#   MICA_FUZZ_SECONDS=20   how long each fuzz target runs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extra_apt_packages=(
  clang-14 clang-format-14 libclang-rt-14-dev qemu-user shellcheck
)
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh

python=.venv/bin/python
passed=0
failed=0
skipped=0
failures=()

# Reasons for which tests may be skipped here: there is nothing to be held to,
# or a version of CPython is missing that a machine needn't have.
may_skip="the user's promise|any contents are right"
may_skip+='|no CPython 3\.1[23] with headers was found'
may_skip+="|the corpus is of 3\.11's opcodes"
may_skip+='|no environment of CPython 3\.1[23] with torch'
# Or the machine is a container that lets no other root be entered.
may_skip+="|lets no other root be entered"

# check NAME LOG COMMAND…: one check that passes or fails as a whole.
check() {
  if run_step "$1" "${@:2}"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    failures+=("$1")
  fi
}

# count NAME STATUS PASSED FAILED: adds a runner's own counts. A runner that
# failed without counting a failure, or ran nothing, is a failure itself.
count() {
  passed=$((passed + $3))
  failed=$((failed + $4))
  if (($4 > 0)); then
    failures+=("$1: $4 failed")
  elif (($2 != 0)); then
    failed=$((failed + 1))
    failures+=("$1: exit status $2")
  elif (($3 == 0)); then
    failed=$((failed + 1))
    failures+=("$1: no test ran")
  fi
}

# count_skips NAME: adds skipped tests, of which standard input has a
# line each: their number in brackets, and the reason.
count_skips() {
  local name=$1 line number
  while read -r line; do
    number=$(grep -oE '\[[0-9]+\]' <<<"$line" | head -n 1 | tr -d '[]')
    skipped=$((skipped + number))
    if ! grep -qE "$may_skip" <<<"$line"; then
      failed=$((failed + number))
      failures+=("$name: skipped, $line")
    fi
  done
}

# log_number LOG PATTERN: the number that the last match of an extended regular
# expression begins with, or 0.
log_number() {
  { grep -oE "$2" "$log_dir/$1.log" || echo 0; } | tail -n 1 |
    grep -oE '^[0-9]+'
}

# ctest_preset PRESET TARGET [OPTION…]: builds the C++ tests of a preset that
# TARGET stands for, and runs those that ctest's options choose.
ctest_preset() {
  local preset=$1 target=$2 status=0 total bad line
  shift 2
  if ! build_preset "$preset" "$target"; then
    count "C++ tests ($preset)" 1 0 0
    return 0
  fi
  run_step "C++ tests ($preset)" "ctest-$preset" \
    ctest --preset "$preset" -j "$(nproc)" "$@" || status=$?
  # The end of ctest's output, which was shown, only names tests.
  if ((status != 0)); then
    { grep -A12 -E 'Failure$|ERROR: |runtime error:|SUMMARY: ' \
      "$log_dir/ctest-$preset.log" || true; } | sed -n '1,80s/^/    /p'
  fi
  total=$(grep -oE 'out of [0-9]+' "$log_dir/ctest-$preset.log" |
    tail -n 1 | grep -oE '[0-9]+' || echo 0)
  bad=$(log_number "ctest-$preset" '[0-9]+ tests failed')
  count "C++ tests ($preset)" "$status" $((total - bad)) "$bad"
  while read -r line; do
    failures+=("$preset: $line")
  done < <(sed -n '/The following tests FAILED/,$p' \
    "$log_dir/ctest-$preset.log" | grep -E '^\s+[0-9]+ - ')
  local dir=build-$preset
  [[ $preset == release ]] && dir=build
  # GTest tells the reason in the line behind that of the place.
  count_skips "C++ tests ($preset)" < <(
    grep -hA1 -E '^[^ ]+:[0-9]+: Skipped$' \
      "$dir/Testing/Temporary/LastTest.log" 2>/dev/null |
      grep -vE '^--$|: Skipped$' | sed 's/^/[1] /'
  )
}

# pytest_with PYTHON NAME LOG [TEST…]: on all cores, a file's tests in one
# process. A process that dies ends them all: the log names the test.
pytest_with() {
  local interpreter=$1 name=$2 log=$3 status=0 line
  shift 3
  run_step "$name" "$log" "$interpreter" -m pytest -q -rsfE -n "$(nproc)" \
    --dist loadfile --no-loadscope-reorder --max-worker-restart=0 "$@" ||
    status=$?
  count "$name" "$status" \
    "$(log_number "$log" '[0-9]+ passed')" \
    "$(($(log_number "$log" '[0-9]+ failed') +
      $(log_number "$log" '[0-9]+ errors?')))"
  while read -r line; do
    failures+=("$name: ${line#* }")
  done < <(grep -oE '^(FAILED|ERROR) [^ ]+' "$log_dir/$log.log")
  count_skips "$name" < <(
    grep -E '^SKIPPED \[[0-9]+\]' "$log_dir/$log.log"
  )
}

# The tests of capture on other versions of CPython than the tree's, where there
# are environments of theirs (tools/python_environment.sh).
other_versions() {
  local version short environment name
  for version in "${other_pythons[@]}"; do
    short=${version/./}
    environment=$(environment_of "$version")
    name="capture on CPython $version"
    if [[ -z $environment ]]; then
      say "  $name: skipped, no environment of it (tools/python_environment.sh)"
      count_skips "$name" <<<"[1] no environment of CPython $version with torch"
      continue
    fi
    # An environment that came after the build was configured.
    if ! compgen -G "python/mica/_mica.cpython-$short-*.so" >/dev/null; then
      run_step "configure" configure-versions cmake --preset release || true
    fi
    if ! build_preset release "_mica_$short"; then
      count "$name" 1 0 0
      continue
    fi
    PYTHONPATH=$PWD/python pytest_with "$environment/bin/python" "$name" \
      "pytest-$short" tests/e2e/capture
  done
}

clang_format() {
  git ls-files -z -- '*.cc' '*.h' '*.cu' |
    xargs -0 -r clang-format-14 --dry-run -Werror
}

# Mypy on the package and on the programs of tools/.
types() {
  MYPYPATH=tools "$python" -m mypy -p mica &&
    "$python" -m mypy tools/*.py tools/check_deps tools/check_sizes
}

shell() {
  git ls-files -z -- '*.sh' | xargs -0 shellcheck -x -P SCRIPTDIR
}

fuzz() {
  local target seconds=${MICA_FUZZ_SECONDS:-20} name dictionary seeds
  for target in tests/fuzz/*_fuzz.cc; do
    name=$(basename "$target" .cc)
    dictionary=${target%_fuzz.cc}.dict
    [[ -f $dictionary ]] || dictionary=
    seeds=(tests/fuzz/corpus tests/golden/text)
    if [[ -d ${target%_fuzz.cc}_corpus ]]; then
      seeds=("${target%_fuzz.cc}_corpus")
    fi
    mkdir -p "build-fuzz/corpus/$name"
    check "fuzzing: $name, $seconds s" "$name" "build-fuzz/bin/$name" \
      -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=4096 \
      -artifact_prefix=build-fuzz/ -print_final_stats=1 -verbosity=1 \
      ${dictionary:+"-dict=$dictionary"} \
      "build-fuzz/corpus/$name" "${seeds[@]}"
  done
}

# The wheel, made and tried in an environment of its own.
wheel() {
  check "the wheel" check-wheel tools/check_wheel.sh --quick
  count_skips "the wheel" < <(
    sed -n 's/^  \(.*: SKIPPED, .*\)/[1] \1/p' "$log_dir/check-wheel.log"
  )
}

export UBSAN_OPTIONS=print_stacktrace=1
export HF_HUB_OFFLINE=1

prepare all test frameworks quickstart model wheel
say "Checks of the text"
check "clang-format" clang-format clang_format
check "ruff format" ruff-format "$python" -m ruff format --check .
check "ruff check" ruff-check "$python" -m ruff check .
check "mypy --strict" mypy types
check "shellcheck" shellcheck shell
check "check_deps" check-deps tools/check_deps
check "check_sizes" check-sizes tools/check_sizes
say "Tests"
ctest_preset release mica_tests
pytest_with "$python" "Python tests" pytest
other_versions
wheel
say "Tests under sanitizers"
ctest_preset asan mica_tests
ctest_preset tsan mica_thread_tests -L threads
if compgen -G 'tests/fuzz/*_fuzz.cc' >/dev/null; then
  if build_preset fuzz; then fuzz; else count "fuzz targets" 1 0 0; fi
fi

say "Everything took $SECONDS s."
for failure in ${failures[@]+"${failures[@]}"}; do
  say "FAILED: ${failure#FAILED }"
done
say "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
