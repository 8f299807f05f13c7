// Runs a region's instructions over tiles that stay in the first-level cache,
// one vector loop an instruction.

#ifndef MICA_KERNELS_CPU_REGION_TILES_H_
#define MICA_KERNELS_CPU_REGION_TILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/region_loops.h"
#include "kernels/region/region_rows.h"

namespace mica::cpu {

// A Signature made ready: what to call on which tiles.
class RegionTiles {
 public:
  // The reason why it can't be run this way.
  static std::optional<std::string> Make(const region::Signature& signature,
                                         const RegionLoops& loops,
                                         RegionTiles& tiles);

  void Run(const region::RegionRows& rows) const;

 private:
  friend class RegionTilesBuilder;

  // What steps name: arrays in memory, tiles, and tiles that are filled once.
  struct Slot {
    enum class Kind : uint8_t { kArray, kTile };
    Kind kind = Kind::kTile;
    int index = 0;  // An array of the rows, a tile.
  };
  // An operand that isn't read where it lies.
  struct Load {
    int array = 0, tile = 0;
    region::Access access = region::Access::kDense;
    int bytes = 4;       // Of an element in memory,
    int tile_bytes = 4;  // and in the tile.
    TileConvertFn convert = nullptr;
  };
  struct Fill {
    int tile = 0;
    int bytes = 4;
    alignas(8) char element[8] = {};
  };
  struct Step {
    TileFn fn = nullptr;
    TileConvertFn convert = nullptr;  // Instead of `fn`.
    TileRoundFn round = nullptr;
    int in[kMostRegionOperands] = {};
    int out = 0;
  };
  struct Store {
    int array = 0, tile = 0;
    bool is_strided = false;
    int bytes = 4;
    TileConvertFn convert = nullptr;
  };

  void RunRow(const region::RegionRows& rows, int64_t row, char* tiles,
              char* memory) const;

  int64_t tile_elements_ = 0;
  int64_t tile_bytes_ = 0;
  int num_tiles_ = 0;
  std::vector<Slot> slots_;
  std::vector<int64_t> array_bytes_;  // Of an element, by array.
  std::vector<Load> loads_;
  std::vector<Fill> fills_;
  std::vector<Step> steps_;
  std::vector<Store> stores_;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REGION_TILES_H_
