#include "kernels/cpu/pointwise_tiles.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/strided_copy.h"

namespace mica::cpu {
namespace {

// A tile of an operand stays in the first-level cache.
constexpr int64_t kTileRows = 32;
constexpr int64_t kTileBytes = 16384;
constexpr int64_t kMostBytes = 8;  // Of an element.
// Below this many rows or columns a row is gathered as fast.
constexpr int64_t kShortest = 8;

// Whether its elements lie dense from row to row instead of along a row.
bool IsTurned(const PointwiseLoop::Input& input) {
  return input.is_gathered && !input.has_short_rows && input.stride > 1 &&
         input.outer_strides.back() == input.bytes;
}

class Tiles {
 public:
  Tiles(const PointwiseLoop& loop, void* const* args)
      : loop_(loop), rank_(static_cast<int>(loop.outer_sizes.size())) {
    out_ = static_cast<char*>(args[loop.out_arg]);
    columns_ = loop.inner;
    for (int s = 0; s < loop.num_inputs; ++s) {
      const PointwiseLoop::Input& input = loop.inputs[s];
      in_[s] = static_cast<const char*>(
          input.arg >= 0 ? args[input.arg]
                         : static_cast<const void*>(input.constant.bytes));
      if (IsTurned(input)) {
        columns_ = std::min(columns_, kTileBytes / kTileRows / input.bytes);
      }
    }
  }

  // Block `number` of kTileRows rows, of all planes.
  void Run(int64_t number) {
    const int64_t rows = loop_.outer_sizes[rank_ - 1];
    const int64_t blocks = (rows + kTileRows - 1) / kTileRows;
    const int64_t first = number % blocks * kTileRows;
    const char* in[kMaxSources];
    std::copy(in_, in_ + kMaxSources, in);
    char* out = out_;
    const auto step = [&](int dim, int64_t steps) {
      out += steps * loop_.out_outer_strides[dim];
      for (int s = 0; s < loop_.num_inputs; ++s) {
        in[s] += steps * loop_.inputs[s].outer_strides[dim];
      }
    };
    step(rank_ - 1, first);
    int64_t rest = number / blocks;
    for (int d = rank_ - 2; d >= 0; --d) {
      step(d, rest % loop_.outer_sizes[d]);
      rest /= loop_.outer_sizes[d];
    }
    const int64_t count = std::min(kTileRows, rows - first);
    for (int64_t column = 0; column < loop_.inner; column += columns_) {
      RunTile(in, out, column, std::min(columns_, loop_.inner - column), count);
    }
  }

 private:
  // `in` and `out` are where the block begins.
  void RunTile(const char* const* in, char* out, int64_t column, int64_t n,
               int64_t rows) {
    const char* from[kMaxSources];
    int64_t steps[kMaxSources];
    for (int s = 0; s < loop_.num_inputs; ++s) {
      const PointwiseLoop::Input& input = loop_.inputs[s];
      from[s] = in[s] + column * input.stride * input.bytes;
      steps[s] = input.outer_strides[rank_ - 1];
      if (!IsTurned(input)) continue;
      TransposeOf(input.bytes)(from[s], input.stride, turned_[s], n, n, rows);
      from[s] = turned_[s];
      steps[s] = n * input.bytes;
    }
    out += column * loop_.out_bytes;
    for (int64_t row = 0; row < rows; ++row) {
      const void* pieces[kMaxSources];
      for (int s = 0; s < loop_.num_inputs; ++s) {
        pieces[s] = Piece(s, from[s] + row * steps[s], n);
      }
      loop_.row(loop_, pieces, out, n);
      out += loop_.out_outer_strides[rank_ - 1];
    }
  }

  // The source's n elements from `from` on as the row function takes them.
  const void* Piece(int s, const char* from, int64_t n) {
    const PointwiseLoop::Input& input = loop_.inputs[s];
    const void* piece = from;
    if (input.is_gathered && !IsTurned(input)) {
      GatherOf(input.bytes)(from, input.stride, n, row_[s]);
      piece = row_[s];
    }
    if (input.convert == nullptr) return piece;
    input.convert(piece, converted_[s], input.is_single ? 1 : n);
    return converted_[s];
  }

  static constexpr int64_t kRowBytes = kTileBytes / kTileRows * kMostBytes;

  const PointwiseLoop& loop_;
  const int rank_;
  const char* in_[kMaxSources] = {};
  char* out_ = nullptr;
  int64_t columns_ = 0;  // Of a tile.
  alignas(64) char turned_[kMaxSources][kTileBytes];
  alignas(64) char row_[kMaxSources][kRowBytes];
  alignas(64) char converted_[kMaxSources][kRowBytes];
};

bool LaunchTiles(const void* state, void* const* args, LaunchContext&) {
  const auto& loop = *static_cast<const PointwiseLoop*>(state);
  const int rank = static_cast<int>(loop.outer_sizes.size());
  int64_t blocks = (loop.outer_sizes[rank - 1] + kTileRows - 1) / kTileRows;
  for (int d = 0; d + 1 < rank; ++d) blocks *= loop.outer_sizes[d];
  Parallel(loop.num_threads, blocks, [&](int64_t begin, int64_t end) {
    Tiles tiles(loop, args);
    for (int64_t block = begin; block < end; ++block) tiles.Run(block);
  });
  return true;
}

}  // namespace

LaunchFn TiledLaunch(const PointwiseLoop& loop) {
  if (loop.outer_sizes.empty() || loop.has_equal_rows || loop.short_row != 0 ||
      loop.out_stride != 1 || loop.inner < kShortest ||
      loop.outer_sizes.back() < kShortest) {
    return nullptr;
  }
  const auto* const end = loop.inputs + loop.num_inputs;
  return std::any_of(loop.inputs, end, IsTurned) ? LaunchTiles : nullptr;
}

}  // namespace mica::cpu
