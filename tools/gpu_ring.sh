#!/usr/bin/env bash
# The checks of CUDA's part, in rings.
#
#   tools/gpu_ring.sh --no-gpu      what needs no GPU: the driver's calls, the
#                                   simulated device, and, where NVRTC is found,
#                                   every kernel's source compiled
#   tools/gpu_ring.sh --pack FILE   writes FILE, a .tar.xz that runs on a bare
#                                   machine with a GPU
#   tools/gpu_ring.sh               all checks and times on this machine's GPU;
#                                   in a folder where FILE was unpacked: sh run.sh
#
# Needs a built tree (cmake --build --preset release).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

without_gpu() {
  ctest --preset release \
    -R '^(tests_devices_.*|tests_property_device|executor_device_.*)_test$'
  if build/bin/mica_gpu_kernels --compile --gtest_filter=None >/dev/null; then
    build/bin/mica_gpu_kernels --compile --gtest_brief=1
  else
    echo "NVRTC was not found: no kernel was compiled"
  fi
}

pack() {
  local folder library
  folder=$(mktemp -d)
  mkdir -p "$folder/lib" "$folder/tools" "$folder/build/bin"
  for library in $(ldd build/bin/mica_gpu_kernels | awk '/=> \// {print $3}'); do
    case $(basename "$library") in
      libc.so* | libm.so* | libdl.so* | libpthread.so* | ld-linux*) ;;
      *) strip -o "$folder/lib/$(basename "$library")" "$library" ;;
    esac
  done
  strip -o "$folder/build/bin/mica_gpu_kernels" build/bin/mica_gpu_kernels
  strip -o "$folder/build/bin/mica_bench" build/bin/mica_bench
  cp tools/gpu_ring.sh tools/bench_gpu.py "$folder/tools/"
  cat >"$folder/run.sh" <<'RUN'
export LD_LIBRARY_PATH=$PWD/lib:${LD_LIBRARY_PATH:-}
bash tools/gpu_ring.sh
RUN
  tar -C "$folder" -cJf "$1" .
  rm -r "$folder"
}

# Where a Python that has torch keeps CUDA's libraries.
find_libraries() {
  local folder
  for folder in $(python3 -c '
import glob, site, sys
for root in {*site.getsitepackages(), *sys.path}:
    print("\n".join(glob.glob(root + "/nvidia/*/lib")))' | sort -u); do
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$folder
  done
  export LD_LIBRARY_PATH
}

# Every kernel against the oracle, on all cores.
kernels() {
  local shards shard failed=0
  local -a jobs=()
  shards=$(nproc)
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
      build/bin/mica_gpu_kernels --gtest_brief=1 >"kernels_$shard.log" 2>&1 &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || failed=1; done
  cat kernels_*.log >kernels.log
  rm -f kernels_[0-9]*.log
  awk '/^cases of/ {tried += $4; declined += $6}
       /^\[  FAILED  \] AllOps/ {failed += 1}
       END {print "kernels: " tried " cases tried, " declined \
            " declined, " failed + 0 " operators failed"}' kernels.log
  return $failed
}

# Whole Programs against the host.
programs() {
  local options
  for options in "--generate=transformer_step --layers=2 --hidden=64 --heads=4" \
    "--generate=transformer_step --layers=3 --hidden=256 --heads=4 --batch=4" \
    "--generate=transformer --layers=3 --hidden=256 --heads=4 --batch=4"; do
    for streams in 1 4; do
      # shellcheck disable=SC2086
      echo "$options --streams=$streams:" "$(build/bin/mica_bench $options \
        --place=cuda:0 --check --streams=$streams --repeats=5 \
        --plan_repeats=1 --json |
        grep -oE '"(largest_difference|graph_runs)":[^,]*' | tr '\n' ' ')"
    done
  done
}

case ${1:-} in
  --no-gpu) without_gpu ;;
  --pack) pack "$2" ;;
  *)
    find_libraries
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    kernels || echo "some kernels failed: see kernels.log"
    programs
    python3 tools/bench_gpu.py
    ;;
esac
