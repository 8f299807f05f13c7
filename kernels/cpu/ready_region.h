// Elementwise code of a region, ready to run.

#ifndef MICA_KERNELS_CPU_READY_REGION_H_
#define MICA_KERNELS_CPU_READY_REGION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "framework/tensor/tensor_type.h"
#include "kernels/cpu/region_compiler.h"
#include "kernels/cpu/region_stages.h"
#include "kernels/cpu/region_tiles.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// How elements lie that are `step` bytes apart in rows of n.
region::Access AccessOf(int64_t step, int64_t bytes, int64_t n);

// Whether a result may lie in an operand's bytes, as far as types tell.
bool LiesAlike(const TensorType& operand, const TensorType& result);

// Machine code in stages, or of one loop, or loops over tiles: the first of
// these that there is when it runs. Short rows run as one long row, for which
// operands that are broadcast are written out, tile by tile. Operands whose
// elements lie apart are put together in a buffer before, tile by tile: code
// would take them one by one, and then wait until all of a vector can be read.
class ReadyRegion {
 public:
  // The reason why it can't be run. Rows of n elements that are long are worth
  // stages. Without `wants_code` it is loops over tiles for ever. With `joins`
  // the results' rows follow each other without gaps, as a rule.
  static std::optional<std::string> Make(const region::Signature& signature,
                                         int64_t n, bool wants_code, bool joins,
                                         ReadyRegion& ready);

  void Run(const region::RegionRows& rows) const;

 private:
  struct Gathered {
    size_t operand = 0;
    int64_t bytes = 4;  // Of an element.
    GatherFn gather = nullptr;
  };
  static constexpr int kMostGathered = 4;

  // Whether short rows of n elements are run as one long row.
  static bool Joins(const region::Signature& signature, int64_t n);
  // Makes some strided operands of rows of n elements dense.
  void Gather(int64_t n, region::Signature& signature);
  void RunGathered(const region::RegionRows& rows) const;
  void RunJoined(const region::RegionRows& rows) const;
  // Of what lies as the code wants it.
  void RunCode(const region::RegionRows& rows) const;

  absl::InlinedVector<Gathered, kMostGathered> gathered_;
  // Not 0: of joined rows, how many operands there are.
  size_t num_joined_ = 0;
  // If either is, by array: its access as it came, and its element.
  std::vector<region::Access> accesses_;
  std::vector<int64_t> bytes_;
  std::optional<RegionStages> stages_;
  std::shared_ptr<const RegionMachineCode> code_;
  RegionTiles tiles_;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_READY_REGION_H_
