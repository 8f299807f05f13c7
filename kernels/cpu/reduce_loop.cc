#include "kernels/cpu/reduce_loop.h"

#include <utility>

#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

using region::Access;
using Kind = PhasePlace::Kind;

constexpr int64_t kStagedRow = 512;

Access AccessOf(const PhasePlace& place, const std::vector<int64_t>& steps,
                bool kept_by_column, int64_t columns) {
  switch (place.kind) {
    case Kind::kArray: {
      const int64_t step = steps[place.index];
      if (step == ElementBytes(place.dtype) || columns == 1) {
        return Access::kDense;
      }
      return step == 0 ? Access::kOne : Access::kStrided;
    }
    case Kind::kTile:
      return Access::kDense;
    case Kind::kKept:
      return kept_by_column ? Access::kDense : Access::kOne;
    case Kind::kCount:
      break;
  }
  return Access::kOne;
}

}  // namespace

std::optional<std::string> ReduceLoop::Make(const PhaseLoop& loop,
                                            const std::vector<int64_t>& steps,
                                            bool kept_by_column,
                                            int64_t columns, bool wants_code,
                                            ReduceLoop& made) {
  made = {};
  if (loop.results.empty()) return std::nullopt;
  region::Signature signature{.code = loop.code, .operands = {}, .results = {}};
  auto add = [&](const PhasePlace& place, std::vector<region::Array>& arrays) {
    made.places_.push_back({.kind = place.kind,
                            .index = place.index,
                            .bytes = ElementBytes(place.dtype)});
    arrays.push_back(
        {.dtype = place.dtype,
         .access = AccessOf(place, steps, kept_by_column, columns)});
  };
  for (const PhasePlace& place : loop.operands) {
    add(place, signature.operands);
  }
  for (const PhasePlace& place : loop.results) add(place, signature.results);
  if (made.places_.size() > kMostPlaces) return "too many operands";
  if (auto no = RegionTiles::Make(signature, Simd().region, made.tiles_)) {
    return no;
  }
  if (!wants_code) return std::nullopt;
  RegionCompiler& compiler = RegionCompiler::Get();
  if (columns >= kStagedRow) {
    made.stages_ = RegionStages::Make(signature, compiler);
  }
  if (!made.stages_.has_value()) made.code_ = compiler.Request(signature);
  return std::nullopt;
}

void ReduceLoop::Run(const ReducePlaces& places, int64_t rows,
                     int64_t columns) const {
  char* at[kMostPlaces];
  int64_t row_steps[kMostPlaces], steps[kMostPlaces];
  bool is_one_row = true;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const int64_t bytes = place.bytes;
    switch (place.kind) {
      case Kind::kArray:
        at[i] = places.arrays[place.index];
        row_steps[i] = places.row_steps[place.index];
        steps[i] = places.column_steps[place.index];
        break;
      case Kind::kTile:
        at[i] = places.tiles + places.tile_offsets[place.index];
        row_steps[i] = columns * bytes;
        steps[i] = bytes;
        break;
      case Kind::kKept:
        at[i] = places.kept + places.kept_offsets[place.index];
        row_steps[i] = places.kept_by_row ? bytes : 0;
        steps[i] = places.kept_by_column ? bytes : 0;
        break;
      case Kind::kCount:
        // Read only.
        at[i] = const_cast<char*>(reinterpret_cast<const char*>(places.count));
        row_steps[i] = steps[i] = 0;
        break;
    }
    is_one_row = is_one_row && row_steps[i] == columns * steps[i];
  }
  if (is_one_row) {
    columns *= rows;
    rows = 1;
  }
  const region::RegionRows all = {.at = at,
                                  .row_steps = row_steps,
                                  .steps = steps,
                                  .rows = rows,
                                  .n = columns};
  if (stages_.has_value() && stages_->is_ready()) {
    stages_->Run(all);
  } else if (code_ != nullptr && code_->fn() != nullptr) {
    code_->fn()(all);
  } else {
    tiles_.Run(all);
  }
}

}  // namespace mica::cpu
