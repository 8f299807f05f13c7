// Softmax along an axis, its logarithm, and their gradients.

#include <utility>
#include <vector>

#include "kernels/cuda/families.h"
#include "kernels/cuda/row_kernel.h"
#include "kernels/cuda/source.h"

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

// `operands` are called by their parameters' order; all have the dims of the
// last, whose axis is the parameter behind it.
void Add(const Kernels& kernels, absl::string_view op,
         std::vector<std::string> operands, const char* body) {
  kernels.Add(
      op, kFloats,
      PrepareFn([target = kernels.target, operands = std::move(operands),
                 body](const KernelRequest& request) -> Verdict {
        if (!request.results[0].is_used) return PrepareCalls({});
        const int num_operands = static_cast<int>(operands.size());
        const Lane last = OperandLane(request, num_operands - 1);
        const int axis = AxisIndex(request.Int(num_operands), last.rank());
        const AxisLane split = SplitAxis(last, axis);
        RowKernel kernel{.compute = WideFloat(PromoteDTypes(
                             last.dtype, request.results[0].type.dtype)),
                         .rows = split.outer.dims,
                         .length = split.size,
                         .body = body};
        for (int i = 0; i < num_operands; ++i) {
          kernel.arrays.push_back(
              ArrayAlong(operands[i], OperandLane(request, i), axis, false));
        }
        kernel.arrays.push_back(
            ArrayAlong("out", ResultLane(request), axis, true));
        return PrepareRows(target, std::move(kernel));
      }));
}

}  // namespace

void RegisterSoftmaxes(const Kernels& kernels) {
  Add(kernels, "aten._softmax", {"in"}, kSoftmax);
  Add(kernels, "aten._safe_softmax", {"in"}, kSafeSoftmax);
  Add(kernels, "aten._log_softmax", {"in"}, kLogSoftmax);
  Add(kernels, "aten._softmax_backward_data", {"grad", "output"},
      kSoftmaxBackward);
  Add(kernels, "aten._log_softmax_backward_data", {"grad", "output"},
      kLogSoftmaxBackward);
}

}  // namespace mica::cuda
