#!/usr/bin/env bash
# Checks that take too long for tools/test.sh, each in a build or an environment
# of its own. Runs to the end whatever fails; the exit status is 0 only if
# nothing failed. Without arguments all parts run, else those that are named:
#
#   werror      the whole tree with warnings as errors
#   simd        kernels and models held to AVX2 and to SSE2 (MICA_SIMD=v3, v1)
#   qemu        C++ tests on emulated processors: one with SSE2 alone, one with
#               SSE4.2, one with AVX2
#   aarch64     the core compiled for 64-bit ARM, its C++ tests emulated
#   sanitized   Python tests with the extension under the address and
#               undefined-behaviour sanitizers (tools/asan_pytest.sh)
#   opinfo      all samples of torch's OpInfos, not a few of each
#   threads     Python tests on two threads and a queue
#   sweep       every operator at other sizes, under transforms, in place
#   wheel       the main job on an installed wheel, and how long the import takes
#
# Arguments behind -- go to pytest in place of a part's own tests.
#
# Wants what tools/test.sh installs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh

python=.venv/bin/python
[[ -x $python ]] || die "no .venv: run tools/test.sh first"
all=(werror simd qemu aarch64 sanitized opinfo threads sweep wheel)
parts=()
tests=()
while (($#)); do
  case $1 in
    --)
      shift
      tests=("$@")
      break
      ;;
    werror | simd | qemu | aarch64 | sanitized | opinfo | threads | sweep | wheel)
      parts+=("$1")
      ;;
    *) die "no part $1: there are ${all[*]}" ;;
  esac
  shift
done
((${#parts[@]})) || parts=("${all[@]}")
failures=()

# check NAME LOG COMMAND…: one check; tells what a pytest log says at its end.
check() {
  run_step "$@" || failures+=("$1")
  grep -hE '^[0-9]+ (passed|failed|skipped)|^(FAILED|ERROR) ' \
    "$log_dir/$2.log" 2>/dev/null | tail -n 20 | sed 's/^/    /' || true
}

# pytest_on LOG NAME [VARIABLE=VALUE…] -- TEST…: tests with an environment.
pytest_on() {
  local log=$1 name=$2 environment=()
  shift 2
  while [[ $1 != -- ]]; do
    environment+=("$1")
    shift
  done
  shift
  ((${#tests[@]})) && set -- "${tests[@]}"
  check "$name" "nightly-$log" env "${environment[@]}" \
    "$python" -m pytest -q -rs "$@"
}

werror() {
  check "configure (werror)" configure-werror cmake -S . -B build-werror \
    -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMICA_WERROR=ON
  check "build (werror)" build-werror env NINJA_STATUS='[%f/%t] ' \
    cmake --build build-werror --target mica_product mica_python mica_tests
}

simd() {
  local level
  for level in v3 v1; do
    check "C++ tests of kernels ($level)" "nightly-simd-ctest-$level" env \
      MICA_SIMD=$level ctest --preset release -R 'kernels|conformance|property'
    pytest_on "simd-$level" "Python tests ($level)" MICA_SIMD=$level -- \
      tests/conformance tests/e2e/test_models_text.py \
      tests/e2e/test_models_vision.py tests/e2e/test_training_kernels.py \
      tests/e2e/test_half_kernels.py tests/e2e/test_bfloat16_products.py
  done
}

# An instruction that the processor hasn't got ends a test. oneDNN is held to AVX:
# with AVX2 its tanh is wrong in QEMU 7.2, and right on processors. Of conformance
# what runs kernels but the reference's.
qemu() {
  local processor binary emulate
  for processor in qemu64 Nehalem Haswell; do
    emulate=(env OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX
      qemu-x86_64 -cpu "$processor")
    for binary in kernels analysis executor executor_thread; do
      check "${binary}_tests ($processor)" "nightly-qemu-$processor-$binary" \
        "${emulate[@]}" "build/tests/${binary}_tests"
    done
    check "conformance ($processor)" "nightly-qemu-$processor-conformance" \
      "${emulate[@]}" build/tests/tests_tests '--gtest_filter=*FastKernels*'
  done
}

# Without oneDNN and libxsmm.
aarch64() {
  local binary
  check "packages (aarch64)" nightly-aarch64-packages tools/aarch64_packages.sh
  check "configure (aarch64)" nightly-aarch64-configure cmake --preset aarch64
  check "build (aarch64)" nightly-aarch64-build env NINJA_STATUS='[%f/%t] ' \
    cmake --build --preset aarch64
  for binary in framework ops kernels analysis executor executor_thread; do
    check "${binary}_tests (aarch64)" "nightly-aarch64-$binary" \
      tools/run_aarch64.sh "build-aarch64/tests/${binary}_tests"
  done
  check "conformance (aarch64)" nightly-aarch64-conformance \
    tools/run_aarch64.sh build-aarch64/tests/tests_tests \
    '--gtest_filter=*FastKernels*'
}

sanitized() {
  local arguments=()
  ((${#tests[@]})) && arguments=(-q "${tests[@]}")
  check "Python tests (sanitized)" nightly-sanitized \
    tools/asan_pytest.sh ${arguments[@]+"${arguments[@]}"}
}

opinfo() {
  pytest_on opinfo "all OpInfo samples" MICA_OPINFO_SAMPLES=all -- \
    tests/conformance/test_opinfo.py
}

threads() {
  pytest_on threads "Python tests (two threads)" MICA_NUM_THREADS=2 \
    OMP_NUM_THREADS=2 -- tests/e2e
}

sweep() {
  check "sweep over operators" nightly-sweep \
    "$python" tools/operator_sweep.py --json
}

wheel() {
  check "the wheel" nightly-wheel tools/check_wheel.sh
  check "time of the import" nightly-import "$python" tools/bench_import.py
}

for part in "${parts[@]}"; do
  say "$part"
  "$part"
done
say "Everything took $SECONDS s."
for failure in ${failures[@]+"${failures[@]}"}; do
  say "FAILED: $failure"
done
((${#failures[@]} == 0))
