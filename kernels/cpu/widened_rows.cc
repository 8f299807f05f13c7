// Numbers of 16 bits in ops along the last axes: a block of rows is widened,
// the float32 kernel runs on it, and its results are narrowed.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "framework/tensor/tensor.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/widened.h"

namespace mica::cpu {
namespace {

// Elements of a block: operand and result together fill half of a first-level
// cache of 32 kB. A row may be longer.
constexpr int64_t kBlockElements = 2048;

// An operand or a result of a launch.
struct Lane {
  ConvertFn convert = nullptr;  // To float32, or back; null if it has no need.
  bool is_result = false;
  bool has_rows = false;
  int64_t bytes = 0;   // Of an element as it is given.
  int64_t count = 0;   // Elements of a row, or in all.
  int64_t offset = 0;  // Of the float32 ones in the scratch memory.
};

struct RowsState {
  Prepared block, rest;  // The wide kernel, of a whole block and of the last.
  int64_t rows = 0, block_rows = 0;
  absl::InlinedVector<Lane, 6> lanes;
  int num_threads = 1;
  int64_t thread_bytes = 0;  // Scratch memory of each thread, for blocks.
};

using Args = absl::InlinedVector<void*, 8>;

void RunBlock(const RowsState& s, void* const* args, const Args& whole,
              char* scratch, int64_t begin, LaunchContext& context) {
  const int64_t rows = std::min(s.block_rows, s.rows - begin);
  Args wide(whole);
  for (size_t i = 0; i < s.lanes.size(); ++i) {
    const Lane& lane = s.lanes[i];
    if (!lane.has_rows || args[i] == nullptr) continue;
    char* const given =
        static_cast<char*>(args[i]) + begin * lane.count * lane.bytes;
    wide[i] = lane.convert == nullptr ? given : scratch + lane.offset;
    if (lane.convert == nullptr || lane.is_result) continue;
    lane.convert(given, wide[i], rows * lane.count);
  }
  const Prepared& kernel = rows == s.block_rows ? s.block : s.rest;
  kernel.launch(kernel.state.get(), wide.data(), context);
  for (size_t i = 0; i < s.lanes.size(); ++i) {
    const Lane& lane = s.lanes[i];
    if (!lane.is_result || lane.convert == nullptr || args[i] == nullptr) {
      continue;
    }
    lane.convert(wide[i],
                 static_cast<char*>(args[i]) + begin * lane.count * lane.bytes,
                 rows * lane.count);
  }
}

bool LaunchRows(const void* state, void* const* args, LaunchContext& context) {
  const auto& s = *static_cast<const RowsState*>(state);
  char* const scratch = static_cast<char*>(args[s.lanes.size()]);
  Args whole(args, args + s.lanes.size());
  for (size_t i = 0; i < s.lanes.size(); ++i) {
    const Lane& lane = s.lanes[i];
    if (lane.has_rows || lane.convert == nullptr || args[i] == nullptr) {
      continue;
    }
    whole[i] = scratch + s.num_threads * s.thread_bytes + lane.offset;
    lane.convert(args[i], whole[i], lane.count);
  }
  const int64_t blocks = (s.rows + s.block_rows - 1) / s.block_rows;
  ParallelPieces(s.num_threads, blocks,
                 [&](int piece, int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     RunBlock(s, args, whole, scratch + piece * s.thread_bytes,
                              i * s.block_rows, context);
                   }
                 });
  return true;
}

// The first operand's dims before the axes that the op goes along; none if
// those aren't the last ones.
std::optional<int> NumLeading(const KernelRequest& request) {
  const int rank = request.operands[0].type.rank();
  if (request.def->name() == "aten.native_layer_norm") {
    return rank - static_cast<int>(request.Ints(1).size());
  }
  if (!request.Has(1)) return std::nullopt;
  const int64_t axis = request.Int(1);
  if (axis != -1 && axis != rank - 1) return std::nullopt;
  return rank - 1;
}

bool BeginsAlike(const TensorType& a, const TensorType& b, int num_dims) {
  return a.rank() >= num_dims && b.rank() >= num_dims &&
         std::equal(a.dims.begin(), a.dims.begin() + num_dims, b.dims.begin());
}

// The type for so many rows, of as many dims, since arguments count them.
void CutRows(int num_leading, int64_t rows, TensorType& type) {
  std::fill_n(type.dims.begin(), num_leading, 1);
  type.dims[num_leading - 1] = rows;
}

// The wide kernel for so many rows.
std::optional<Prepared> PrepareBlock(const KernelRequest& request,
                                     int num_leading, int64_t rows) {
  KernelRequest block = Widen(request);
  block.num_threads = 1;
  for (Operand& operand : block.operands) operand.is_frozen = false;
  CutRows(num_leading, rows, block.operands[0].type);
  for (Operand& result : block.results) {
    CutRows(num_leading, rows, result.type);
  }
  auto prepared = PrepareWide(block);
  if (!prepared.has_value() || !IsPlain(*prepared)) return std::nullopt;
  return prepared;
}

int64_t Reserve(int64_t count, int64_t& total) {
  const int64_t offset = total;
  total += AlignUp(count * kFloatBytes);
  return offset;
}

Lane LaneOf(const TensorType& type, int64_t rows) {
  return {.bytes = ElementBytes(type.dtype),
          .count = type.num_elements() / rows};
}

// Frozen operands are widened once, by the Binding.
void PackLane(int operand, Lane& lane, Prepared& prepared) {
  prepared.packs.push_back(
      {.operand = operand,
       .bytes = lane.count * kFloatBytes,
       .pack = [convert = lane.convert, count = lane.count](
                   const void* from, void* to) -> absl::Status {
         convert(from, to, count);
         return absl::OkStatus();
       }});
  lane.convert = nullptr;
}

// Returns the bytes of scratch memory that whole operands take.
int64_t AddLanes(const KernelRequest& request, RowsState& s,
                 Prepared& prepared) {
  int64_t whole_bytes = 0;
  const SimdTable& simd = Simd();
  for (size_t i = 0; i < request.operands.size(); ++i) {
    const Operand& operand = request.operands[i];
    Lane lane = LaneOf(operand.type, i == 0 ? s.rows : 1);
    lane.has_rows = i == 0;
    if (const auto half = HalfOf(operand.type.dtype); half.has_value()) {
      lane.convert = simd.widen[static_cast<int>(*half)];
      if (lane.has_rows) {
        lane.offset = Reserve(s.block_rows * lane.count, s.thread_bytes);
      } else if (operand.is_frozen) {
        PackLane(static_cast<int>(i), lane, prepared);
      } else {
        lane.offset = Reserve(lane.count, whole_bytes);
      }
    }
    s.lanes.push_back(lane);
  }
  for (const Operand& result : request.results) {
    Lane lane = LaneOf(result.type, s.rows);
    lane.is_result = lane.has_rows = true;
    if (const auto half = HalfOf(result.type.dtype); half.has_value()) {
      lane.convert = simd.narrow[static_cast<int>(*half)];
      lane.offset = Reserve(s.block_rows * lane.count, s.thread_bytes);
    }
    s.lanes.push_back(lane);
  }
  return whole_bytes;
}

std::optional<No> WhyNoRows(const KernelRequest& request, int num_leading) {
  const TensorType& x = request.operands[0].type;
  if (num_leading < 1 || x.num_elements() == 0) return No{"has no rows"};
  for (const Operand& operand : request.operands) {
    if (!operand.type.is_row_major()) return No{"operands aren't row-major"};
  }
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major() ||
        !BeginsAlike(x, result.type, num_leading)) {
      return No{"a result doesn't have the operand's rows"};
    }
  }
  return std::nullopt;
}

}  // namespace

Verdict PrepareWidenedRows(const KernelRequest& request) {
  if (!IsHalf(request)) return No{"nothing has 16 bits"};
  const std::optional<int> num_leading = NumLeading(request);
  if (!num_leading.has_value()) return No{"not along the last axes"};
  if (auto no = WhyNoRows(request, *num_leading)) return *no;
  const TensorType& x = request.operands[0].type;
  auto state = std::make_shared<RowsState>();
  RowsState& s = *state;
  s.rows = 1;
  for (int i = 0; i < *num_leading; ++i) s.rows *= x.dims[i];
  s.block_rows = std::clamp<int64_t>(kBlockElements * s.rows / x.num_elements(),
                                     1, s.rows);
  auto block = PrepareBlock(request, *num_leading, s.block_rows);
  auto rest =
      PrepareBlock(request, *num_leading, (s.rows - 1) % s.block_rows + 1);
  if (!block.has_value() || !rest.has_value()) {
    return No{"no plain float32 kernel takes a block"};
  }
  s.block = *std::move(block);
  s.rest = *std::move(rest);
  s.num_threads = UsefulThreads(request.num_threads, x.num_elements());
  Prepared prepared;
  const int64_t whole_bytes = AddLanes(request, s, prepared);
  prepared.launch = LaunchRows;
  prepared.never_fails = true;
  prepared.scratch_bytes =
      std::max(s.num_threads * s.thread_bytes + whole_bytes, kBufferAlignment);
  // A block is read before it is written.
  if (x == request.results[0].type && !x.is_scalar) {
    prepared.inplace_operands = 1;
  }
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace mica::cpu
