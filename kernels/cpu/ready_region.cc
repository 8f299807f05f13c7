#include "kernels/cpu/ready_region.h"

#include <algorithm>

#include "kernels/cpu/short_rows.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

constexpr size_t kMostArrays = 64;
// Of an operand's buffer; all of them leave room in the first-level cache.
constexpr int64_t kGatheredBytes = 4096;
constexpr int64_t kShortestGathered = 16;  // Elements of a row.

}  // namespace

region::Access AccessOf(int64_t step, int64_t bytes, int64_t n) {
  if (step == bytes || n == 1) return region::Access::kDense;
  return step == 0 ? region::Access::kOne : region::Access::kStrided;
}

bool LiesAlike(const TensorType& operand, const TensorType& result) {
  return !operand.is_scalar && operand.dims == result.dims &&
         ElementBytes(operand.dtype) == ElementBytes(result.dtype) &&
         operand.EffectiveStrides() == result.EffectiveStrides();
}

std::optional<std::string> ReadyRegion::Make(const region::Signature& given,
                                             int64_t n, bool wants_code,
                                             bool joins, ReadyRegion& ready) {
  constexpr int64_t kLongRow = 512;
  ready = {};
  region::Signature signature = given;
  for (const auto* arrays : {&signature.operands, &signature.results}) {
    for (const region::Array& array : *arrays) {
      ready.accesses_.push_back(array.access);
      ready.bytes_.push_back(ElementBytes(array.dtype));
    }
  }
  if (joins && Joins(signature, n)) {
    ready.num_joined_ = signature.operands.size();
    for (region::Array& array : signature.operands) {
      array.access = region::Access::kDense;
    }
    n = kLongRow;
  } else {
    ready.Gather(n, signature);
  }
  if (auto no = RegionTiles::Make(signature, Simd().region, ready.tiles_)) {
    return no;
  }
  if (!wants_code) return std::nullopt;
  RegionCompiler& compiler = RegionCompiler::Get();
  if (n >= kLongRow) ready.stages_ = RegionStages::Make(signature, compiler);
  if (!ready.stages_.has_value()) ready.code_ = compiler.Request(signature);
  return std::nullopt;
}

bool ReadyRegion::Joins(const region::Signature& signature, int64_t n) {
  const bool has_halves =
      std::any_of(signature.operands.begin(), signature.operands.end(),
                  [](const region::Array& operand) {
                    return ElementBytes(operand.dtype) == 2;
                  });
  if (n > (has_halves ? kLongestShortRowOfHalves : kLongestShortRow) ||
      signature.operands.empty() ||
      signature.operands.size() > kMostShortRowOperands) {
    return false;
  }
  return std::all_of(signature.results.begin(), signature.results.end(),
                     [](const region::Array& result) {
                       return !result.is_used ||
                              result.access == region::Access::kDense;
                     });
}

void ReadyRegion::Gather(int64_t n, region::Signature& signature) {
  const size_t num_arrays =
      signature.operands.size() + signature.results.size();
  if (n < kShortestGathered || num_arrays > kMostArrays) return;
  for (size_t i = 0; i < signature.operands.size(); ++i) {
    region::Array& array = signature.operands[i];
    const GatherFn gather = GatherOf(bytes_[i]);
    if (array.access != region::Access::kStrided || gather == nullptr ||
        gathered_.size() == kMostGathered) {
      continue;
    }
    array.access = region::Access::kDense;
    gathered_.push_back({.operand = i, .bytes = bytes_[i], .gather = gather});
  }
}

void ReadyRegion::Run(const region::RegionRows& rows) const {
  if (num_joined_ > 0) {
    RunJoined(rows);
  } else if (gathered_.empty()) {
    RunCode(rows);
  } else {
    RunGathered(rows);
  }
}

void ReadyRegion::RunJoined(const region::RegionRows& rows) const {
  alignas(64) char buffers[kMostShortRowOperands][kShortRowsTile];
  const char* filled[kMostShortRowOperands] = {};  // Where what never changes.
  char* at[kMostArrays];
  const size_t num_arrays = bytes_.size();
  int64_t most = kShortRowsTile;
  bool are_joined = true;
  for (size_t i = 0; i < num_arrays; ++i) {
    most = std::min(most, kShortRowsTile / bytes_[i]);
    if (i < num_joined_ || rows.at[i] == nullptr) continue;
    are_joined = are_joined && rows.row_steps[i] == rows.n * bytes_[i];
  }
  // Several rows of a tile, or parts of one.
  const int64_t together = are_joined && rows.n <= most ? most / rows.n : 1;
  for (int64_t row = 0; row < rows.rows; row += together) {
    const int64_t count = std::min(together, rows.rows - row);
    for (int64_t column = 0, n = 0; column < rows.n; column += n) {
      n = std::min(most, rows.n - column);
      for (size_t i = 0; i < num_arrays; ++i) {
        at[i] = rows.at[i];
        if (at[i] == nullptr) continue;
        const bool is_one = accesses_[i] == region::Access::kOne;
        const int64_t step =
            is_one ? 0
            : rows.n == 1 || accesses_[i] == region::Access::kDense
                ? bytes_[i]
                : rows.steps[i];
        at[i] += row * rows.row_steps[i] + column * step;
        if (i >= num_joined_) continue;
        const ShortRows from = {
            .at = at[i],
            .row_step = count > 1 ? rows.row_steps[i] : n * step,
            .step = step,
            .n = n,
            .rows = count};
        if (from.IsDense(bytes_[i])) continue;
        // What each tile repeats is written once.
        const bool is_same = rows.row_steps[i] == 0 && (is_one || n == rows.n);
        if (!is_same || filled[i] != at[i]) {
          const bool is_last = count < together;
          WriteOut(from, bytes_[i], buffers[i]);
          filled[i] = is_same && !is_last ? at[i] : nullptr;
        }
        at[i] = buffers[i];
      }
      RunCode({.at = at,
               .row_steps = rows.row_steps,
               .steps = rows.steps,
               .rows = 1,
               .n = count * n});
    }
  }
}

void ReadyRegion::RunCode(const region::RegionRows& rows) const {
  const region::RegionFn fn = code_ == nullptr ? nullptr : code_->fn();
  if (stages_.has_value() && stages_->is_ready()) {
    stages_->Run(rows);
  } else if (fn != nullptr) {
    fn(rows);
  } else {
    tiles_.Run(rows);
  }
}

void ReadyRegion::RunGathered(const region::RegionRows& rows) const {
  alignas(64) char buffers[kMostGathered][kGatheredBytes];
  char* at[kMostArrays];
  int64_t steps[kMostArrays], row_steps[kMostArrays], own_steps[kMostArrays];
  const size_t num_arrays = accesses_.size();
  for (size_t i = 0; i < num_arrays; ++i) {
    own_steps[i] = accesses_[i] == region::Access::kOne     ? 0
                   : accesses_[i] == region::Access::kDense ? bytes_[i]
                                                            : rows.steps[i];
    steps[i] = own_steps[i];
    row_steps[i] = rows.row_steps[i];
  }
  int64_t most = kGatheredBytes;
  for (const Gathered& one : gathered_) {
    most = std::min(most, kGatheredBytes / one.bytes);
  }
  const int64_t tile_rows =
      std::max<int64_t>(most / std::max<int64_t>(rows.n, 1), 1);
  for (int64_t row = 0; row < rows.rows; row += tile_rows) {
    const int64_t count = std::min(tile_rows, rows.rows - row);
    for (int64_t column = 0; column < rows.n; column += most) {
      const int64_t n = std::min(most, rows.n - column);
      for (size_t i = 0; i < num_arrays; ++i) {
        at[i] = rows.at[i];
        if (at[i] == nullptr) continue;
        at[i] += row * rows.row_steps[i] + column * own_steps[i];
      }
      for (size_t g = 0; g < gathered_.size(); ++g) {
        const auto& [i, bytes, gather] = gathered_[g];
        // The same row again is gathered once.
        const bool is_one_row = rows.row_steps[i] == 0;
        for (int64_t r = 0; r < (is_one_row ? 1 : count); ++r) {
          gather(at[i] + r * rows.row_steps[i], rows.steps[i] / bytes, n,
                 buffers[g] + r * n * bytes);
        }
        at[i] = buffers[g];
        steps[i] = bytes;
        row_steps[i] = is_one_row ? 0 : n * bytes;
      }
      RunCode({.at = at,
               .row_steps = row_steps,
               .steps = steps,
               .rows = count,
               .n = n});
    }
  }
}

}  // namespace mica::cpu
