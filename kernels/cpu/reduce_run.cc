#include "kernels/cpu/reduce_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

using ReduceKind = PhasePlace::Kind;

// A float32 sum goes on in double after so many rows.
constexpr int64_t kRowsInFloat = 128;

// What one thread does: blocks, or parts of one block.
class ReduceWorker {
 public:
  // `scratch` is its own; `kept` and `sums` may be another's.
  ReduceWorker(const ReduceRegion& region, void* const* args, char* scratch)
      : r_(region), args_(args) {
    places_.arrays = at_;
    places_.row_steps = region.layout.row_steps.data();
    places_.column_steps = region.layout.column_steps.data();
    places_.tiles = scratch;
    places_.tile_offsets = region.tile_offsets.data();
    places_.kept = scratch + region.kept_area;
    places_.kept_offsets = region.kept_offsets.data();
    places_.kept_by_row =
        region.layout.reduces_columns && !region.layout.reduces_both;
    places_.kept_by_column = !region.layout.reduces_columns;
    places_.count = &region.count;
    places_.streams = !region.streamed.empty() && !IsInplace();
    sums_ = scratch + region.sums_area;
    kept_steps_.reserve(region.num_arrays);
    for (size_t a = 0; a < region.num_arrays; ++a) {
      kept_steps_.push_back(region.layout.kept_step(a));
    }
  }
  // Reads and writes what that one keeps.
  void Share(const ReduceWorker& other) {
    places_.kept = other.places_.kept;
    sums_ = other.sums_;
  }

  ~ReduceWorker() {
    if (places_.streams) EndStream();
  }
  ReduceWorker(const ReduceWorker&) = delete;
  ReduceWorker& operator=(const ReduceWorker&) = delete;

  void RunBlock(int64_t block) {
    Enter(block);
    for (const ReadyPhase& phase : r_.phases) {
      RunKept(phase);
      RunParts(phase, 0, r_.parts);
      Finish(phase);
    }
  }

  void Enter(int64_t block) {
    const int64_t place = block / r_.blocks_per_place;
    const int64_t start = block % r_.blocks_per_place * r_.kept_block;
    num_kept_ = std::min(r_.kept_block, r_.layout.kept_size() - start);
    for (size_t a = 0; a < r_.num_arrays; ++a) {
      auto* at = static_cast<char*>(args_[a]);
      block_[a] = at == nullptr ? nullptr
                                : at + r_.layout.kept.Offset(a, place) +
                                      start * kept_steps_[a];
    }
  }

  void RunKept(const ReadyPhase& phase) {
    if (phase.kept.is_empty()) return;
    ReducePlaces places = places_;
    places.arrays = block_;
    places.column_steps = kept_steps_.data();
    places.row_steps = kept_steps_.data();
    places.kept_by_column = true;
    places.kept_by_row = false;
    phase.kept.Run(places, 1, num_kept_);
  }

  void RunParts(const ReadyPhase& phase, int64_t begin, int64_t end) {
    if (phase.elements.is_empty() && phase.reductions.empty()) return;
    rows_in_float_ = 0;
    is_in_double_ = false;
    for (int64_t part = begin; part < end; ++part) RunPart(phase, part);
  }

  // What several parts gave becomes one.
  void Finish(const ReadyPhase& phase) {
    if (r_.parts == 1) return;
    for (size_t i = 0; i < phase.reductions.size(); ++i) {
      const ReadyReduction& reduction = phase.reductions[i];
      char* const to = KeptAt(reduction.what.to);
      if (!r_.layout.reduces_columns) {
        FinishColumns(reduction, SumsOf(i), to);
      } else if (reduction.is_float_sum) {
        const auto* sums = reinterpret_cast<const float*>(SumsOf(i));
        double sum = 0;
        for (int64_t part = 0; part < r_.parts; ++part) sum += sums[part];
        *reinterpret_cast<float*>(to) = static_cast<float>(sum);
      } else {
        reduction.reduce(SumsOf(i), to, 1, r_.parts);
      }
    }
  }

 private:
  // Whether a result to stream has the bytes of another array.
  bool IsInplace() const {
    for (const int result : r_.streamed) {
      for (size_t a = 0; a < r_.num_arrays; ++a) {
        if (static_cast<int>(a) != result && args_[a] == args_[result]) {
          return true;
        }
      }
    }
    return false;
  }

  char* KeptAt(const PhasePlace& place) const {
    return places_.kept + r_.kept_offsets[place.index];
  }
  // Room for the i-th reduction's sums: one for each part of a row; of columns
  // two rows, and one in double.
  char* SumsOf(size_t i) const {
    return sums_ + static_cast<int64_t>(i) * r_.sums_bytes;
  }

  void RunPart(const ReadyPhase& phase, int64_t part) {
    const int64_t place = part / r_.parts_per_place;
    const int64_t start = part % r_.parts_per_place * r_.reduced_block;
    const int64_t count =
        std::min(r_.reduced_block, r_.layout.reduced_size() - start);
    const bool of_columns = r_.layout.reduces_columns;
    const bool of_both = r_.layout.reduces_both;
    const auto& steps =
        of_columns && !of_both ? r_.layout.column_steps : r_.layout.row_steps;
    for (size_t a = 0; a < r_.num_arrays; ++a) {
      at_[a] = block_[a] == nullptr
                   ? nullptr
                   : block_[a] + r_.layout.reduced.Offset(a, place) +
                         start * steps[a];
    }
    int64_t rows = of_columns && !of_both ? num_kept_ : count;
    int64_t columns = of_both      ? r_.layout.columns
                      : of_columns ? count
                                   : num_kept_;
    if (!phase.elements.is_empty()) {
      phase.elements.Run(places_, rows, columns);
    }
    if (of_both) columns *= std::exchange(rows, 1);
    const bool is_full =
        rows_in_float_ > 0 && rows_in_float_ + rows > kRowsInFloat;
    for (size_t i = 0; i < phase.reductions.size(); ++i) {
      const ReadyReduction& reduction = phase.reductions[i];
      if (r_.parts == 1) {
        Reduce(reduction, rows, columns, KeptAt(reduction.what.to));
      } else if (of_columns) {
        Reduce(reduction, rows, columns, SumsOf(i) + part * reduction.bytes);
      } else {
        AddRows(reduction, rows, is_full, SumsOf(i));
      }
    }
    if (is_full) {
      is_in_double_ = true;
      rows_in_float_ = 0;
    }
    rows_in_float_ += rows;
  }

  void Reduce(const ReadyReduction& reduction, int64_t rows, int64_t columns,
              char* to) const {
    const int64_t bytes = reduction.bytes;
    const ReduceRowsFn run = reduction.reduce;
    if (reduction.what.from.kind == ReduceKind::kTile) {
      run(places_.tiles + r_.tile_offsets[reduction.what.from.index], to, rows,
          columns);
      return;
    }
    const char* from = at_[reduction.what.from.index];
    const int64_t step = r_.layout.row_steps[reduction.what.from.index];
    if (step == columns * bytes || rows == 1) {
      run(from, to, rows, columns);
      return;
    }
    for (int64_t row = 0; row < rows; ++row) {
      run(from + row * step, to + row * bytes, 1, columns);
    }
  }

  // More rows to what the block's columns gave so far, the first of two rows.
  void AddRows(const ReadyReduction& reduction, int64_t rows, bool is_full,
               char* sums) const {
    const int64_t row_bytes = num_kept_ * reduction.bytes;
    if (is_full && reduction.is_float_sum) AddToDouble(sums);
    if (rows_in_float_ == 0 || (is_full && reduction.is_float_sum)) {
      Reduce(reduction, rows, num_kept_, sums);
      return;
    }
    Reduce(reduction, rows, num_kept_, sums + row_bytes);
    reduction.reduce(sums, sums, 2, num_kept_);
  }

  double* DoublesOf(char* sums) const {
    return reinterpret_cast<double*>(sums +
                                     AlignUp(2 * r_.kept_block * int64_t{8}));
  }
  void AddToDouble(char* sums) const {
    const auto* floats = reinterpret_cast<const float*>(sums);
    double* doubles = DoublesOf(sums);
    for (int64_t i = 0; i < num_kept_; ++i) {
      doubles[i] = (is_in_double_ ? doubles[i] : 0.0) + floats[i];
    }
  }
  void FinishColumns(const ReadyReduction& reduction, char* sums,
                     char* to) const {
    if (!reduction.is_float_sum || !is_in_double_) {
      std::memcpy(to, sums, static_cast<size_t>(num_kept_ * reduction.bytes));
      return;
    }
    AddToDouble(sums);
    const double* doubles = DoublesOf(sums);
    auto* floats = reinterpret_cast<float*>(to);
    for (int64_t i = 0; i < num_kept_; ++i) {
      floats[i] = static_cast<float>(doubles[i]);
    }
  }

  const ReduceRegion& r_;
  void* const* args_;
  ReducePlaces places_;
  char* sums_ = nullptr;
  std::vector<int64_t> kept_steps_;
  char* at_[kMostReduceArrays];
  char* block_[kMostReduceArrays];
  int64_t num_kept_ = 0;
  // Of columns: rows whose sum is a float32 so far, and whether those before
  // them are a double.
  int64_t rows_in_float_ = 0;
  bool is_in_double_ = false;
};

// One long row: its parts are for all threads.
void RunOneBlock(const ReduceRegion& r, void* const* args, char* scratch) {
  ReduceWorker first(r, args, scratch);
  first.Enter(0);
  for (const ReadyPhase& phase : r.phases) {
    first.RunKept(phase);
    ParallelPieces(r.num_threads, r.parts,
                   [&](int piece, int64_t begin, int64_t end) {
                     ReduceWorker worker(r, args, scratch + piece * r.scratch);
                     worker.Share(first);
                     worker.Enter(0);
                     worker.RunParts(phase, begin, end);
                   });
    first.Finish(phase);
  }
}

}  // namespace

ReadyReduction MakeReady(const PhaseReduction& reduction,
                         bool reduces_columns) {
  const int e = static_cast<int>(*ElemOf(reduction.to.dtype));
  const int op =
      static_cast<int>(reduction.op == RegionOpId::kSum    ? Reduction::kSum
                       : reduction.op == RegionOpId::kAmax ? Reduction::kMax
                                                           : Reduction::kMin);
  const ReduceRowsFn rows = Simd().reduce_rows[op][e];
  const ReduceRowsFn columns = Simd().reduce_columns[op][e];
  return {.what = reduction,
          .bytes = ElementBytes(reduction.to.dtype),
          .reduce = reduces_columns ? rows : columns,
          .is_float_sum = reduction.op == RegionOpId::kSum &&
                          reduction.to.dtype == DType::kF32};
}

void RunReduceRegion(const ReduceRegion& region, void* const* args,
                     char* scratch) {
  if (region.blocks == 1 && region.num_threads > 1 &&
      region.layout.reduces_columns) {
    RunOneBlock(region, args, scratch);
    return;
  }
  ParallelPieces(region.num_threads, region.blocks,
                 [&](int piece, int64_t begin, int64_t end) {
                   ReduceWorker worker(region, args,
                                       scratch + piece * region.scratch);
                   for (int64_t block = begin; block < end; ++block) {
                     worker.RunBlock(block);
                   }
                 });
}

}  // namespace mica::cpu
