// Elements in another order, of row-major operands: flips, rolls, triangles.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/movement.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/strided_copy.h"

namespace mica::cpu {
namespace {

bool AreRowMajor(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  return x.is_row_major() && request.results[0].type.is_row_major() &&
         !x.is_scalar && x.num_elements() > 0;
}

int64_t AxisOf(int64_t given, int rank) {
  return given < 0 ? given + rank : given;
}

struct FlipState {
  // The axes around the innermost one.
  absl::InlinedVector<int64_t, 4> sizes;
  absl::InlinedVector<bool, 4> is_flipped;
  bool flips_rows = false;
  GatherFn gather = nullptr;  // Backwards, of a row's elements.
  int64_t rows = 1, n = 1, bytes = 0;
  int num_threads = 1;
};

// The row that becomes row `index` of the result.
int64_t SourceRow(const FlipState& s, int64_t index) {
  int64_t row = 0, step = 1;
  for (size_t i = s.sizes.size(); i-- > 0;) {
    const int64_t at = index % s.sizes[i];
    row += step * (s.is_flipped[i] ? s.sizes[i] - 1 - at : at);
    step *= s.sizes[i];
    index /= s.sizes[i];
  }
  return row;
}

bool LaunchFlip(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const FlipState*>(state);
  const auto* x = static_cast<const char*>(args[0]);
  auto* out = static_cast<char*>(args[1]);
  const int64_t row_bytes = s.n * s.bytes;
  // Rows of the innermost axis around them follow each other either way.
  const int64_t run = s.sizes.empty() ? 1 : s.sizes.back();
  const int64_t step =
      !s.sizes.empty() && s.is_flipped.back() ? -row_bytes : row_bytes;
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t last = std::min(end, row - row % run + run);
      const char* from = x + SourceRow(s, row) * row_bytes;
      for (; row < last; ++row, from += step) {
        char* const to = out + row * row_bytes;
        if (s.flips_rows) {
          s.gather(from + row_bytes - s.bytes, -1, s.n, to);
        } else {
          CopyRun(from, to, row_bytes);
        }
      }
    }
  });
  return true;
}

Verdict PrepareFlip(const KernelRequest& request) {
  constexpr int64_t kShortest = 16;
  const TensorType& x = request.operands[0].type;
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  if (x.rank() == 0) return No{"no dims"};
  std::vector<bool> marked(x.rank(), false);
  for (int64_t dim : request.Ints(1)) marked[AxisOf(dim, x.rank())] = true;
  FlipState s{.bytes = ElementBytes(x.dtype)};
  // Neighbours that are alike are one.
  for (int i = 0; i < x.rank(); ++i) {
    if (x.dims[i] == 1) continue;
    if (!s.sizes.empty() && s.is_flipped.back() == marked[i]) {
      s.sizes.back() *= x.dims[i];
    } else {
      s.sizes.push_back(x.dims[i]);
      s.is_flipped.push_back(marked[i]);
    }
  }
  if (s.sizes.empty()) return No{"one element"};
  s.n = s.sizes.back();
  s.flips_rows = s.is_flipped.back();
  s.sizes.pop_back();
  s.is_flipped.pop_back();
  for (int64_t size : s.sizes) s.rows *= size;
  s.gather = GatherOf(s.bytes);
  if (s.gather == nullptr) return No{"elements of more than 8 bytes"};
  if (s.n < kShortest) return No{"short rows"};
  s.num_threads = UsefulThreads(request.num_threads, x.num_elements());
  Prepared prepared;
  prepared.launch = LaunchFlip;
  prepared.never_fails = true;
  prepared.state = std::make_shared<const FlipState>(std::move(s));
  return prepared;
}

struct RollState {
  int64_t rows = 1, row_bytes = 0;
  int64_t moved_bytes = 0;  // From a row's end to its beginning.
  int num_threads = 1;
};

bool LaunchRoll(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const RollState*>(state);
  const int64_t rest = s.row_bytes - s.moved_bytes;
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    const auto* x = static_cast<const char*>(args[0]) + begin * s.row_bytes;
    auto* out = static_cast<char*>(args[1]) + begin * s.row_bytes;
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(out, x + rest, static_cast<size_t>(s.moved_bytes));
      std::memcpy(out + s.moved_bytes, x, static_cast<size_t>(rest));
      x += s.row_bytes;
      out += s.row_bytes;
    }
  });
  return true;
}

Verdict PrepareRoll(const KernelRequest& request) {
  constexpr int64_t kShortest = 64;
  const TensorType& x = request.operands[0].type;
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  if (request.operands.size() != 1) return No{"a shift varies"};
  const auto shifts = request.Ints(1), dims = request.Ints(2);
  if (shifts.size() != 1 || dims.size() > 1) return No{"several axes"};
  RollState s;
  // Without an axis it goes along all elements.
  const int64_t axis = dims.empty() ? 0 : AxisOf(dims[0], x.rank());
  int64_t size = 1, inner = ElementBytes(x.dtype);
  for (int i = 0; i < x.rank(); ++i) {
    const bool is_it = dims.empty() || i == axis;
    (is_it ? size : i < axis ? s.rows : inner) *= x.dims[i];
  }
  s.row_bytes = size * inner;
  s.moved_bytes = ((shifts[0] % size) + size) % size * inner;
  if (s.row_bytes < kShortest) return No{"short rows"};
  s.num_threads = UsefulThreads(request.num_threads, x.num_elements());
  Prepared prepared;
  prepared.launch = LaunchRoll;
  prepared.never_fails = true;
  prepared.state = std::make_shared<const RollState>(s);
  return prepared;
}

struct TriangleState {
  int64_t matrices = 1, rows = 0, columns = 0, bytes = 0;
  int64_t diagonal = 0;
  bool is_upper = false;
  int num_threads = 1;
};

bool LaunchTriangle(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const TriangleState*>(state);
  const int64_t row_bytes = s.columns * s.bytes;
  const bool is_inplace = args[0] == args[1];
  Parallel(s.num_threads, s.matrices * s.rows, [&](int64_t begin, int64_t end) {
    const auto* x = static_cast<const char*>(args[0]) + begin * row_bytes;
    auto* out = static_cast<char*>(args[1]) + begin * row_bytes;
    for (int64_t i = begin; i < end; ++i, x += row_bytes, out += row_bytes) {
      // The first element above the diagonal, or on it.
      const int64_t first = i % s.rows + s.diagonal + (s.is_upper ? 0 : 1);
      const int64_t cut = std::clamp<int64_t>(first, 0, s.columns) * s.bytes;
      const auto below = static_cast<size_t>(cut);
      const auto above = static_cast<size_t>(row_bytes - cut);
      const size_t kept = s.is_upper ? above : below;
      const size_t cleared = s.is_upper ? below : above;
      if (cleared > 0) std::memset(s.is_upper ? out : out + cut, 0, cleared);
      if (is_inplace || kept == 0) continue;
      const int64_t from = s.is_upper ? cut : 0;
      std::memcpy(out + from, x + from, kept);
    }
  });
  return true;
}

Verdict PrepareTriangle(const KernelRequest& request, bool is_upper) {
  const TensorType& x = request.operands[0].type;
  const int rank = x.rank();
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  if (rank < 2 || request.OperandIndex(1) >= 0) return No{"no matrix"};
  TriangleState s{.rows = x.dims[rank - 2],
                  .columns = x.dims[rank - 1],
                  .bytes = ElementBytes(x.dtype),
                  .diagonal = request.Has(1) ? request.Int(1) : 0,
                  .is_upper = is_upper};
  s.matrices = x.num_elements() / (s.rows * s.columns);
  // Larger ones leave no row whole, and sums with them may wrap around.
  s.diagonal = std::clamp(s.diagonal, -s.rows - s.columns, s.rows + s.columns);
  s.num_threads = UsefulThreads(request.num_threads, x.num_elements());
  Prepared prepared;
  prepared.launch = LaunchTriangle;
  prepared.never_fails = true;
  prepared.inplace_operands = 1;
  prepared.state = std::make_shared<const TriangleState>(s);
  return prepared;
}

}  // namespace

void RegisterReorder(KernelRegistry& registry) {
  registry.Add("aten.flip", kMovedTypes, KernelRank::kFast,
               {"cpu.flip", PrepareFlip});
  registry.Add("aten.roll", kMovedTypes, KernelRank::kFast,
               {"cpu.roll", PrepareRoll});
  for (const bool is_upper : {false, true}) {
    registry.Add(is_upper ? "aten.triu" : "aten.tril", kMovedTypes,
                 KernelRank::kFast,
                 {"cpu.triangle", [is_upper](const KernelRequest& request) {
                    return PrepareTriangle(request, is_upper);
                  }});
  }
}

}  // namespace mica::cpu
