#include "kernels/cpu/aten_wins.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdint>

#include "framework/tensor/tensor_type.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Whether the processor multiplies tiles of bfloat16, which the oneDNN in torch
// makes more of than the one that we have.
bool HasTiles() {
#if defined(__x86_64__)
  static const bool has_tiles = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kAmxBf16 = 1u << 22;
    return SimdV4() != nullptr && &Simd() == SimdV4() &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0;
  }();
  return has_tiles;
#else
  return false;
#endif
}

}  // namespace

std::optional<std::string> AtenWinsProduct(DType dtype,
                                           const ProductSpec& spec) {
  if (spec.is_frozen) return std::nullopt;  // A packed one is as fast.
  const int64_t weights = spec.n * spec.k;
  constexpr int64_t kFewRows = 8, kManyRows = 64;
  constexpr int64_t kSomeWeights = 64 * 1024, kManyWeights = 1024 * 1024;
  if (dtype == DType::kF16 && spec.m <= kFewRows && spec.b_row_stride == 1 &&
      weights >= kSomeWeights) {
    return "ATen's is faster for few rows of float16";
  }
  if (dtype == DType::kBF16 && HasTiles() && spec.m >= kManyRows &&
      spec.b_col_stride == 1 && weights >= kManyWeights) {
    return "ATen's is faster with tiles of bfloat16";
  }
  return std::nullopt;
}

std::optional<std::string> AtenWinsAttention(const KernelRequest& request) {
  const TensorType& query = request.operands[0].type;
  const TensorType& key = request.operands[1].type;
  if (query.rank() != 4 || key.rank() != 4) return std::nullopt;
  const int64_t queries = query.dims[2], keys = key.dims[2];
  constexpr int64_t kFewQueries = 8, kSomeKeys = 64, kManyKeys = 512;
  constexpr int64_t kMuchWork = 1024 * 1024;
  if (query.dtype == DType::kF16) {
    if (queries > kFewQueries || keys < kManyKeys) return std::nullopt;
    return "ATen's is faster for few queries of float16";
  }
  if (!HasTiles()) return std::nullopt;
  const bool has_few = queries <= kFewQueries && keys >= kSomeKeys;
  if (!has_few && query.num_elements() * keys < kMuchWork) return std::nullopt;
  return "ATen's is faster with tiles of bfloat16";
}

}  // namespace mica::cpu
