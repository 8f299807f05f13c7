#ifndef MICA_KERNELS_CPU_REGION_LOOPS_H_
#define MICA_KERNELS_CPU_REGION_LOOPS_H_

#include <cstdint>

#include "framework/op/region_op_list.h"

// The loops that regions run on where there is no machine code for them: one
// instruction over a tile. No framework types.

namespace mica::cpu {

// What a tile holds: floats of 16 bits are float32 in it, ints are int64, a
// bool is a byte.
enum class TileKind : int { kF32, kF64, kI64, kBool };
inline constexpr int kNumTileKinds = 4;
inline constexpr int64_t kTileKindBytes[kNumTileKinds] = {4, 8, 8, 1};

// Dtypes by their number in framework/tensor/dtype.h.
inline constexpr int kNumTileDTypes = 10;

// The result may be one of the operands, if both are of the same kind.
using TileFn = void (*)(const void* const* in, void* out, int64_t n);
using TileConvertFn = void (*)(const void* in, void* out, int64_t n);
using TileRoundFn = void (*)(void* tile, int64_t n);

struct RegionLoops {
  // By the kind that is computed in; comparisons give bool, the first operand
  // of "where" is bool. Null where an operator doesn't have the kind.
  TileFn ops[kNumRegionOps][kNumTileKinds] = {};
  TileConvertFn convert[kNumTileKinds][kNumTileKinds] = {};  // [from][to]
  // From floats by way of int32: out of its range, its smallest number.
  TileConvertFn to_int32[kNumTileKinds] = {};  // [from]
  // From dense memory of a dtype to a tile and back. Null where memory is as
  // tiles are.
  TileConvertFn load[kNumTileDTypes] = {};
  TileConvertFn store[kNumTileDTypes] = {};
  // Rounds or wraps a tile to what the dtype can hold. Null where that is all.
  TileRoundFn round[kNumTileDTypes] = {};
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REGION_LOOPS_H_
