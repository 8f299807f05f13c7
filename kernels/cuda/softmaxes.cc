// Softmax along an axis, its logarithm, and their gradients.

#include <utility>
#include <vector>

#include "kernels/cuda/families.h"
#include "kernels/cuda/row_kernel.h"

namespace mica::cuda {
namespace {

RowArray ArrayAlong(std::string name, const Lane& lane, int axis,
                    bool is_output) {
  const AxisLane split = SplitAxis(lane, axis);
  return {.name = std::move(name),
          .at = {.arg = lane.arg},
          .dtype = lane.dtype,
          .row_strides = split.outer.strides,
          .stride = split.stride,
          .is_output = is_output};
}

DType ComputeOf(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// What the two gradients differ in, and the two forward operators.
constexpr const char* kSoftmax = R"cuda(
  number x[ITEMS], most = -infinity(), sum = 0;
  FOR_ROW { x[k] = in(i); most = larger(most, x[k]); }
  most = row_max(most);
  FOR_ROW { x[k] = exp(x[k] - most); sum += x[k]; }
  const number share = 1 / row_sum(sum);
  FOR_ROW put_out(i, x[k] * share);
)cuda";
// A row that is hidden altogether gets no weight.
constexpr const char* kSafeSoftmax = R"cuda(
  number x[ITEMS], most = -infinity(), sum = 0;
  FOR_ROW { x[k] = in(i); most = larger(most, x[k]); }
  most = row_max(most);
  FOR_ROW { x[k] = most == -infinity() ? 0 : exp(x[k] - most); sum += x[k]; }
  const number share = most == -infinity() ? 0 : 1 / row_sum(sum);
  FOR_ROW put_out(i, x[k] * share);
)cuda";
constexpr const char* kLogSoftmax = R"cuda(
  number x[ITEMS], most = -infinity(), sum = 0;
  FOR_ROW { x[k] = in(i); most = larger(most, x[k]); }
  most = row_max(most);
  FOR_ROW sum += exp(x[k] - most);
  const number shift = log(row_sum(sum));
  FOR_ROW put_out(i, x[k] - most - shift);
)cuda";
constexpr const char* kSoftmaxBackward = R"cuda(
  number g[ITEMS], y[ITEMS], sum = 0;
  FOR_ROW { g[k] = grad(i); y[k] = output(i); sum += g[k] * y[k]; }
  sum = row_sum(sum);
  FOR_ROW put_out(i, (g[k] - sum) * y[k]);
)cuda";
constexpr const char* kLogSoftmaxBackward = R"cuda(
  number g[ITEMS], sum = 0;
  FOR_ROW { g[k] = grad(i); sum += g[k]; }
  sum = row_sum(sum);
  FOR_ROW put_out(i, g[k] - exp(output(i)) * sum);
)cuda";

Verdict PrepareRows(const Target& target, RowKernel kernel) {
  for (Dim dim : kernel.rows) {
    if (dim == 0) return PrepareCalls({});
  }
  if (kernel.length == 0) return PrepareCalls({});
  return PrepareCalls({MakeRowCall(target, kernel)});
}

void AddForward(const Kernels& kernels, absl::string_view op,
                const char* body) {
  kernels.Add(
      op, kFloats,
      PrepareFn([target = kernels.target,
                 body](const KernelRequest& request) -> Verdict {
        if (!request.results[0].is_used) return PrepareCalls({});
        const Lane in = OperandLane(request, 0);
        const int axis = AxisIndex(request.Int(1), in.rank());
        const AxisLane split = SplitAxis(in, axis);
        return PrepareRows(
            target,
            {.compute = ComputeOf(request.results[0].type.dtype),
             .rows = split.outer.dims,
             .length = split.size,
             .arrays = {ArrayAlong("in", in, axis, false),
                        ArrayAlong("out", ResultLane(request), axis, true)},
             .body = body});
      }));
}

void AddBackward(const Kernels& kernels, absl::string_view op,
                 const char* body) {
  kernels.Add(
      op, kFloats,
      PrepareFn([target = kernels.target,
                 body](const KernelRequest& request) -> Verdict {
        if (!request.results[0].is_used) return PrepareCalls({});
        const Lane output = OperandLane(request, 1);
        const int axis = AxisIndex(request.Int(2), output.rank());
        const AxisLane split = SplitAxis(output, axis);
        return PrepareRows(
            target,
            {.compute = ComputeOf(output.dtype),
             .rows = split.outer.dims,
             .length = split.size,
             .arrays = {ArrayAlong("grad", OperandLane(request, 0), axis,
                                   false),
                        ArrayAlong("output", output, axis, false),
                        ArrayAlong("out", ResultLane(request), axis, true)},
             .body = body});
      }));
}

}  // namespace

void RegisterSoftmaxes(const Kernels& kernels) {
  AddForward(kernels, "aten._softmax", kSoftmax);
  AddForward(kernels, "aten._safe_softmax", kSafeSoftmax);
  AddForward(kernels, "aten._log_softmax", kLogSoftmax);
  AddBackward(kernels, "aten._softmax_backward_data", kSoftmaxBackward);
  AddBackward(kernels, "aten._log_softmax_backward_data", kLogSoftmaxBackward);
}

}  // namespace mica::cuda
