#include "kernels/cpu/simd_table.h"

#include <cstdlib>
#include <cstring>

#include "kernels/cpu/simd/parts.h"

namespace mica::cpu {
namespace {

SimdTable MakeV3() {
  SimdTable table;
  table.name = "x86-64-v3";
  v3::FillElementwise(table);
  v3::FillUnary(table);
  v3::FillReduce(table);
  v3::FillArgExtreme(table);
  v3::FillNorm(table);
  v3::FillBackward(table);
  v3::FillRegion(table);
  v3::FillGemm(table);
  v3::FillDots(table);
  v3::FillFinish(table);
  v3::FillAttention(table);
  v3::FillPlainGemm(table);
  v3::FillConvolution(table);
  v3::FillWinograd(table);
  v3::FillWindow(table);
  v3::FillTraining(table);
  v3::FillBatchNorm(table);
  v3::FillRecurrent(table);
  v3::FillHalf(table);
  v3::FillHalfLoops(table);
  v3::FillPoolRows(table);
  v3::FillTranspose(table);
  v3::FillOneRow(table);
  v3::FillGather(table);
  v3::FillSpread(table);
  return table;
}

SimdTable MakeV4() {
  SimdTable table;
  table.name = "x86-64-v4";
  v4::FillElementwise(table);
  v4::FillUnary(table);
  v4::FillReduce(table);
  v4::FillArgExtreme(table);
  v4::FillNorm(table);
  v4::FillBackward(table);
  v4::FillRegion(table);
  v4::FillGemm(table);
  v4::FillDots(table);
  v4::FillFinish(table);
  v4::FillAttention(table);
  v4::FillPlainGemm(table);
  v4::FillConvolution(table);
  v4::FillWinograd(table);
  v4::FillWindow(table);
  v4::FillTraining(table);
  v4::FillBatchNorm(table);
  v4::FillRecurrent(table);
  v4::FillHalf(table);
  v4::FillHalfLoops(table);
  v4::FillPoolRows(table);
  v4::FillTranspose(table);
  v4::FillOneRow(table);
  v4::FillGather(table);
  v4::FillSpread(table);
  return table;
}

bool CanRunV4() {
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

const SimdTable& Choose() {
  const char* wish = std::getenv("MICA_SIMD");
  const bool narrow = wish != nullptr && std::strcmp(wish, "v3") == 0;
  const SimdTable* v4 = narrow ? nullptr : SimdV4();
  if (v4 != nullptr) return *v4;
  const SimdTable* v3 = SimdV3();
  // Before any table exists there is nobody to return a Status to.
  if (v3 == nullptr) std::abort();
  return *v3;
}

}  // namespace

const SimdTable* SimdV3() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return nullptr;
  }
  static const SimdTable table = MakeV3();
  return &table;
}

const SimdTable* SimdV4() {
  if (!CanRunV4()) return nullptr;
  static const SimdTable table = MakeV4();
  return &table;
}

const SimdTable& Simd() {
  static const SimdTable& table = Choose();
  return table;
}

namespace {

// That of loops over elements of 1, 2, 4 and 8 bytes which is for `bytes`.
template <typename Fn>
Fn OfBytes(int64_t bytes, Fn one, Fn two, Fn four, Fn eight) {
  switch (bytes) {
    case 1:
      return one;
    case 2:
      return two;
    case 4:
      return four;
    case 8:
      return eight;
    default:
      return nullptr;
  }
}

}  // namespace

GatherFn GatherOf(int64_t bytes) {
  const SimdTable& table = Simd();
  return OfBytes(bytes, table.gather8, table.gather16, table.gather32,
                 table.gather64);
}

PickFn PickOf(int64_t bytes) {
  const SimdTable& table = Simd();
  return OfBytes(bytes, table.pick8, table.pick16, table.pick32, table.pick64);
}

}  // namespace mica::cpu
