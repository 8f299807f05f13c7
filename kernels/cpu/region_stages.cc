#include "kernels/cpu/region_stages.h"

#include <algorithm>
#include <utility>

namespace mica::cpu {
namespace {

using region::Access;
using region::Array;
using region::RegionRows;
using region::Signature;
using Ref = RegionCode::Ref;

constexpr int64_t kAllTilesBytes = 24 * 1024;
constexpr int64_t kMostTileElements = 2048;
constexpr int64_t kFewestTileElements = 256;
constexpr int kMostPlaces = 64;

}  // namespace

// Cuts the code and finds what goes from stage to stage.
class StagesBuilder {
 public:
  explicit StagesBuilder(const Signature& signature)
      : from_(signature), code_(signature.code) {}

  std::optional<RegionStages> Build(RegionCompiler& compiler) {
    const int num_stages = Cut();
    if (num_stages < 2) return std::nullopt;
    FindTiles();
    RegionStages made;
    for (int stage = 0; stage < num_stages; ++stage) {
      RegionStages::Stage ready;
      const Signature signature = SignatureOf(stage, ready.places);
      if (ready.places.size() > kMostPlaces) return std::nullopt;
      ready.code = compiler.Request(signature);
      if (ready.code == nullptr) return std::nullopt;
      made.stages_.push_back(std::move(ready));
    }
    const int64_t tile =
        std::min(kMostTileElements,
                 kAllTilesBytes / (8 * std::max(num_tiles_, 1)) / 64 * 64);
    if (tile < kFewestTileElements) return std::nullopt;
    made.tile_elements_ = tile;
    made.tile_bytes_ = 8 * tile;
    return made;
  }

 private:
  // A stage ends before its second costly function.
  int Cut() {
    int stage = 0;
    bool has_costly = false;
    for (const RegionCode::Instruction& instruction : code_.instructions) {
      if (instruction.op->is_function()) {
        stage += has_costly ? 1 : 0;
        has_costly = true;
      }
      stages_.push_back(stage);
    }
    return stage + 1;
  }

  // Values that a later stage reads, and results of all stages but the last:
  // what is stored before all operands are read could be an operand.
  void FindTiles() {
    const int last = stages_.back();
    tiles_.assign(code_.instructions.size(), -1);
    auto keep = [&](int id) {
      if (tiles_[id] < 0) tiles_[id] = num_tiles_++;
    };
    for (size_t i = 0; i < code_.instructions.size(); ++i) {
      for (const Ref& ref : code_.instructions[i].operands) {
        if (ref.kind == Ref::Kind::kInstruction &&
            stages_[ref.index] != stages_[i]) {
          keep(ref.index);
        }
      }
    }
    for (size_t r = 0; r < code_.results.size(); ++r) {
      const int id = code_.results[r];
      if (from_.results[r].is_used && stages_[id] != last) keep(id);
    }
  }

  RegionStages::Place PlaceOfArray(int index, const Array& array) const {
    return {.index = index,
            .access = array.access,
            .bytes = ElementBytes(array.dtype)};
  }
  RegionStages::Place PlaceOfTile(int id) const {
    return {.is_tile = true,
            .index = tiles_[id],
            .bytes = ElementBytes(code_.instructions[id].result_dtype())};
  }
  Array TileOf(int id) const {
    return {.dtype = code_.instructions[id].result_dtype()};
  }

  // The operand of a stage's code that is the region's operand `index`, or
  // what its instruction `index` made in an earlier stage.
  int OperandOf(bool is_made, int index, Signature& signature,
                std::vector<RegionStages::Place>& places) {
    const RegionStages::Place place =
        is_made ? PlaceOfTile(index)
                : PlaceOfArray(index, from_.operands[index]);
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].is_tile == place.is_tile &&
          places[i].index == place.index) {
        return static_cast<int>(i);
      }
    }
    places.push_back(place);
    signature.operands.push_back(is_made ? TileOf(index)
                                         : from_.operands[index]);
    return static_cast<int>(places.size()) - 1;
  }

  Signature SignatureOf(int stage, std::vector<RegionStages::Place>& places) {
    Signature signature;
    std::vector<int> own(code_.instructions.size(), -1);
    auto add = [&](int id) {
      RegionCode::Instruction instruction = code_.instructions[id];
      for (Ref& ref : instruction.operands) {
        if (ref.kind == Ref::Kind::kNumber) continue;
        const bool is_made = ref.kind == Ref::Kind::kInstruction;
        if (is_made && own[ref.index] >= 0) {
          ref.index = own[ref.index];
          continue;
        }
        ref = {.kind = Ref::Kind::kOperand,
               .index = OperandOf(is_made, ref.index, signature, places)};
      }
      own[id] = static_cast<int>(signature.code.instructions.size());
      signature.code.instructions.push_back(std::move(instruction));
    };
    const int count = static_cast<int>(code_.instructions.size());
    for (int id = 0; id < count; ++id) {
      if (stages_[id] == stage) add(id);
    }
    const bool is_last = stage == stages_.back();
    if (is_last) AddStores(own, signature, places);
    for (int id = 0; id < count && !is_last; ++id) {
      if (stages_[id] != stage || tiles_[id] < 0) continue;
      signature.code.results.push_back(own[id]);
      signature.results.push_back(TileOf(id));
      places.push_back(PlaceOfTile(id));
    }
    return signature;
  }

  // The last stage writes the region's results; those of earlier ones, which
  // lie in tiles, as they are.
  void AddStores(std::vector<int>& own, Signature& signature,
                 std::vector<RegionStages::Place>& places) {
    for (size_t r = 0; r < code_.results.size(); ++r) {
      const int id = code_.results[r];
      if (!from_.results[r].is_used || own[id] >= 0) continue;
      const Ref tile = {.kind = Ref::Kind::kOperand,
                        .index = OperandOf(true, id, signature, places)};
      own[id] = static_cast<int>(signature.code.instructions.size());
      signature.code.instructions.push_back(
          {.op = &RegionOpOf(RegionOpId::kCast),
           .dtype = code_.instructions[id].result_dtype(),
           .operands = {tile}});
    }
    for (size_t r = 0; r < code_.results.size(); ++r) {
      if (!from_.results[r].is_used) continue;
      signature.code.results.push_back(own[code_.results[r]]);
      signature.results.push_back(from_.results[r]);
      places.push_back(PlaceOfArray(static_cast<int>(from_.operands.size() + r),
                                    from_.results[r]));
    }
  }

  const Signature& from_;
  const RegionCode& code_;
  std::vector<int> stages_;  // By instruction.
  std::vector<int> tiles_;   // By instruction; -1: in its stage only.
  int num_tiles_ = 0;
};

std::optional<RegionStages> RegionStages::Make(const Signature& signature,
                                               RegionCompiler& compiler) {
  return StagesBuilder(signature).Build(compiler);
}

bool RegionStages::is_ready() const {
  return std::all_of(stages_.begin(), stages_.end(), [](const Stage& stage) {
    return stage.code->fn() != nullptr;
  });
}

void RegionStages::Run(const RegionRows& rows) const {
  alignas(64) char tiles[kAllTilesBytes];
  char* at[kMostPlaces];
  int64_t steps[kMostPlaces];
  constexpr int64_t kNoSteps[kMostPlaces] = {};
  for (int64_t row = 0; row < rows.rows; ++row) {
    for (int64_t start = 0; start < rows.n; start += tile_elements_) {
      const int64_t n = std::min(tile_elements_, rows.n - start);
      for (const Stage& stage : stages_) {
        for (size_t i = 0; i < stage.places.size(); ++i) {
          const Place& place = stage.places[i];
          if (place.is_tile) {
            at[i] = tiles + place.index * tile_bytes_;
            steps[i] = place.bytes;
            continue;
          }
          steps[i] = place.access == Access::kOne     ? 0
                     : place.access == Access::kDense ? place.bytes
                                                      : rows.steps[place.index];
          at[i] = rows.at[place.index] + row * rows.row_steps[place.index] +
                  start * steps[i];
        }
        stage.code->fn()({.at = at,
                          .row_steps = kNoSteps,
                          .steps = steps,
                          .rows = 1,
                          .n = n});
      }
    }
  }
}

}  // namespace mica::cpu
