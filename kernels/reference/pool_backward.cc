// Pooling over parts of a plane, and gradients of pooling.

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/reference/accumulator.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

Dims Entries(absl::Span<const int64_t> list) {
  if (list.size() == 1) return Dims(2, list[0]);
  return Dims(list.begin(), list.end());
}

// The offset of the plane that an index lies in.
int64_t PlaneOf(absl::Span<const int64_t> index, const Dims& strides) {
  int64_t offset = 0;
  for (size_t i = 0; i + 2 < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

// Adds each gradient at the place in its plane that `indices` names.
Verdict PrepareByIndices(const KernelRequest& request, int indices_param) {
  const Lane grad = OperandLane(request, 0);
  const Lane indices = OperandLane(request, indices_param);
  const Lane out = ResultLane(request);
  const std::string op = request.def->name();
  return RunBody([=](void* const* args, LaunchContext& context) {
    if (out.IsUnused(args)) return true;
    Accumulator sums(out);
    const int rank = out.rank();
    const int64_t pixels = out.dims[rank - 2] * out.dims[rank - 1];
    for (Odometer at(grad.dims, {grad.strides, indices.strides}); !at.done();
         at.Next()) {
      const int64_t place = indices.Load<int64_t>(args, at.offset(1));
      if (place < 0 || place >= pixels) {
        return context.Fail(absl::InvalidArgumentError(
            absl::StrCat(op, ": index ", place, " is outside of its plane")));
      }
      sums.Add(PlaneOf(at.index(), sums.strides()) + place,
               grad.Load<double>(args, at.offset(0)));
    }
    sums.Store(args);
    return true;
  });
}

// Pixels first..second of one axis.
using Part = std::pair<int64_t, int64_t>;

// Spreads each gradient over the pixels that `rows` and `columns` give for its
// index, divided by `count(rows, columns)` of that index.
template <typename Rows, typename Columns, typename Count>
void Spread(const Lane& grad, const Lane& out, void* const* args,
            const Rows& rows, const Columns& columns, const Count& count) {
  Accumulator sums(out);
  const int rank = out.rank();
  for (Odometer at(grad.dims, {grad.strides}); !at.done(); at.Next()) {
    const int64_t row = at.index()[rank - 2], column = at.index()[rank - 1];
    const Part r = rows(row), c = columns(column);
    const double share = grad.Load<double>(args, at.offset(0)) /
                         static_cast<double>(count(row, column, r, c));
    const int64_t plane = PlaneOf(at.index(), sums.strides());
    for (int64_t i = r.first; i < r.second; ++i) {
      for (int64_t j = c.first; j < c.second; ++j) {
        sums.Add(plane + i * out.dims[rank - 1] + j, share);
      }
    }
  }
  sums.Store(args);
}

Verdict PrepareAveragePoolBackward(const KernelRequest& request) {
  const Lane grad = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  const Dims kernel = Entries(request.Ints(2));
  const Dims stride =
      request.Ints(3).empty() ? kernel : Entries(request.Ints(3));
  const Dims padding = Entries(request.Ints(4));
  const bool counts_padding = request.Bool(6);
  const int64_t divisor = request.Has(7) ? request.Int(7) : 0;
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    auto start = [&](int axis, int64_t place) {
      return place * stride[axis] - padding[axis];
    };
    auto size = [&](int axis) { return out.dims[out.rank() - 2 + axis]; };
    // The window's end within the padding.
    auto end = [&](int axis, int64_t place) {
      return std::min(start(axis, place) + kernel[axis],
                      size(axis) + padding[axis]);
    };
    auto part = [&](int axis, int64_t place) {
      return Part(std::max<int64_t>(start(axis, place), 0),
                  std::min(end(axis, place), size(axis)));
    };
    Spread(
        grad, out, args, [&](int64_t i) { return part(0, i); },
        [&](int64_t i) { return part(1, i); },
        [&](int64_t row, int64_t column, Part r, Part c) {
          if (divisor != 0) return divisor;
          if (!counts_padding) {
            return (r.second - r.first) * (c.second - c.first);
          }
          return (end(0, row) - start(0, row)) *
                 (end(1, column) - start(1, column));
        });
    return true;
  });
}

// Part i of n: from floor(i·size/n) up to ceil((i+1)·size/n).
Part PartOf(int64_t size, int64_t parts, int64_t i) {
  return {i * size / parts, ((i + 1) * size + parts - 1) / parts};
}

Verdict PrepareAdaptivePoolBackward(const KernelRequest& request) {
  const Lane grad = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    auto part = [&](int from_end, int64_t i) {
      return PartOf(out.dims[out.rank() - from_end],
                    grad.dims[grad.rank() - from_end], i);
    };
    Spread(
        grad, out, args, [&](int64_t i) { return part(2, i); },
        [&](int64_t i) { return part(1, i); },
        [](int64_t, int64_t, Part r, Part c) {
          return (r.second - r.first) * (c.second - c.first);
        });
    return true;
  });
}

Verdict PrepareAdaptiveMaxPool(const KernelRequest& request) {
  const Lane in = OperandLane(request, 0);
  const Lane outs[] = {ResultLane(request, 0), ResultLane(request, 1)};
  const Lane out = outs[0], indices = outs[1];
  return RunBody([=](void* const* args, LaunchContext&) {
    const int rank = in.rank();
    const int64_t columns = in.dims[rank - 1];
    for (Odometer at(out.dims, {out.strides, indices.strides}); !at.done();
         at.Next()) {
      const Part r =
          PartOf(in.dims[rank - 2], out.dims[rank - 2], at.index()[rank - 2]);
      const Part c = PartOf(columns, out.dims[rank - 1], at.index()[rank - 1]);
      double best = -std::numeric_limits<double>::infinity();
      int64_t place = r.first * columns + c.first;
      for (int64_t i = r.first; i < r.second; ++i) {
        for (int64_t j = c.first; j < c.second; ++j) {
          const double x = in.Load<double>(
              args, PlaneOf(at.index(), in.strides) + i * in.strides[rank - 2] +
                        j * in.strides[rank - 1]);
          if (!(x > best) && !IsNan(x)) continue;
          best = x;
          place = i * columns + j;
        }
      }
      if (!out.IsUnused(args)) out.Store(args, at.offset(0), best);
      if (!indices.IsUnused(args)) indices.Store(args, at.offset(1), place);
    }
    return true;
  });
}

}  // namespace

void RegisterReferencePoolBackward(KernelRegistry& registry) {
  AddReference(registry, "aten.max_pool2d_with_indices_backward",
               [](const KernelRequest& request) {
                 return PrepareByIndices(request, 7);
               });
  AddReference(registry, "aten.adaptive_max_pool2d_backward",
               [](const KernelRequest& request) {
                 return PrepareByIndices(request, 2);
               });
  AddReference(registry, "aten.avg_pool2d_backward",
               PrepareAveragePoolBackward);
  AddReference(registry, "aten._adaptive_avg_pool2d_backward",
               PrepareAdaptivePoolBackward);
  AddReference(registry, "aten.adaptive_max_pool2d", PrepareAdaptiveMaxPool);
}

}  // namespace mica
