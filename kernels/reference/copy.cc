// Copies of tensors: joined, repeated, reordered, padded.

#include <vector>

#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// Copies one element, converted to the target's dtype.
void CopyElement(const Lane& from, int64_t from_at, const Lane& to,
                 int64_t to_at, void* const* args) {
  if (to.dtype == DType::kBool) {
    to.Store<int64_t>(args, to_at, from.LoadTruth(args, from_at));
  } else if (IsFloating(from.dtype)) {
    to.Store(args, to_at, from.Load<double>(args, from_at));
  } else {
    to.Store(args, to_at, from.Load<int64_t>(args, from_at));
  }
}

// One tensor and the window of the result that it fills.
struct Part {
  Lane from;
  Dims to_strides;  // Over the dims of `from`.
  int64_t to_offset = 0;
};

Prepared CopyParts(std::vector<Part> parts, Lane out) {
  return RunBody([parts = std::move(parts), out = std::move(out)](
                     void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (const Part& part : parts) {
      for (Odometer at(part.from.dims, {part.from.strides, part.to_strides});
           !at.done(); at.Next()) {
        CopyElement(part.from, at.offset(0), out, part.to_offset + at.offset(1),
                    args);
      }
    }
    return true;
  });
}

Verdict PrepareCat(const KernelRequest& request) {
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(1), out.rank());
  std::vector<Part> parts;
  int64_t offset = 0;
  for (int i = 0; i < request.NumValues(0); ++i) {
    Lane from = OperandLane(request, 0, i);
    // torch takes an empty list beside tensors of any rank.
    if (from.rank() != out.rank()) continue;
    const int64_t extent = from.dims[axis] * out.strides[axis];
    parts.push_back({.from = std::move(from),
                     .to_strides = out.strides,
                     .to_offset = offset});
    offset += extent;
  }
  return CopyParts(std::move(parts), out);
}

Verdict PrepareStack(const KernelRequest& request) {
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(1), out.rank());
  Dims strides = out.strides;
  strides.erase(strides.begin() + axis);
  std::vector<Part> parts;
  for (int i = 0; i < request.NumValues(0); ++i) {
    parts.push_back({.from = OperandLane(request, 0, i),
                     .to_strides = strides,
                     .to_offset = i * out.strides[axis]});
  }
  return CopyParts(std::move(parts), out);
}

// The result's element at an index is the operand's at `map(index)`; -1 in
// its place means the number `fill`.
Prepared CopyMapped(
    const KernelRequest& request, int64_t fill,
    std::function<int64_t(absl::Span<const int64_t> index)> map) {
  const Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  return RunBody([=, map = std::move(map)](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
      const int64_t from = map(at.index());
      if (from < 0) {
        out.Store(args, at.offset(0), fill);
      } else {
        CopyElement(in, from, out, at.offset(0), args);
      }
    }
    return true;
  });
}

// The offset in `in` of an index of its own, or of one with axes before.
int64_t OffsetOf(const Lane& in, absl::Span<const int64_t> index) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * in.strides[i];
  return offset;
}

Verdict PrepareRepeat(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const int added = ResultLane(request).rank() - in.rank();
  return CopyMapped(request, 0, [=](absl::Span<const int64_t> index) {
    int64_t offset = 0;
    for (int i = 0; i < in.rank(); ++i) {
      offset += index[i + added] % in.dims[i] * in.strides[i];
    }
    return offset;
  });
}

Verdict PrepareFlip(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  absl::InlinedVector<bool, 5> is_flipped(std::max(in.rank(), 1), false);
  for (int64_t axis : request.Ints(1)) {
    is_flipped[AxisIndex(axis, in.rank())] = true;
  }
  return CopyMapped(request, 0, [=](absl::Span<const int64_t> index) {
    int64_t offset = 0;
    for (int i = 0; i < in.rank(); ++i) {
      const int64_t at = is_flipped[i] ? in.dims[i] - 1 - index[i] : index[i];
      offset += at * in.strides[i];
    }
    return offset;
  });
}

// `number` in row-major order as an offset of `lane`.
int64_t OffsetOfNumber(const Lane& lane, int64_t number) {
  int64_t offset = 0;
  for (int i = lane.rank() - 1; i >= 0; --i) {
    offset += number % lane.dims[i] * lane.strides[i];
    number /= lane.dims[i];
  }
  return offset;
}

int64_t NumberOf(const Lane& lane, absl::Span<const int64_t> index) {
  int64_t number = 0;
  for (int i = 0; i < lane.rank(); ++i) {
    number = number * lane.dims[i] + index[i];
  }
  return number;
}

// `index` less `shift`, wrapped into [0, size).
int64_t Rolled(int64_t index, int64_t shift, int64_t size) {
  const int64_t rest = (index - shift % size) % size;
  return rest < 0 ? rest + size : rest;
}

Verdict PrepareRoll(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const std::vector<int64_t> given(request.Ints(1).begin(),
                                   request.Ints(1).end());
  if (request.Ints(2).empty()) {
    return CopyMapped(request, 0, [=](absl::Span<const int64_t> index) {
      const int64_t number =
          Rolled(NumberOf(in, index), given[0], in.num_elements());
      return OffsetOfNumber(in, number);
    });
  }
  Dims shifts(std::max(in.rank(), 1), 0);
  for (size_t i = 0; i < given.size(); ++i) {
    Dim& shift = shifts[AxisIndex(request.Ints(2)[i], in.rank())];
    const int64_t size =
        in.rank() == 0 ? 1 : in.dims[AxisIndex(request.Ints(2)[i], in.rank())];
    if (size > 0) shift = (shift + given[i] % size) % size;
  }
  return CopyMapped(request, 0, [=](absl::Span<const int64_t> index) {
    int64_t offset = 0;
    for (int i = 0; i < in.rank(); ++i) {
      offset += Rolled(index[i], shifts[i], in.dims[i]) * in.strides[i];
    }
    return offset;
  });
}

// Keeps the elements for which column - row - diagonal has the sign wanted.
Verdict PrepareTriangle(const KernelRequest& request, int sign) {
  const Lane in = OperandLane(request, 0);
  const int64_t diagonal = request.Int(1);
  return CopyMapped(request, 0, [=](absl::Span<const int64_t> index) {
    const int64_t gap = index[index.size() - 1] - index[index.size() - 2];
    const bool is_kept = sign > 0 ? gap >= diagonal : gap <= diagonal;
    return is_kept ? OffsetOf(in, index) : -1;
  });
}

Verdict PreparePad(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  const bool is_value = request.OperandIndex(2) >= 0;
  const Lane value = is_value ? OperandLane(request, 2) : Lane();
  const double fill = is_value ? 0 : request.Number(2);
  Dims before(in.rank(), 0);
  for (size_t i = 0; i < request.Ints(1).size() / 2; ++i) {
    before[in.rank() - 1 - static_cast<int>(i)] = request.Ints(1)[2 * i];
  }
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
      int64_t from = 0;
      bool is_inside = true;
      for (int i = 0; i < in.rank(); ++i) {
        const int64_t index = at.index()[i] - before[i];
        is_inside = is_inside && index >= 0 && index < in.dims[i];
        from += index * in.strides[i];
      }
      if (is_inside) {
        CopyElement(in, from, out, at.offset(0), args);
      } else if (is_value) {
        CopyElement(value, 0, out, at.offset(0), args);
      } else {
        out.Store(args, at.offset(0), fill);
      }
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceCopies(KernelRegistry& registry) {
  AddReference(registry, "mica.keep", [](const KernelRequest&) {
    return RunBody([](void* const*, LaunchContext&) { return true; });
  });
  AddReference(registry, "aten.cat", PrepareCat);
  AddReference(registry, "aten.stack", PrepareStack);
  AddReference(registry, "aten.repeat", PrepareRepeat);
  AddReference(registry, "aten.flip", PrepareFlip);
  AddReference(registry, "aten.roll", PrepareRoll);
  AddReference(registry, "aten.constant_pad_nd", PreparePad);
  AddReference(registry, "aten.tril", [](const KernelRequest& request) {
    return PrepareTriangle(request, -1);
  });
  AddReference(registry, "aten.triu", [](const KernelRequest& request) {
    return PrepareTriangle(request, 1);
  });
}

}  // namespace mica
