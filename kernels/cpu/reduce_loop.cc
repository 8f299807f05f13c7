#include "kernels/cpu/reduce_loop.h"

namespace mica::cpu {
namespace {

using region::Access;
using Kind = PhasePlace::Kind;

Access AccessOfPlace(const PhasePlace& place, const std::vector<int64_t>& steps,
                     bool kept_by_column, int64_t columns) {
  switch (place.kind) {
    case Kind::kArray:
      return AccessOf(steps[place.index], ElementBytes(place.dtype), columns);
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
         .access = AccessOfPlace(place, steps, kept_by_column, columns)});
  };
  for (const PhasePlace& place : loop.operands) {
    add(place, signature.operands);
  }
  for (const PhasePlace& place : loop.results) {
    add(place, signature.results);
    made.places_.back().is_dense_result =
        signature.results.back().access == Access::kDense;
  }
  if (made.places_.size() > kMostPlaces) return "too many operands";
  return ReadyRegion::Make(signature, columns, wants_code,
                           /*joins=*/true, made.region_);
}

void ReduceLoop::Stream(const std::vector<bool>& arrays) {
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.kind == Kind::kArray && place.is_dense_result &&
        arrays[place.index] && streamed_.size() < kMostStreamed) {
      streamed_.push_back({static_cast<int>(i), place.bytes});
    }
  }
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
  if (places.streams && !streamed_.empty()) {
    RunStreamed(region_, all, static_cast<int>(places_.size()), streamed_);
  } else {
    region_.Run(all);
  }
}

}  // namespace mica::cpu
