// One elementwise loop of a region with reductions, ready to run.

#ifndef MICA_KERNELS_CPU_REDUCE_LOOP_H_
#define MICA_KERNELS_CPU_REDUCE_LOOP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "kernels/cpu/ready_region.h"
#include "kernels/cpu/region_phases.h"
#include "kernels/cpu/streamed.h"

namespace mica::cpu {

// Where a block's places are. Steps are in bytes.
struct ReducePlaces {
  char* const* arrays = nullptr;
  const int64_t* row_steps = nullptr;     // Of arrays, from row to row,
  const int64_t* column_steps = nullptr;  // and from column to column.
  char* tiles = nullptr;                  // Rows of columns each.
  const int64_t* tile_offsets = nullptr;  // By tile.
  char* kept = nullptr;
  const int64_t* kept_offsets = nullptr;
  // Of kept elements: either is 0 or the size of one.
  bool kept_by_row = false, kept_by_column = false;
  const double* count = nullptr;
  bool streams = false;  // What the loops have been told to.
};

// A region on what such places say.
class ReduceLoop {
 public:
  static constexpr int kMostPlaces = 64;

  // The reason why it can't be run. `steps` are the arrays' from column to
  // column; ReadyRegion says what the others are for.
  static std::optional<std::string> Make(const PhaseLoop& loop,
                                         const std::vector<int64_t>& steps,
                                         bool kept_by_column, int64_t columns,
                                         bool wants_code, ReduceLoop& made);

  // Has results in dense arrays streamed that `arrays` names.
  void Stream(const std::vector<bool>& arrays);

  bool is_empty() const { return places_.empty(); }
  void Run(const ReducePlaces& places, int64_t rows, int64_t columns) const;

 private:
  struct Place {
    PhasePlace::Kind kind = PhasePlace::Kind::kArray;
    int index = 0;
    int64_t bytes = 4;  // Of an element.
    bool is_dense_result = false;
  };

  std::vector<Place> places_;  // Operands, then results.
  absl::InlinedVector<StreamedResult, kMostStreamed> streamed_;
  ReadyRegion region_;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REDUCE_LOOP_H_
