// Elements chosen by index tensors.

#include <utility>
#include <vector>

#include "kernels/reference/indexing.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// Elements are moved without conversion: results have the operand's dtype.
void Move(const Lane& from, int64_t from_at, const Lane& to, int64_t to_at,
          void* const* args) {
  if (IsFloating(from.dtype)) {
    to.Store(args, to_at, from.Load<double>(args, from_at));
  } else {
    to.Store(args, to_at, from.Load<int64_t>(args, from_at));
  }
}

Verdict PrepareIndex(const KernelRequest& request) {
  const Lane self = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  const IndexedWalk walk(request, 1, self);
  std::vector<Dims> strides = {walk.self_strides(), out.strides};
  strides.insert(strides.end(), walk.index_strides().begin(),
                 walk.index_strides().end());
  return RunBody([=](void* const* args, LaunchContext& context) {
    for (Odometer at(walk.dims(), strides); !at.done(); at.Next()) {
      int64_t from = at.offset(0);
      if (!walk.Locate(args, at, 2, from, context)) return false;
      if (!out.IsUnused(args)) Move(self, from, out, at.offset(1), args);
    }
    return true;
  });
}

// Rows of parameter 0 by the indices of parameter 1.
Verdict PrepareEmbedding(const KernelRequest& request) {
  const Lane weight = OperandLane(request, 0);
  const Lane indices = OperandLane(request, 1);
  const Lane out = ResultLane(request);
  Dims index_strides = indices.strides;
  index_strides.push_back(0);
  Dims column_strides(out.rank(), 0);
  column_strides.back() = weight.strides[1];
  const std::string op = request.def->name();
  return RunBody([=](void* const* args, LaunchContext& context) {
    for (Odometer at(out.dims, {index_strides, column_strides, out.strides});
         !at.done(); at.Next()) {
      int64_t row = indices.Load<int64_t>(args, at.offset(0));
      if (!CheckIndex(op, row, weight.dims[0], Negative::kIllegal, context)) {
        return false;
      }
      if (out.IsUnused(args)) continue;
      Move(weight, row * weight.strides[0] + at.offset(1), out, at.offset(2),
           args);
    }
    return true;
  });
}

Verdict PrepareIndexSelect(const KernelRequest& request) {
  const Lane self = OperandLane(request, 0);
  const Lane index = OperandLane(request, 2);
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(1), self.rank());
  const std::string op = request.def->name();
  const bool has_dims = self.rank() > 0;
  Dims self_strides = self.strides;
  Dims index_strides(out.rank(), 0);
  if (has_dims) {
    self_strides[axis] = 0;
    index_strides[axis] = index.rank() > 0 ? index.strides[0] : 0;
  }
  const int64_t size = has_dims ? self.dims[axis] : 1;
  const int64_t stride = has_dims ? self.strides[axis] : 0;
  return RunBody([=](void* const* args, LaunchContext& context) {
    for (Odometer at(out.dims, {self_strides, index_strides, out.strides});
         !at.done(); at.Next()) {
      int64_t chosen = index.Load<int64_t>(args, at.offset(1));
      if (!CheckIndex(op, chosen, size, Negative::kIllegal, context)) {
        return false;
      }
      if (out.IsUnused(args)) continue;
      Move(self, at.offset(0) + chosen * stride, out, at.offset(2), args);
    }
    return true;
  });
}

Verdict PrepareGather(const KernelRequest& request) {
  const Lane self = OperandLane(request, 0);
  const Lane index = OperandLane(request, 2);
  const Lane out = ResultLane(request);
  const int axis = AxisIndex(request.Int(1), self.rank());
  const std::string op = request.def->name();
  const AxisLane along = SplitAxis(self, axis);
  // A tensor without dims beside one with a single dim has stride 0 there.
  Dims self_strides = self.strides;
  self_strides.resize(out.rank(), 0);
  if (axis < out.rank()) self_strides[axis] = 0;
  return RunBody([=](void* const* args, LaunchContext& context) {
    for (Odometer at(out.dims, {self_strides, index.strides, out.strides});
         !at.done(); at.Next()) {
      int64_t chosen = index.Load<int64_t>(args, at.offset(1));
      if (!CheckIndex(op, chosen, along.size, Negative::kIllegal, context)) {
        return false;
      }
      if (out.IsUnused(args)) continue;
      Move(self, at.offset(0) + chosen * along.stride, out, at.offset(2), args);
    }
    return true;
  });
}

Verdict PrepareTake(const KernelRequest& request) {
  const Lane self = OperandLane(request, 0);
  const Lane index = OperandLane(request, 1);
  const Lane out = ResultLane(request);
  const std::string op = request.def->name();
  return RunBody([=](void* const* args, LaunchContext& context) {
    for (Odometer at(out.dims, {index.strides, out.strides}); !at.done();
         at.Next()) {
      int64_t number = index.Load<int64_t>(args, at.offset(0));
      if (!CheckIndex(op, number, self.num_elements(), Negative::kLegal,
                      context)) {
        return false;
      }
      int64_t from = 0;
      for (int i = self.rank() - 1; i >= 0; --i) {
        from += number % self.dims[i] * self.strides[i];
        number /= self.dims[i];
      }
      if (!out.IsUnused(args)) Move(self, from, out, at.offset(1), args);
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceIndex(KernelRegistry& registry) {
  AddReference(registry, "aten.index.Tensor", PrepareIndex);
  AddReference(registry, "aten._unsafe_index.Tensor", PrepareIndex);
  AddReference(registry, "aten.embedding", PrepareEmbedding);
  AddReference(registry, "aten.index_select", PrepareIndexSelect);
  AddReference(registry, "aten.gather", PrepareGather);
  AddReference(registry, "aten.take", PrepareTake);
}

}  // namespace mica
