// Copies of a tensor with some elements replaced.

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/reference/accumulator.h"
#include "kernels/reference/indexing.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"
#include "kernels/reference/window.h"

namespace mica {
namespace {

void CopyAll(const Lane& from, const Lane& to, void* const* args) {
  if (args[from.arg] == args[to.arg]) return;  // It is written where it is.
  for (Odometer at(from.dims, {from.strides, to.strides}); !at.done();
       at.Next()) {
    if (IsFloating(from.dtype)) {
      to.Store(args, at.offset(1), from.Load<double>(args, at.offset(0)));
    } else {
      to.Store(args, at.offset(1), from.Load<int64_t>(args, at.offset(0)));
    }
  }
}

// Has the result written where self, operand 0, is, if it lies alike.
Prepared InPlaceOfSelf(const KernelRequest& request, Prepared prepared) {
  const TensorType& self = request.operands[0].type;
  const TensorType& result = request.results[0].type;
  if (self == result) prepared.inplace_operands = 1;
  return prepared;
}

// What a written element becomes.
enum class Combine : uint8_t { kReplace, kAdd, kMultiply, kMax, kMin };

template <typename C>
C Combined(Combine combine, C old, C given) {
  switch (combine) {
    case Combine::kReplace:
      return given;
    case Combine::kAdd:
      return Sum(old, given);
    case Combine::kMultiply:
      return Product(old, given);
    case Combine::kMax:
      return Larger(old, given);
    case Combine::kMin:
      return Smaller(old, given);
  }
  return given;
}

// Writes `source`'s element at `from` on the result's at `to`.
void Write(Combine combine, const Lane& source, int64_t from, const Lane& out,
           int64_t to, void* const* args) {
  if (out.dtype == DType::kBool && !IsFloating(source.dtype)) {
    const int64_t given = source.LoadTruth(args, from);
    out.Store(args, to, Combined(combine, out.Load<int64_t>(args, to), given));
  } else if (IsFloating(out.dtype) || IsFloating(source.dtype)) {
    out.Store(args, to,
              Combined(combine, out.Load<double>(args, to),
                       source.Load<double>(args, from)));
  } else {
    out.Store(args, to,
              Combined(combine, out.Load<int64_t>(args, to),
                       source.Load<int64_t>(args, from)));
  }
}

// A value parameter, or a constant number stored in the state.
struct Source {
  bool is_value = false;
  Lane lane;
  double number = 0;
  int64_t integer = 0;

  // Of a single number.
  double Real(void* const* args) const {
    return is_value ? lane.Load<double>(args, 0) : number;
  }
  int64_t Integer(void* const* args) const {
    return is_value ? lane.Load<int64_t>(args, 0) : integer;
  }
};

// A body that adds to elements of the result: see WithWideResult.
using SumBody = std::function<bool(const Lane& out, void* const* args,
                                   LaunchContext& context)>;
Prepared SummedBody(const KernelRequest& request, SumBody body) {
  const Lane result = ResultLane(request);
  return InPlaceOfSelf(
      request, RunBody([result, body = std::move(body)](
                           void* const* args, LaunchContext& context) {
        if (result.IsUnused(args)) return true;
        return WithWideResult(result, args,
                              [&](const Lane& out, void* const* wide_args) {
                                return body(out, wide_args, context);
                              });
      }));
}

Source MakeSource(const KernelRequest& request, int param) {
  Source source = {.is_value = request.OperandIndex(param) >= 0};
  if (source.is_value) {
    source.lane = OperandLane(request, param);
  } else {
    source.number = request.Number(param);
    const auto* integer = std::get_if<int64_t>(&(*request.arguments)[param]);
    source.integer =
        integer != nullptr ? *integer : ConvertNumber<int64_t>(source.number);
  }
  return source;
}

void WriteSource(Combine combine, const Source& source, int64_t from,
                 const Lane& out, int64_t to, void* const* args) {
  if (source.is_value) {
    Write(combine, source.lane, from, out, to, args);
  } else if (IsFloating(out.dtype) || out.dtype == DType::kBool) {
    out.Store(args, to, source.number);
  } else {
    out.Store(args, to, source.integer);
  }
}

// Strides over the dims of `index`; a tensor without dims has 0.
Dims StridesLike(const Lane& lane, const Lane& index) {
  Dims strides = lane.strides;
  strides.resize(index.rank(), 0);
  return strides;
}

// scatter and its relatives: parameters self, dim, index, source.
Prepared ScatterAlong(const KernelRequest& request, Combine combine) {
  const Lane self = OperandLane(request, 0);
  const Lane index = OperandLane(request, 2);
  const Source source = MakeSource(request, 3);
  const Lane result = ResultLane(request);
  const int axis = AxisIndex(request.Int(1), self.rank());
  const AxisLane along = SplitAxis(result, axis);
  Dims out_strides = StridesLike(result, index);
  if (axis < index.rank()) out_strides[axis] = 0;
  const Dims source_strides = source.is_value && source.lane.rank() > 0
                                  ? StridesLike(source.lane, index)
                                  : Dims(index.rank(), 0);
  const std::string op = request.def->name();
  return SummedBody(request, [=](const Lane& out, void* const* args,
                                 LaunchContext& context) {
    CopyAll(self, out, args);
    for (Odometer at(index.dims, {index.strides, out_strides, source_strides});
         !at.done(); at.Next()) {
      int64_t chosen = index.Load<int64_t>(args, at.offset(0));
      if (!CheckIndex(op, chosen, along.size, Negative::kIllegal, context)) {
        return false;
      }
      WriteSource(combine, source, at.offset(2), out,
                  at.offset(1) + chosen * along.stride, args);
    }
    return true;
  });
}

// Like ScatterAlong, but all that lands on an element is gathered first, with
// the element itself if `include_self`.
Verdict PrepareScatterReduce(const KernelRequest& request) {
  const Lane self = OperandLane(request, 0);
  const Lane index = OperandLane(request, 2);
  const Lane source = OperandLane(request, 3);
  const Lane result = ResultLane(request);
  const std::string reduce = request.String(4);
  const bool include_self = request.Bool(5);
  const int axis = AxisIndex(request.Int(1), self.rank());
  const AxisLane along = SplitAxis(result, axis);
  Dims out_strides = StridesLike(result, index);
  if (axis < index.rank()) out_strides[axis] = 0;
  const Combine combine = reduce == "prod"   ? Combine::kMultiply
                          : reduce == "amax" ? Combine::kMax
                          : reduce == "amin" ? Combine::kMin
                                             : Combine::kAdd;
  const Dims source_strides = StridesLike(source, index);
  const std::string op = request.def->name();
  const int64_t extent =
      request.results[0].type.extent_bytes() / ElementBytes(result.dtype);
  return SummedBody(request, [=](const Lane& out, void* const* args,
                                 LaunchContext& context) {
    CopyAll(self, out, args);
    std::vector<int64_t> counts(extent, include_self ? 1 : 0);
    for (Odometer at(index.dims, {index.strides, out_strides, source_strides});
         !at.done(); at.Next()) {
      int64_t chosen = index.Load<int64_t>(args, at.offset(0));
      if (!CheckIndex(op, chosen, along.size, Negative::kIllegal, context)) {
        return false;
      }
      const int64_t to = at.offset(1) + chosen * along.stride;
      const bool is_first = counts[to]++ == 0;
      Write(is_first ? Combine::kReplace : combine, source, at.offset(2), out,
            to, args);
    }
    if (reduce != "mean") return true;
    for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
      const int64_t count = counts[at.offset(0)];
      if (count < 2) continue;
      if (IsFloating(out.dtype)) {
        out.Store(args, at.offset(0),
                  out.Load<double>(args, at.offset(0)) / count);
      } else {
        out.Store(
            args, at.offset(0),
            FlooredQuotient(out.Load<int64_t>(args, at.offset(0)), count));
      }
    }
    return true;
  });
}

// index_add, index_copy, index_fill: whole slices along an axis.
Verdict PrepareIndexWrite(const KernelRequest& request, Combine combine) {
  const Lane self = OperandLane(request, 0);
  const Lane index = OperandLane(request, 2);
  const Source source = MakeSource(request, 3);
  const Lane result = ResultLane(request);
  Source alpha = {.number = 1, .integer = 1};
  if (combine == Combine::kAdd) alpha = MakeSource(request, 4);
  const int axis = AxisIndex(request.Int(1), self.rank());
  const AxisLane along = SplitAxis(result, axis);
  const int64_t index_stride = index.rank() > 0 ? index.strides[0] : 0;
  const int64_t count = index.num_elements();
  const bool is_slice = source.is_value && source.lane.rank() > 0;
  const AxisLane given =
      is_slice && self.rank() > 0 ? SplitAxis(source.lane, axis) : AxisLane();
  const Dims given_strides = is_slice && self.rank() > 0
                                 ? given.outer.strides
                                 : Dims(along.outer.rank(), 0);
  const std::string op = request.def->name();
  return SummedBody(request, [=](const Lane& out, void* const* args,
                                 LaunchContext& context) {
    CopyAll(self, out, args);
    const double factor = alpha.Real(args);
    for (int64_t i = 0; i < count; ++i) {
      int64_t chosen = index.Load<int64_t>(args, i * index_stride);
      if (!CheckIndex(op, chosen, along.size, Negative::kLegal, context)) {
        return false;
      }
      for (Odometer at(along.outer.dims, {along.outer.strides, given_strides});
           !at.done(); at.Next()) {
        const int64_t to = at.offset(0) + chosen * along.stride;
        const int64_t from = at.offset(1) + i * given.stride;
        if (factor == 1) {
          WriteSource(combine, source, from, out, to, args);
        } else if (IsFloating(out.dtype)) {
          out.Store(args, to,
                    out.Load<double>(args, to) +
                        factor * source.lane.Load<double>(args, from));
        } else {
          out.Store(args, to,
                    Sum(out.Load<int64_t>(args, to),
                        Product(alpha.Integer(args),
                                source.lane.Load<int64_t>(args, from))));
        }
      }
    }
    return true;
  });
}

// A tensor's axes around those that a mask is for.
struct MaskedAxes {
  int lead = 0;   // How many come before the mask's.
  int after = 0;  // The first one behind them.

  // `list` with `chosen` in place of the mask's axes.
  Dims Replace(const Dims& list, int64_t chosen) const {
    Dims replaced(list.begin(), list.begin() + lead);
    replaced.push_back(chosen);
    replaced.insert(replaced.end(), list.begin() + after, list.end());
    return replaced;
  }
};

// Where a mask holds, in elements of `out`, in row-major order.
std::vector<int64_t> ChosenOffsets(const Lane& mask, const Lane& out, int lead,
                                   void* const* args) {
  std::vector<int64_t> offsets;
  const Dims strides(out.strides.begin() + lead,
                     out.strides.begin() + lead + mask.rank());
  for (Odometer at(mask.dims, {mask.strides, strides}); !at.done(); at.Next()) {
    if (mask.LoadTruth(args, at.offset(0))) offsets.push_back(at.offset(1));
  }
  return offsets;
}

// Every element that the one mask holds for.
Prepared PutByMask(const KernelRequest& request, Combine combine) {
  const Lane self = OperandLane(request, 0);
  const Lane mask = OperandLane(request, 1);
  const Lane values = OperandLane(request, 2);
  const auto& refs = std::get<ValueRefs>((*request.arguments)[1]);
  MaskedAxes axes;
  while (refs[axes.lead].id == kNoValue) ++axes.lead;
  axes.after = axes.lead + mask.rank();
  // The values' axis along the chosen elements; below 0 if they lack it.
  const int place = values.rank() - (self.rank() - axes.after) - 1;
  const std::string op = request.def->name();
  return SummedBody(request, [=](const Lane& out, void* const* args,
                                 LaunchContext& context) {
    CopyAll(self, out, args);
    const std::vector<int64_t> chosen =
        ChosenOffsets(mask, out, axes.lead, args);
    const int64_t count = static_cast<int64_t>(chosen.size());
    if (place >= 0 && values.dims[place] != 1 && values.dims[place] != count) {
      return context.Fail(absl::InvalidArgumentError(
          absl::StrCat(op, ": shape mismatch: ", values.dims[place],
                       " values for ", count, " elements")));
    }
    const Dims dims = axes.Replace(out.dims, count);
    for (Odometer at(dims, {axes.Replace(out.strides, 0),
                            BroadcastStrides(values, dims)});
         !at.done(); at.Next()) {
      const int64_t to = at.offset(0) + chosen[at.index()[axes.lead]];
      Write(combine, values, at.offset(1), out, to, args);
    }
    return true;
  });
}

Verdict PrepareIndexPut(const KernelRequest& request) {
  const Lane self = OperandLane(request, 0);
  const Lane result = ResultLane(request);
  const Lane values = OperandLane(request, 2);
  const Combine combine = request.Bool(3) ? Combine::kAdd : Combine::kReplace;
  const DType index_dtype = OperandLane(request, 1).dtype;
  if (index_dtype == DType::kBool || index_dtype == DType::kU8) {
    return PutByMask(request, combine);
  }
  const IndexedWalk walk(request, 1, result);
  std::vector<Dims> strides = {walk.self_strides(),
                               BroadcastStrides(values, walk.dims())};
  strides.insert(strides.end(), walk.index_strides().begin(),
                 walk.index_strides().end());
  return SummedBody(
      request, [=](const Lane& out, void* const* args, LaunchContext& context) {
        CopyAll(self, out, args);
        for (Odometer at(walk.dims(), strides); !at.done(); at.Next()) {
          int64_t to = at.offset(0);
          if (!walk.Locate(args, at, 2, to, context)) return false;
          Write(combine, values, at.offset(1), out, to, args);
        }
        return true;
      });
}

// Finds in the run where a window begins.
using FindOffset = std::function<bool(void* const* args, int64_t* offset,
                                      LaunchContext& context)>;
Prepared WriteWindow(const KernelRequest& request, const Window& window,
                     FindOffset find_offset = nullptr) {
  const Lane self = OperandLane(request, 0);
  const Lane src = OperandLane(request, 1);
  const Lane out = ResultLane(request);
  const Dims src_strides = BroadcastStrides(src, window.dims);
  return InPlaceOfSelf(
      request, RunBody([=](void* const* args, LaunchContext& context) {
        int64_t offset = window.offset;
        if (find_offset && !find_offset(args, &offset, context)) return false;
        if (out.IsUnused(args)) return true;
        CopyAll(self, out, args);
        for (Odometer at(window.dims, {src_strides, window.strides});
             !at.done(); at.Next()) {
          Write(Combine::kReplace, src, at.offset(0), out,
                offset + at.offset(1), args);
        }
        return true;
      }));
}

Verdict PrepareWriteWindowAt(const KernelRequest& request) {
  if (!(request.operands[0].type == request.results[0].type)) {
    return No{"the result's strides are not the base's"};
  }
  const MovedWindow moved(request, 4);
  return WriteWindow(
      request, moved.window(),
      [moved](void* const* args, int64_t* offset, LaunchContext& context) {
        return moved.Locate(args, offset, context);
      });
}

Verdict PrepareWindowAt(const KernelRequest& request) {
  Lane base = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  const MovedWindow moved(request, 3);
  base.dims = moved.window().dims;
  base.strides = moved.window().strides;
  return RunBody([=](void* const* args, LaunchContext& context) {
    int64_t offset = 0;
    if (!moved.Locate(args, &offset, context)) return false;
    if (out.IsUnused(args)) return true;
    for (Odometer at(base.dims, {base.strides, out.strides}); !at.done();
         at.Next()) {
      Write(Combine::kReplace, base, offset + at.offset(0), out, at.offset(1),
            args);
    }
    return true;
  });
}

// A scatter through the view that `place` gives.
PrepareFn ScatterThrough(Window (*place)(const KernelRequest&)) {
  return [place](const KernelRequest& request) -> Verdict {
    return WriteWindow(request, place(request));
  };
}

Verdict PrepareScatterView(const KernelRequest& request) {
  const TensorType& base = request.operands[0].type;
  if (!(base == request.results[0].type)) {
    return No{"the result's strides are not the base's"};
  }
  return WriteWindow(
      request, {.dims = Dims(request.Ints(2).begin(), request.Ints(2).end()),
                .strides = Dims(request.Ints(3).begin(), request.Ints(3).end()),
                .offset = request.Int(4)});
}

void AddScatter(KernelRegistry& registry, absl::string_view op,
                Combine combine) {
  AddReference(registry, op,
               [combine](const KernelRequest& request) -> Verdict {
                 return ScatterAlong(request, combine);
               });
}

void AddIndexWrite(KernelRegistry& registry, absl::string_view op,
                   Combine combine) {
  AddReference(registry, op, [combine](const KernelRequest& request) {
    return PrepareIndexWrite(request, combine);
  });
}

}  // namespace

void RegisterReferenceScatter(KernelRegistry& registry) {
  AddScatter(registry, "aten.scatter.src", Combine::kReplace);
  AddScatter(registry, "aten.scatter.value", Combine::kReplace);
  AddScatter(registry, "aten.scatter_add", Combine::kAdd);
  AddReference(registry, "aten.scatter_reduce.two", PrepareScatterReduce);
  AddIndexWrite(registry, "aten.index_add", Combine::kAdd);
  AddIndexWrite(registry, "aten.index_copy", Combine::kReplace);
  AddIndexWrite(registry, "aten.index_fill.int_Scalar", Combine::kReplace);
  AddReference(registry, "aten.index_put", PrepareIndexPut);
  AddReference(registry, "mica.window_at", PrepareWindowAt);
  AddReference(registry, "mica.write_window_at", PrepareWriteWindowAt);
  AddReference(registry, "aten.slice_scatter", ScatterThrough(SliceWindow));
  AddReference(registry, "aten.select_scatter", ScatterThrough(SelectWindow));
  AddReference(registry, "aten.diagonal_scatter",
               ScatterThrough(DiagonalWindow));
  AddReference(registry, "mica.scatter_view", PrepareScatterView);
}

}  // namespace mica
