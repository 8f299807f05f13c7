// Runs a region with several costly functions as several loops.

#ifndef MICA_KERNELS_CPU_REGION_STAGES_H_
#define MICA_KERNELS_CPU_REGION_STAGES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cpu/region_compiler.h"
#include "kernels/region/region_rows.h"

namespace mica::cpu {

// One loop of many functions waits for each of them: what follows needs its
// result, and the elements to come are out of the processor's sight. So a
// region is cut into stages of one costly function each, which run one after
// the other over tiles that stay in the first-level cache. They have machine
// code each, shared by all regions that have an equal stage.
class RegionStages {
 public:
  // None if there is but one stage.
  static std::optional<RegionStages> Make(const region::Signature& signature,
                                          RegionCompiler& compiler);

  // All code is there.
  bool is_ready() const;
  // Wants is_ready().
  void Run(const region::RegionRows& rows) const;

 private:
  friend class StagesBuilder;

  // An array of a stage: one of the region's, or an intermediate value's tile.
  struct Place {
    bool is_tile = false;
    int index = 0;
    region::Access access = region::Access::kDense;
    int64_t bytes = 4;  // Of an element.
  };
  struct Stage {
    std::shared_ptr<const RegionMachineCode> code;
    std::vector<Place> places;  // Operands, then results.
  };

  std::vector<Stage> stages_;
  int64_t tile_elements_ = 0, tile_bytes_ = 0;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REGION_STAGES_H_
