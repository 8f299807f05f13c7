#include "kernels/cpu/few_bits_loops.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// What the sources of each level's products of few bits put into its table.
#define MICA_DECLARE_FEW_BITS(level)      \
  namespace level {                       \
  void FillInt8Gemm(FewBitsTable& table); \
  void FillInt8Rows(FewBitsTable& table); \
  void FillInt4Rows(FewBitsTable& table); \
  }

MICA_DECLARE_FEW_BITS(v1)
#if defined(__x86_64__)
MICA_DECLARE_FEW_BITS(v3)
MICA_DECLARE_FEW_BITS(v4)
#endif

#undef MICA_DECLARE_FEW_BITS

namespace {

template <void (*... kFill)(FewBitsTable&)>
FewBitsTable FilledBy() {
  FewBitsTable table;
  (kFill(table), ...);
  return table;
}

}  // namespace

const FewBitsTable& FewBitsOf(const SimdTable& table) {
#if defined(__x86_64__)
  if (&table == SimdV4()) {
    static const FewBitsTable of_v4 =
        FilledBy<v4::FillInt8Gemm, v4::FillInt8Rows, v4::FillInt4Rows>();
    return of_v4;
  }
  if (&table == SimdV3()) {
    static const FewBitsTable of_v3 =
        FilledBy<v3::FillInt8Gemm, v3::FillInt8Rows, v3::FillInt4Rows>();
    return of_v3;
  }
#endif
  static const FewBitsTable of_v1 =
      FilledBy<v1::FillInt8Gemm, v1::FillInt8Rows, v1::FillInt4Rows>();
  return of_v1;
}

const FewBitsTable& FewBits() {
  static const FewBitsTable& table = FewBitsOf(Simd());
  return table;
}

}  // namespace mica::cpu
