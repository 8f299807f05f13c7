// Kernels that write the slices of a tensor that indices name: a copy of the
// whole, unless that may be written where it is, then one of each slice.

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/cpu/families.h"
#include "kernels/cpu/movement.h"
#include "kernels/reference/strided.h"

namespace mica::cpu {
namespace {

// Strides are in bytes. A slice is of one index on an axis, for each place of
// the axes before it: so many bytes without gaps.
struct State {
  const char* op = "";
  int64_t total_bytes = 0;
  int64_t num_rows = 0, row_bytes = 0;
  bool counts_from_end = false;    // Negative indices are legal.
  Dims outer_dims, outer_strides;  // Of the source.
  Dims index_dims, index_strides;  // Of the source.
};

// Writes the slices of one place of the axes before, whose source is at
// `source`; returns the first index that names none, null if all do. A slice
// is of kBytes bytes, or any number for 0.
template <typename Index, size_t kBytes>
const Index* WriteSlices(const State& s, const Index* index, const char* source,
                         char* out) {
  const size_t bytes = kBytes == 0 ? static_cast<size_t>(s.row_bytes) : kBytes;
  const auto write = [&](Index given, const char* from) {
    int64_t row = given;
    if (s.counts_from_end && row < 0) row += s.num_rows;
    if (row < 0 || row >= s.num_rows) return false;
    std::memcpy(out + row * static_cast<int64_t>(bytes), from, bytes);
    return true;
  };
  if (s.index_dims.size() == 1) {
    const int64_t step = s.index_strides[0];
    for (int64_t i = 0; i < s.index_dims[0]; ++i, ++index, source += step) {
      if (!write(*index, source)) return index;
    }
    return nullptr;
  }
  for (Odometer at(s.index_dims, {s.index_strides}); !at.done();
       at.Next(), ++index) {
    if (!write(*index, source + at.offset(0))) return index;
  }
  return nullptr;
}

template <typename Index, size_t kBytes>
bool LaunchRowWrites(const void* state, void* const* args,
                     LaunchContext& context) {
  const auto& s = *static_cast<const State*>(state);
  const auto* self = static_cast<const char*>(args[0]);
  const auto* indices = static_cast<const Index*>(args[1]);
  const auto* source = static_cast<const char*>(args[2]);
  auto* out = static_cast<char*>(args[3]);
  if (self != out && s.total_bytes > 0) {
    std::memcpy(out, self, static_cast<size_t>(s.total_bytes));
  }
  for (Odometer outer(s.outer_dims, {s.outer_strides}); !outer.done();
       outer.Next(), out += s.num_rows * s.row_bytes) {
    const Index* const outside =
        WriteSlices<Index, kBytes>(s, indices, source + outer.offset(0), out);
    if (outside != nullptr) {
      return context.Fail(OutOfRange(s.op, *outside, s.num_rows));
    }
  }
  return true;
}

template <typename Index>
LaunchFn LaunchOf(int64_t row_bytes) {
  switch (row_bytes) {
    case 1:
      return LaunchRowWrites<Index, 1>;
    case 2:
      return LaunchRowWrites<Index, 2>;
    case 4:
      return LaunchRowWrites<Index, 4>;
    case 8:
      return LaunchRowWrites<Index, 8>;
    default:
      return LaunchRowWrites<Index, 0>;
  }
}

// Slices along `axis` of self, operand 0, which operand 1 names, become those
// of the source, `param`, broadcast.
Verdict PrepareRows(const KernelRequest& request, int axis, int param,
                    State state) {
  const TensorType& self = request.operands[0].type;
  const TensorType& index = request.operands[1].type;
  const Lane source = OperandLane(request, param);
  if (!self.is_row_major() || !(request.results[0].type == self)) {
    return No{"self or the result isn't row-major"};
  }
  if (!request.results[0].is_used) return No{"nobody reads it"};
  if (!index.is_row_major()) return No{"the indices aren't row-major"};
  if (source.dtype != self.dtype) return No{"the source converts"};
  const int rank = self.rank();
  const int num_indexed = index.rank();
  Dims dims(self.dims.begin(), self.dims.begin() + axis);
  dims.insert(dims.end(), index.dims.begin(), index.dims.end());
  dims.insert(dims.end(), self.dims.begin() + axis + 1, self.dims.end());
  Dims strides = BroadcastStrides(source, dims);
  const int64_t bytes = ElementBytes(self.dtype);
  // What a slice is of must lie there as one.
  int64_t inner = 1;
  for (int i = rank - 1; i > axis; --i) {
    const int64_t stride = strides[i - 1 + num_indexed];
    if (self.dims[i] > 1 && stride != inner) return No{"slices have gaps"};
    inner *= self.dims[i];
  }
  for (int64_t& stride : strides) stride *= bytes;
  state.total_bytes = self.num_bytes();
  state.num_rows = self.dims[axis];
  state.row_bytes = inner * bytes;
  state.outer_dims.assign(dims.begin(), dims.begin() + axis);
  state.outer_strides.assign(strides.begin(), strides.begin() + axis);
  state.index_dims = index.dims;
  state.index_strides.assign(strides.begin() + axis,
                             strides.begin() + axis + num_indexed);
  Prepared prepared;
  if (index.dtype == DType::kI64) {
    prepared.launch = LaunchOf<int64_t>(state.row_bytes);
  } else if (index.dtype == DType::kI32) {
    prepared.launch = LaunchOf<int32_t>(state.row_bytes);
  } else {
    return No{"indices are neither i64 nor i32"};
  }
  prepared.inplace_operands = 1;
  prepared.state = std::make_shared<const State>(std::move(state));
  return prepared;
}

Verdict PrepareIndexCopy(const KernelRequest& request) {
  const int rank = request.operands[0].type.rank();
  if (rank == 0) return No{"a tensor without axes"};
  const auto axis = static_cast<int>(request.Int(1));
  if (request.operands[1].type.rank() == 0) return No{"a single index"};
  return PrepareRows(request, axis < 0 ? axis + rank : axis, /*param=*/3,
                     {.op = "aten.index_copy"});
}

// x[:, rows] = y by one tensor of indices.
Verdict PrepareIndexPut(const KernelRequest& request) {
  if (request.Bool(3)) return No{"it adds"};
  if (request.NumValues(1) != 1) return No{"several index tensors"};
  return PrepareRows(request, IndexedAxis(request, 1), /*param=*/2,
                     {.op = "aten.index_put", .counts_from_end = true});
}

}  // namespace

void RegisterRowWrites(KernelRegistry& registry) {
  registry.Add("aten.index_copy", kMovedTypes, KernelRank::kFast,
               {"cpu.row_write", PrepareIndexCopy});
  registry.Add("aten.index_put", kMovedTypes, KernelRank::kFast,
               {"cpu.row_write", PrepareIndexPut});
}

}  // namespace mica::cpu
