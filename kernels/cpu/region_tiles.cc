#include "kernels/cpu/region_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/reference/element.h"
#include "kernels/region/rounding.h"

namespace mica::cpu {
namespace {

using region::Access;
using Ref = RegionCode::Ref;

// All tiles together, so that they stay in the first-level cache; one tile is
// no longer than is good for what is written to memory in between.
constexpr int64_t kAllTilesBytes = 32 * 1024;
constexpr int64_t kLongestTileBytes = 2048;
constexpr int64_t kShortestTileBytes = 128;
constexpr int kMostSlots = 384;

TileKind KindOf(DType dtype) {
  if (dtype == DType::kBool) return TileKind::kBool;
  if (IsIntegral(dtype)) return TileKind::kI64;
  return dtype == DType::kF64 ? TileKind::kF64 : TileKind::kF32;
}

// What a value may hold: a number of `dtype`, not rounded further.
bool Holds(DType to, DType from) {
  if (to == from) return true;
  if (KindOf(to) != KindOf(from)) return false;
  if (!IsIntegral(to)) return to == DType::kF32;
  return to == DType::kI64 || (from == DType::kU8 && to != DType::kI8) ||
         (from != DType::kU8 && to != DType::kU8 && to > from);
}

void Copy(const char* from, int64_t step, int bytes, int64_t n, char* to) {
  if (step == bytes) {
    std::memcpy(to, from, static_cast<size_t>(n * bytes));
    return;
  }
  auto copy = [&](auto element) {
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(&element, from + i * step, sizeof(element));
      std::memcpy(to + i * sizeof(element), &element, sizeof(element));
    }
  };
  if (bytes == 1) return copy(uint8_t{});
  if (bytes == 2) return copy(uint16_t{});
  if (bytes == 4) return copy(uint32_t{});
  copy(uint64_t{});
}

void Scatter(const char* from, int bytes, int64_t n, char* to, int64_t step) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * step, from + i * bytes, static_cast<size_t>(bytes));
  }
}

// The element at `from`, n times.
void Repeat(const char* from, int bytes, int64_t n, char* to) {
  auto fill = [&](auto element) {
    std::memcpy(&element, from, sizeof(element));
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(to + i * sizeof(element), &element, sizeof(element));
    }
  };
  if (bytes == 1) return fill(uint8_t{});
  if (bytes == 4) return fill(uint32_t{});
  fill(uint64_t{});
}

}  // namespace

class RegionTilesBuilder {
 public:
  RegionTilesBuilder(const region::Signature& signature,
                     const RegionLoops& loops, RegionTiles& tiles)
      : signature_(signature),
        loops_(loops),
        t_(tiles),
        roundings_(region::RoundingsOf(signature)) {}

  std::optional<std::string> Build() {
    FindLastUses();
    bool is_wide = false;
    for (const auto& operand : signature_.operands) Widen(operand, is_wide);
    for (const auto& from : signature_.code.instructions) {
      is_wide = is_wide || WideKind(KindOf(from.dtype));
    }
    for (size_t i = 0; i < signature_.operands.size(); ++i) {
      AddOperand(static_cast<int>(i));
    }
    for (const region::Array& result : signature_.results) {
      t_.array_bytes_.push_back(ElementBytes(result.dtype));
    }
    const int count = static_cast<int>(signature_.code.instructions.size());
    for (int i = 0; i < count; ++i) {
      if (auto no = AddInstruction(i)) return no;
    }
    // One more for what is on its way to or from memory.
    t_.tile_bytes_ = kLongestTileBytes;
    while ((t_.num_tiles_ + 1) * t_.tile_bytes_ > kAllTilesBytes) {
      t_.tile_bytes_ /= 2;
    }
    t_.tile_elements_ = t_.tile_bytes_ / (is_wide ? 8 : 4);
    if (t_.tile_bytes_ < kShortestTileBytes || t_.slots_.size() > kMostSlots) {
      return "too many values at once";
    }
    return std::nullopt;
  }

 private:
  using Slot = RegionTiles::Slot;

  struct Tile {
    int index = 0;
    TileKind kind = TileKind::kF32;
  };
  // A value in a slot.
  struct Typed {
    int slot = 0;
    DType dtype = DType::kF32;
  };

  static bool WideKind(TileKind kind) {
    return kTileKindBytes[static_cast<int>(kind)] == 8;
  }
  static void Widen(const region::Array& array, bool& is_wide) {
    is_wide = is_wide || WideKind(KindOf(array.dtype));
  }

  void FindLastUses() {
    const auto& instructions = signature_.code.instructions;
    last_uses_.assign(instructions.size(), -1);
    is_read_.assign(instructions.size(), false);
    for (size_t i = 0; i < instructions.size(); ++i) {
      for (const Ref& ref : instructions[i].operands) {
        if (ref.kind == Ref::Kind::kInstruction) {
          last_uses_[ref.index] = static_cast<int>(i);
          is_read_[ref.index] = true;
        }
      }
    }
    // What is stored at the end lives until then.
    const auto& code = signature_.code;
    for (size_t r = 0; r < code.results.size(); ++r) {
      const region::Array& result = signature_.results[r];
      if (result.is_used && !IsDirect(result)) {
        last_uses_[code.results[r]] = static_cast<int>(instructions.size());
      }
    }
  }

  bool IsDirect(const region::Array& array) const {
    return array.access == Access::kDense &&
           loops_.load[static_cast<int>(array.dtype)] == nullptr;
  }

  int AddSlot(Slot slot) {
    t_.slots_.push_back(slot);
    return static_cast<int>(t_.slots_.size()) - 1;
  }
  int NewTile() {
    if (free_.empty()) free_.push_back(t_.num_tiles_++);
    const int tile = free_.back();
    free_.pop_back();
    return tile;
  }

  void AddOperand(int i) {
    const region::Array& array = signature_.operands[i];
    const int bytes = static_cast<int>(ElementBytes(array.dtype));
    t_.array_bytes_.push_back(bytes);
    if (IsDirect(array)) {
      operands_.push_back(
          {AddSlot({.kind = Slot::Kind::kArray, .index = i}), array.dtype});
      return;
    }
    const int tile = NewTile();
    t_.loads_.push_back(
        {.array = i,
         .tile = tile,
         .access = array.access,
         .bytes = bytes,
         .tile_bytes = static_cast<int>(
             kTileKindBytes[static_cast<int>(KindOf(array.dtype))]),
         .convert = loops_.load[static_cast<int>(array.dtype)]});
    operands_.push_back({AddSlot({.index = tile}), array.dtype});
  }

  // A tile full of one number.
  Typed AddNumber(double number, DType dtype) {
    RegionTiles::Fill fill;
    const TileKind kind = KindOf(dtype);
    fill.bytes = static_cast<int>(kTileKindBytes[static_cast<int>(kind)]);
    switch (kind) {
      case TileKind::kF32: {
        const float value = static_cast<float>(number);
        std::memcpy(fill.element, &value, sizeof(value));
        break;
      }
      case TileKind::kF64:
        std::memcpy(fill.element, &number, sizeof(number));
        break;
      case TileKind::kI64: {
        const int64_t value = WrapTo(dtype, ConvertNumber<int64_t>(number));
        std::memcpy(fill.element, &value, sizeof(value));
        break;
      }
      case TileKind::kBool:
        fill.element[0] = number != 0 ? 1 : 0;
        break;
    }
    for (const auto& [same, slot] : numbers_) {
      if (same.bytes == fill.bytes &&
          std::memcmp(same.element, fill.element, sizeof(fill.element)) == 0) {
        return {slot, dtype};
      }
    }
    fill.tile = t_.num_tiles_++;  // Filled before any step: nobody else's.
    t_.fills_.push_back(fill);
    numbers_.emplace_back(fill, AddSlot({.index = fill.tile}));
    return {numbers_.back().second, dtype};
  }

  Typed ValueOf(const Ref& ref, DType wanted) {
    if (ref.kind == Ref::Kind::kOperand) return operands_[ref.index];
    if (ref.kind == Ref::Kind::kInstruction) return made_[ref.index];
    return AddNumber(ref.number, wanted);
  }

  // `from` as a value of `dtype`, by a step of its own where that is more than
  // another name.
  Typed Convert(Typed from, DType dtype) {
    const TileKind kind = KindOf(from.dtype), wanted = KindOf(dtype);
    if (Holds(dtype, from.dtype)) return {from.slot, dtype};
    RegionTiles::Step step;
    // As the processor converts to 32 bits and less.
    const bool narrows =
        IsFloating(from.dtype) && IsIntegral(dtype) && dtype != DType::kI64;
    step.convert =
        narrows
            ? loops_.to_int32[static_cast<int>(kind)]
            : loops_.convert[static_cast<int>(kind)][static_cast<int>(wanted)];
    step.round =
        IsIntegral(dtype) ? loops_.round[static_cast<int>(dtype)] : nullptr;
    step.in[0] = from.slot;
    const int tile = NewTile();
    dying_.push_back({tile, wanted});
    step.out = AddSlot({.index = tile});
    t_.steps_.push_back(step);
    return {step.out, dtype};
  }

  std::optional<std::string> AddInstruction(int id) {
    const RegionCode::Instruction& from = signature_.code.instructions[id];
    RegionTiles::Step step;
    const TileKind kind = KindOf(from.dtype);
    for (size_t i = 0; i < from.operands.size(); ++i) {
      const DType wanted = from.operand_dtype(static_cast<int>(i));
      const Typed value = Convert(ValueOf(from.operands[i], wanted), wanted);
      step.in[i] = value.slot;
    }
    step.fn = loops_.ops[static_cast<int>(from.op->id)][static_cast<int>(kind)];
    if (step.fn == nullptr) return absl::StrCat("no loop for ", from.op->name);
    // What is only stored is rounded by that.
    if (!from.op->compares() && is_read_[id] && !roundings_[id].is_exact) {
      step.round = loops_.round[static_cast<int>(from.dtype)];
    }
    Release(id);
    const int tile = SetOut(id, step);
    for (const Tile& dead : dying_) free_.push_back(dead.index);
    dying_.clear();
    t_.steps_.push_back(step);
    made_.push_back({step.out, from.result_dtype()});
    AddStore(id, tile);
    return std::nullopt;
  }

  // Tiles whose last use is instruction `id`. Its result may take one of its
  // own kind; what follows any.
  void Release(int id) {
    for (int i = 0; i < id; ++i) {
      const Slot& slot = t_.slots_[made_[i].slot];
      if (last_uses_[i] == id && slot.kind == Slot::Kind::kTile) {
        dying_.push_back({slot.index, KindOf(made_[i].dtype)});
      }
    }
  }

  int TileFor(TileKind kind) {
    for (size_t i = 0; i < dying_.size(); ++i) {
      if (dying_[i].kind != kind) continue;
      const int tile = dying_[i].index;
      dying_.erase(dying_.begin() + static_cast<int64_t>(i));
      return tile;
    }
    return NewTile();
  }

  int ResultOf(int id) const {
    const auto& results = signature_.code.results;
    const auto at = std::find(results.begin(), results.end(), id);
    if (at == results.end()) return -1;
    const int result = static_cast<int>(at - results.begin());
    return signature_.results[result].is_used ? result : -1;
  }

  // The tile that instruction `id` writes, -1 if it writes memory.
  int SetOut(int id, RegionTiles::Step& step) {
    const int result = ResultOf(id);
    if (result >= 0 && IsDirect(signature_.results[result])) {
      step.out = AddSlot(
          {.kind = Slot::Kind::kArray,
           .index = static_cast<int>(signature_.operands.size()) + result});
      return -1;
    }
    const DType dtype = signature_.code.instructions[id].result_dtype();
    const int tile = TileFor(KindOf(dtype));
    step.out = AddSlot({.index = tile});
    if (last_uses_[id] < 0) dying_.push_back({tile, KindOf(dtype)});
    return tile;
  }

  void AddStore(int id, int tile) {
    const int result = ResultOf(id);
    if (result < 0 || tile < 0) return;
    const region::Array& array = signature_.results[result];
    t_.stores_.push_back(
        {.array = static_cast<int>(signature_.operands.size()) + result,
         .tile = tile,
         .is_strided = array.access != Access::kDense,
         .bytes = static_cast<int>(ElementBytes(array.dtype)),
         .convert = loops_.store[static_cast<int>(array.dtype)]});
  }

  const region::Signature& signature_;
  const RegionLoops& loops_;
  RegionTiles& t_;
  const std::vector<region::Rounding> roundings_;  // By instruction.
  std::vector<Typed> operands_, made_;
  std::vector<std::pair<RegionTiles::Fill, int>> numbers_;  // And their slots.
  std::vector<int> last_uses_;                              // By instruction.
  std::vector<bool> is_read_;  // By another instruction.
  std::vector<int> free_;
  std::vector<Tile> dying_;
};

std::optional<std::string> RegionTiles::Make(const region::Signature& signature,
                                             const RegionLoops& loops,
                                             RegionTiles& tiles) {
  tiles = {};
  return RegionTilesBuilder(signature, loops, tiles).Build();
}

// `memory` is a tile for what is on its way to or from a tile.
void RegionTiles::RunRow(const region::RegionRows& rows, int64_t row,
                         char* tiles, char* memory) const {
  char* at[kMostSlots];
  const int num_slots = static_cast<int>(slots_.size());
  auto address = [&](int array) {
    return rows.at[array] + row * rows.row_steps[array];
  };
  for (int i = 0; i < num_slots; ++i) {
    const Slot& slot = slots_[i];
    at[i] = slot.kind == Slot::Kind::kArray ? address(slot.index)
                                            : tiles + slot.index * tile_bytes_;
  }
  for (const Load& load : loads_) {
    if (load.access != Access::kOne) continue;
    alignas(8) char element[8];
    const char* from = address(load.array);
    if (load.convert != nullptr) {
      load.convert(from, element, 1);
      from = element;
    }
    Repeat(from, load.tile_bytes, std::min(rows.n, tile_elements_),
           tiles + load.tile * tile_bytes_);
  }
  for (int64_t start = 0; start < rows.n; start += tile_elements_) {
    const int64_t n = std::min(tile_elements_, rows.n - start);
    for (const Load& load : loads_) {
      if (load.access == Access::kOne) continue;
      const bool is_dense = load.access == Access::kDense;
      const int64_t step = is_dense ? load.bytes : rows.steps[load.array];
      const char* from = address(load.array) + start * step;
      char* tile = tiles + load.tile * tile_bytes_;
      if (load.convert == nullptr) {
        Copy(from, step, load.bytes, n, tile);
        continue;
      }
      if (!is_dense) {
        Copy(from, step, load.bytes, n, memory);
        from = memory;
      }
      load.convert(from, tile, n);
    }
    for (const Step& step : steps_) {
      if (step.convert != nullptr) {
        step.convert(at[step.in[0]], at[step.out], n);
      } else {
        const void* in[kMostRegionOperands];
        for (int i = 0; i < kMostRegionOperands; ++i) in[i] = at[step.in[i]];
        step.fn(in, at[step.out], n);
      }
      if (step.round != nullptr) step.round(at[step.out], n);
    }
    for (const Store& store : stores_) {
      const char* tile = tiles + store.tile * tile_bytes_;
      char* to = address(store.array);
      if (!store.is_strided && store.convert != nullptr) {
        store.convert(tile, to + start * store.bytes, n);
        continue;
      }
      const int64_t step = rows.steps[store.array];
      if (store.convert != nullptr) {
        store.convert(tile, memory, n);
        tile = memory;
      }
      Scatter(tile, store.bytes, n, to + start * step, step);
    }
    for (int i = 0; i < num_slots; ++i) {
      const Slot& slot = slots_[i];
      if (slot.kind == Slot::Kind::kArray) {
        at[i] += n * array_bytes_[slot.index];
      }
    }
  }
}

void RegionTiles::Run(const region::RegionRows& rows) const {
  alignas(64) char tiles[kAllTilesBytes];
  for (const Fill& fill : fills_) {
    Repeat(fill.element, fill.bytes, std::min(rows.n, tile_elements_),
           tiles + fill.tile * tile_bytes_);
  }
  char* memory = tiles + num_tiles_ * tile_bytes_;
  for (int64_t row = 0; row < rows.rows; ++row) {
    RunRow(rows, row, tiles, memory);
  }
}

}  // namespace mica::cpu
