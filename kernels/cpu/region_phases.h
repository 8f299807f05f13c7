// Cuts a region with reductions into loops over elements.

#ifndef MICA_KERNELS_CPU_REGION_PHASES_H_
#define MICA_KERNELS_CPU_REGION_PHASES_H_

#include <cstdint>
#include <vector>

#include "framework/op/region_code.h"
#include "framework/tensor/dtype.h"

namespace mica::cpu {

// Where a loop finds an operand or leaves a result: in an array of the region,
// in a tile of all elements of a block, in one of an element for each of the
// block's kept places, or, to be read, the number of elements that one is made
// of, an f64.
struct PhasePlace {
  enum class Kind : uint8_t { kArray, kTile, kKept, kCount };
  Kind kind = Kind::kArray;
  int index = 0;
  DType dtype = DType::kF32;
  friend bool operator==(const PhasePlace&, const PhasePlace&) = default;
};

// Elementwise code; none if it has no results.
struct PhaseLoop {
  RegionCode code;
  std::vector<PhasePlace> operands, results;
};

struct PhaseReduction {
  RegionOpId op = RegionOpId::kSum;  // kSum, kAmax or kAmin.
  PhasePlace from;                   // kArray or kTile.
  PhasePlace to;                     // kKept, of the same dtype.
};

// One pass over a block's elements. First `kept` runs on what has been reduced,
// then `elements`, then the reductions.
struct Phase {
  PhaseLoop kept, elements;
  std::vector<PhaseReduction> reductions;
};

struct RegionPhases {
  std::vector<Phase> phases;
  std::vector<int64_t> tile_bytes, kept_bytes;  // Of an element, by tile.
};

// What the cut follows from besides the code.
struct PhaseFacts {
  // By operand of the region; arrays count operands, then results.
  std::vector<DType> dtypes;
  std::vector<bool> is_reduced;
  // By array: reductions may read it where it lies.
  std::vector<bool> is_plain;
  std::vector<bool> results_used;
  // What a later phase reads, and is no result, is kept in a tile; else it is
  // computed again, since a phase meets all elements before the next begins.
  bool keeps_tiles = true;
};

// The dtype that a reduction of `dtype` runs in.
DType ReducingDType(DType dtype);

RegionPhases CutPhases(const RegionCode& code, const PhaseFacts& facts);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REGION_PHASES_H_
