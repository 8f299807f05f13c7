// What a region's code runs on.

#ifndef MICA_KERNELS_REGION_REGION_ROWS_H_
#define MICA_KERNELS_REGION_REGION_ROWS_H_

#include <cstdint>
#include <vector>

#include "framework/op/region_code.h"
#include "framework/tensor/dtype.h"

namespace mica::region {

// How the elements of a row lie.
enum class Access : uint8_t {
  kOne,      // One element that all meet.
  kDense,    // One behind the other.
  kStrided,  // RegionRows::steps bytes apart.
};

struct Array {
  DType dtype = DType::kF32;
  Access access = Access::kDense;
  bool is_used = true;  // Of a result: somebody reads it.
  friend bool operator==(const Array&, const Array&) = default;
};

// All that machine code follows from besides the processor. No sizes.
struct Signature {
  RegionCode code;
  std::vector<Array> operands;
  std::vector<Array> results;  // In the order of code.results.
};

// `rows` rows of `n` elements of each array: operands, then results. A result
// may be the same array as an operand of the same element size; other overlap
// is not allowed. Addresses of results that aren't used are null.
struct RegionRows {
  char* const* at = nullptr;           // Of each array's first element.
  const int64_t* row_steps = nullptr;  // Bytes from row to row,
  const int64_t* steps = nullptr;      // and in a row, of strided ones.
  int64_t rows = 0, n = 0;
};
using RegionFn = void (*)(const RegionRows& rows);

}  // namespace mica::region

#endif  // MICA_KERNELS_REGION_REGION_ROWS_H_
