// Kernels that read what indices name: rows, slices, elements.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/movement.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

struct RowsState {
  const char* op = "";
  int table_arg = 0, index_arg = 1;
  int64_t outer = 1;
  int64_t num_rows = 0;  // Of the table, for each outer index.
  int64_t num_indices = 0;
  int64_t row_bytes = 0;
  int64_t table_stride = 0;      // In bytes, between rows of the table.
  bool counts_from_end = false;  // Negative indices are legal.
  // Where each index is, in elements; empty if they are row-major.
  std::vector<int64_t> index_offsets;
};

// Copies the rows of a table that indices name.
template <typename Index>
bool LaunchRows(const void* state, void* const* args, LaunchContext& context) {
  const auto& s = *static_cast<const RowsState*>(state);
  const auto* table = static_cast<const char*>(args[s.table_arg]);
  const auto* indices = static_cast<const Index*>(args[s.index_arg]);
  auto* out = static_cast<char*>(args[2]);
  const auto bytes = static_cast<size_t>(s.row_bytes);
  for (int64_t o = 0; o < s.outer; ++o) {
    const char* base = table + o * s.num_rows * s.table_stride;
    for (int64_t i = 0; i < s.num_indices; ++i, out += bytes) {
      const int64_t at = s.index_offsets.empty() ? i : s.index_offsets[i];
      int64_t index = indices[at];
      if (s.counts_from_end && index < 0) index += s.num_rows;
      if (index < 0 || index >= s.num_rows) {
        return context.Fail(OutOfRange(s.op, indices[at], s.num_rows));
      }
      std::memcpy(out, base + index * s.table_stride, bytes);
    }
  }
  return true;
}

// The same of rows of one element, one behind the other.
bool LaunchElements(const void* state, void* const* args,
                    LaunchContext& context) {
  const auto& s = *static_cast<const RowsState*>(state);
  const PickFn pick = PickOf(s.row_bytes);
  const auto bytes = static_cast<size_t>(s.row_bytes);
  const auto* table = static_cast<const char*>(args[s.table_arg]);
  const auto* indices = static_cast<const int64_t*>(args[s.index_arg]);
  auto* out = static_cast<char*>(args[2]);
  for (int64_t o = 0; o < s.outer; ++o) {
    const char* base = table + o * s.num_rows * s.row_bytes;
    for (int64_t i = 0; i < s.num_indices; ++i) {
      const int64_t done =
          pick(base, s.num_rows, indices + i, s.num_indices - i, out);
      out += done * s.row_bytes;
      i += done;
      if (i == s.num_indices) break;
      // A legal one from the end, or none.
      const int64_t index = indices[i] + s.num_rows;
      if (!s.counts_from_end || index < 0 || index >= s.num_rows) {
        return context.Fail(OutOfRange(s.op, indices[i], s.num_rows));
      }
      std::memcpy(out, base + index * s.row_bytes, bytes);
      out += bytes;
    }
  }
  return true;
}

// The elements of a type in row-major order of its dims, as offsets.
std::vector<int64_t> ElementOffsets(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  std::vector<int64_t> offsets = {0};
  for (int axis = 0; axis < type.rank(); ++axis) {
    std::vector<int64_t> next;
    for (int64_t offset : offsets) {
      for (int64_t i = 0; i < type.dims[axis]; ++i) {
        next.push_back(offset + i * strides[axis]);
      }
    }
    offsets = std::move(next);
  }
  return offsets;
}

Verdict FinishRows(const KernelRequest& request, RowsState state) {
  constexpr int64_t kMostOffsets = 1 << 16;
  const TensorType& index = request.operands[state.index_arg].type;
  if (!request.results[0].type.is_row_major()) {
    return No{"the result isn't row-major"};
  }
  if (!index.is_row_major()) {
    if (index.num_elements() > kMostOffsets) return No{"too many indices"};
    state.index_offsets = ElementOffsets(index);
  }
  Prepared prepared;
  const bool are_elements = state.row_bytes == state.table_stride &&
                            state.index_offsets.empty() &&
                            PickOf(state.row_bytes) != nullptr;
  if (index.dtype == DType::kI64) {
    prepared.launch = are_elements ? LaunchElements : LaunchRows<int64_t>;
  } else if (index.dtype == DType::kI32) {
    prepared.launch = LaunchRows<int32_t>;
  } else {
    return No{"indices are neither i64 nor i32"};
  }
  prepared.state = std::make_shared<const RowsState>(std::move(state));
  return prepared;
}

Verdict PrepareEmbedding(const KernelRequest& request) {
  const TensorType& weight = request.operands[0].type;
  const Dims strides = weight.EffectiveStrides();
  if (weight.dims[1] > 1 && strides[1] != 1) return No{"rows have gaps"};
  const int64_t bytes = ElementBytes(weight.dtype);
  return FinishRows(request,
                    {.op = "aten.embedding",
                     .num_rows = weight.dims[0],
                     .num_indices = request.operands[1].type.num_elements(),
                     .row_bytes = weight.dims[1] * bytes,
                     .table_stride = strides[0] * bytes});
}

Verdict PrepareIndexSelect(const KernelRequest& request) {
  const TensorType& self = request.operands[0].type;
  if (!self.is_row_major() || self.rank() == 0) return No{"isn't row-major"};
  const int64_t given = request.Int(1);
  const int64_t axis = given < 0 ? given + self.rank() : given;
  RowsState state{.op = "aten.index_select",
                  .num_rows = self.dims[axis],
                  .num_indices = request.operands[1].type.num_elements(),
                  .row_bytes = ElementBytes(self.dtype)};
  for (int i = 0; i < axis; ++i) state.outer *= self.dims[i];
  for (int i = static_cast<int>(axis) + 1; i < self.rank(); ++i) {
    state.row_bytes *= self.dims[i];
  }
  state.table_stride = state.row_bytes;
  return FinishRows(request, state);
}

// x[rows], or x[:, rows], by one tensor of indices.
Verdict PrepareIndex(const KernelRequest& request) {
  const TensorType& self = request.operands[0].type;
  if (request.NumValues(1) != 1 || request.operands.size() != 2) {
    return No{"several index tensors"};
  }
  if (!self.is_row_major() || self.num_bytes() == 0) {
    return No{"isn't row-major"};
  }
  RowsState state{.op = "aten.index",
                  .num_indices = request.operands[1].type.num_elements(),
                  .counts_from_end = true};
  const int axis = IndexedAxis(request, 1);
  for (int i = 0; i < axis; ++i) state.outer *= self.dims[i];
  state.num_rows = self.dims[axis];
  state.row_bytes = self.num_bytes() / (state.outer * state.num_rows);
  state.table_stride = state.row_bytes;
  return FinishRows(request, state);
}

// Gather along the last axis; all else of one shape.
struct GatherState {
  PickFn pick = nullptr;
  int64_t element_bytes = 0;
  int64_t rows = 0, from = 0, to = 0;
  int num_threads = 1;
};

bool LaunchGather(const void* state, void* const* args,
                  LaunchContext& context) {
  const auto& s = *static_cast<const GatherState*>(state);
  const auto* x = static_cast<const char*>(args[0]);
  const auto* indices = static_cast<const int64_t*>(args[1]);
  auto* out = static_cast<char*>(args[2]);
  std::atomic<int64_t> outside = -1;
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t done = s.pick(x + row * s.from * s.element_bytes, s.from,
                                  indices + row * s.to, s.to,
                                  out + row * s.to * s.element_bytes);
      if (done == s.to) continue;
      outside = row * s.to + done;
      return;
    }
  });
  if (outside < 0) return true;
  return context.Fail(absl::InvalidArgumentError(
      absl::StrCat("aten.gather: index ", indices[outside],
                   " is out of range for ", s.from, " elements")));
}

Verdict PrepareGather(const KernelRequest& request) {
  const TensorType& self = request.operands[0].type;
  const TensorType& index = request.operands[1].type;
  const int rank = self.rank();
  const int64_t axis = request.Int(1);
  if (rank == 0 || (axis != rank - 1 && axis != -1)) {
    return No{"not along the last axis"};
  }
  if (!self.is_row_major() || !index.is_row_major() ||
      !request.results[0].type.is_row_major() || index.rank() != rank ||
      index.dtype != DType::kI64) {
    return No{"operands aren't row-major"};
  }
  GatherState state{
      .rows = 1,
      .from = self.dims.back(),
      .to = index.dims.back(),
      .num_threads = UsefulThreads(request.num_threads, index.num_elements())};
  for (int i = 0; i < rank - 1; ++i) {
    if (index.dims[i] != self.dims[i]) return No{"fewer rows than the operand"};
    state.rows *= self.dims[i];
  }
  state.element_bytes = ElementBytes(self.dtype);
  state.pick = PickOf(state.element_bytes);
  if (state.pick == nullptr) return No{"elements of more than 8 bytes"};
  Prepared prepared{.launch = LaunchGather};
  prepared.state = std::make_shared<const GatherState>(state);
  return prepared;
}

}  // namespace

absl::Status OutOfRange(absl::string_view op, int64_t index, int64_t num_rows) {
  return absl::InvalidArgumentError(absl::StrCat(
      op, ": index ", index, " is out of range for ", num_rows, " rows"));
}

int IndexedAxis(const KernelRequest& request, int param) {
  const auto& refs = std::get<ValueRefs>((*request.arguments)[param]);
  int axis = 0;
  while (refs[axis].id == kNoValue) ++axis;
  return axis;
}

void RegisterGathers(KernelRegistry& registry) {
  auto add = [&registry](absl::string_view op, absl::string_view name,
                         PrepareFn prepare) {
    registry.Add(op, kMovedTypes, KernelRank::kFast,
                 {std::string(name), std::move(prepare)});
  };
  add("aten.embedding", "cpu.embedding", PrepareEmbedding);
  add("aten.index_select", "cpu.rows", PrepareIndexSelect);
  add("aten.index.Tensor", "cpu.rows", PrepareIndex);
  add("aten.gather", "cpu.gather", PrepareGather);
}

}  // namespace mica::cpu
