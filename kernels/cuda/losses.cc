// Losses and their gradients. Reduction: 0 none, 1 mean, 2 sum.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/element_kernel.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/reduce_kernel.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

// The loss of each pair of elements, x0 and x1, which have equal dims.
Verdict PreparePair(const Target& target, const KernelRequest& request,
                    const std::string& loss) {
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane x = OperandLane(request, 0), y = OperandLane(request, 1);
  const Lane out = ResultLane(request);
  if (x.dims != y.dims) return No{"one of the two is spread"};
  const int64_t reduction = request.Int(2);
  if (reduction == 0) {
    return PrepareElements(
        target, request,
        {.compute = out.dtype,
         .dims = out.dims,
         .inputs = {ArrayOf(x, out.dims), ArrayOf(y, out.dims)},
         .outputs = {ArrayOf(out, out.dims)},
         .results = {loss}});
  }
  Reduction r{.compute = out.dtype, .reduced_dims = x.dims};
  for (const Lane* lane : {&x, &y}) {
    r.inputs.push_back({.at = {.arg = lane->arg},
                        .dtype = lane->dtype,
                        .reduced_strides = lane->strides});
  }
  r.elements = {loss};
  r.outputs = {{.at = {.arg = out.arg},
                .dtype = out.dtype,
                .result = reduction == 1 ? "a.sum / (number)count" : "a.sum"}};
  Scratch scratch(request);
  std::vector<Call> calls;
  AddReduceCalls(target, r, scratch, calls);
  return PrepareCalls(std::move(calls), scratch.bytes());
}

// The slope of a pair's loss, from x1, the prediction, and x2, the target,
// times the gradient x0.
Verdict PreparePairBackward(const Target& target, const KernelRequest& request,
                            const std::string& slope) {
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane out = ResultLane(request);
  const double share =
      request.Int(3) == 1
          ? 1 / static_cast<double>(std::max<int64_t>(out.num_elements(), 1))
          : 1;
  ElementLoop loop{.compute = out.dtype,
                   .dims = out.dims,
                   .outputs = {ArrayOf(out, out.dims)},
                   .results = {absl::StrCat("(", slope, ") * x0 * ",
                                            Literal(out.dtype, share))}};
  for (int param : {0, 1, 2}) {
    loop.inputs.push_back(ArrayOf(OperandLane(request, param), out.dims));
  }
  return PrepareElements(target, request, loop);
}

void AddPair(const Kernels& kernels, absl::string_view name,
             std::string (*loss)(const KernelRequest&),
             std::string (*slope)(const KernelRequest&)) {
  kernels.Add(
      absl::StrCat("aten.", name), kFloats,
      PrepareFn([target = kernels.target, loss](const KernelRequest& request) {
        return PreparePair(target, request, loss(request));
      }));
  kernels.Add(
      absl::StrCat("aten.", name, "_backward"), kFloats,
      PrepareFn([target = kernels.target, slope](const KernelRequest& request) {
        return PreparePairBackward(target, request, slope(request));
      }));
}

std::string MseLoss(const KernelRequest&) { return "(x0 - x1) * (x0 - x1)"; }
std::string MseSlope(const KernelRequest&) { return "2 * (x1 - x2)"; }
// `beta` is parameter 3 forward and 4 backward, as `delta` is.
std::string Knee(const KernelRequest& request, int param) {
  return Literal(request.results[0].type.dtype, request.Number(param));
}
std::string SmoothLoss(const KernelRequest& request) {
  const std::string beta = Knee(request, 3), far = "magnitude(x0 - x1)";
  return absl::StrCat(far, " < ", beta, " ? ", far, " * ", far, " / (2 * ",
                      beta, ") : ", far, " - ", beta, " / 2");
}
std::string SmoothSlope(const KernelRequest& request) {
  const std::string beta = Knee(request, 4);
  return absl::StrCat("x1 - x2 <= -", beta, " ? (number)-1 : x1 - x2 >= ", beta,
                      " ? (number)1 : (x1 - x2) / ", beta);
}
std::string HuberLoss(const KernelRequest& request) {
  const std::string delta = Knee(request, 3), far = "magnitude(x0 - x1)";
  return absl::StrCat(far, " <= ", delta, " ? ", far, " * ", far,
                      " / 2 : ", delta, " * (", far, " - ", delta, " / 2)");
}
std::string HuberSlope(const KernelRequest& request) {
  const std::string delta = Knee(request, 4);
  return absl::StrCat("x1 - x2 <= -", delta, " ? -", delta,
                      " : x1 - x2 >= ", delta, " ? ", delta, " : x1 - x2");
}

// Losses by class: self[n, c], target, weight, reduction, what to ignore.
struct Classes {
  Lane self, target, weight;
  bool has_weight = false;
  int64_t rows = 1, classes = 1, ignored = 0, reduction = 0;
  int64_t row_stride = 0, target_stride = 0;

  // Definitions that the kernels below share; `weight` is their parameter.
  std::string Defines(DType compute) const {
    return absl::StrCat(Prelude(), "typedef ", NumberName(compute),
                        " number;\n#define ROWS ", rows, "\n#define CLASSES ",
                        classes, "\n#define IGNORED ", IntegerLiteral(ignored),
                        "\n#define CHOSEN(row) put<long long>(get("
                        "target[(row) * ",
                        target_stride, "LL]))\n#define WEIGHT(c) ",
                        has_weight ? absl::StrCat("(number)get(weight[(c) * ",
                                                  weight.strides[0], "LL])")
                                   : "(number)1",
                        "\n#define TELL ", kTellIndexError, "\n");
  }
};

Classes ClassesOf(const KernelRequest& request, int self) {
  Classes c{.self = OperandLane(request, self),
            .target = OperandLane(request, self + 1),
            .has_weight = request.Has(self + 2),
            .ignored = request.Int(self + 4),
            .reduction = request.Int(self + 3)};
  if (c.has_weight) c.weight = OperandLane(request, self + 2);
  c.classes = c.self.dims.back();
  if (c.self.rank() == 2) {
    c.rows = c.self.dims[0];
    c.row_stride = c.self.strides[0];
    c.target_stride = c.target.strides[0];
  }
  return c;
}

// One block sees all rows.
constexpr const char* kNllForward = R"cuda(
  __shared__ double losses[1024], weights[1024];
  double loss = 0, sum = 0;
  for (int row = threadIdx.x; row < ROWS; row += 1024) {
    const long long c = CHOSEN(row);
    double term = 0;
    if (c != IGNORED) {
      if (c < 0 || c >= CLASSES) {
        TELL
      } else {
        const double w = WEIGHT(c);
        term = -w * (double)get(self[row * ROW_STRIDE + c * CLASS_STRIDE]);
        sum += w;
      }
    }
    loss += term;
    if (REDUCTION == 0 && out != 0) out[row * OUT_STRIDE] = put<element>(term);
  }
  losses[threadIdx.x] = loss;
  weights[threadIdx.x] = sum;
  for (int by = 512; by > 0; by /= 2) {
    __syncthreads();
    if (threadIdx.x < by) {
      losses[threadIdx.x] += losses[threadIdx.x + by];
      weights[threadIdx.x] += weights[threadIdx.x + by];
    }
  }
  if (threadIdx.x != 0) return;
  loss = REDUCTION == 1 ? losses[0] / weights[0] : losses[0];
  if (REDUCTION != 0 && out != 0) out[0] = put<element>(loss);
  if (total != 0) *total = put<element>(TOTAL_IS_ZERO ? 0. : weights[0]);
}
)cuda";

Verdict PrepareNll(const Target& target, const KernelRequest& request) {
  const Classes c = ClassesOf(request, 0);
  const Lane out = ResultLane(request, 0), total = ResultLane(request, 1);
  const bool is_batch = c.self.rank() == 2;
  std::string source = absl::StrCat(
      c.Defines(out.dtype), "typedef ", ElementName(out.dtype),
      " element;\n#define REDUCTION ", c.reduction, "\n#define ROW_STRIDE ",
      c.row_stride, "LL\n#define CLASS_STRIDE ", c.self.strides.back(),
      "LL\n#define OUT_STRIDE ",
      c.reduction == 0 && is_batch ? out.strides[0] : 0,
      "LL\n#define TOTAL_IS_ZERO ", c.reduction == 0 && is_batch ? 1 : 0,
      "\nextern \"C\" __global__ void ", kEntry, "(const element* self, const ",
      ElementName(c.target.dtype), "* target, const ",
      ElementName(c.has_weight ? c.weight.dtype : out.dtype),
      "* weight, element* out, element* total, ", kErrorParameters, ") {\n",
      kNllForward);
  return PrepareCalls(
      {CodeCall{.code = Code::Of(target, std::move(source)),
                .params = {{.arg = c.self.arg},
                           {.arg = c.target.arg},
                           {.arg = c.has_weight ? c.weight.arg : -1},
                           {.arg = out.arg},
                           {.arg = total.arg}},
                .threads = {1024, 1},
                .tells_errors = true}});
}

constexpr const char* kNllBackward = R"cuda(
  const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
  if (i >= (long long)ROWS * CLASSES) return;
  const long long row = i / CLASSES, place = i % CLASSES;
  const long long c = CHOSEN(row);
  if (c != IGNORED && (c < 0 || c >= CLASSES)) {
    TELL
    return;
  }
  number slope = 0;
  if (c == place && c != IGNORED) {
    const number divisor = REDUCTION == 1 ? (number)get(*total) : (number)1;
    slope = -(number)get(grad[row * GRAD_STRIDE]) / divisor * WEIGHT(c);
  }
  out[row * ROW_STRIDE + place * CLASS_STRIDE] = put<element>(slope);
}
)cuda";

// grad, self, target, weight, reduction, what to ignore, the total weight.
Verdict PrepareNllBackward(const Target& target, const KernelRequest& request) {
  if (!request.results[0].is_used) return No{"only its errors are wanted"};
  const Classes c = ClassesOf(request, 1);
  const Lane grad = OperandLane(request, 0), total = OperandLane(request, 6);
  const Lane out = ResultLane(request);
  if (out.num_elements() == 0) return PrepareCalls({});
  const bool is_batch = c.self.rank() == 2;
  std::string source = absl::StrCat(
      c.Defines(out.dtype), "typedef ", ElementName(out.dtype),
      " element;\n#define REDUCTION ", c.reduction, "\n#define ROW_STRIDE ",
      is_batch ? out.strides[0] : 0, "LL\n#define CLASS_STRIDE ",
      out.strides.back(), "LL\n#define GRAD_STRIDE ",
      grad.rank() > 0 ? grad.strides[0] : 0,
      "LL\nextern \"C\" __global__ void ", kEntry, "(const ",
      ElementName(grad.dtype), "* grad, const ", ElementName(c.target.dtype),
      "* target, const ",
      ElementName(c.has_weight ? c.weight.dtype : out.dtype),
      "* weight, const ", ElementName(total.dtype), "* total, element* out, ",
      kErrorParameters, ") {\n", kNllBackward);
  return PrepareCalls({CodeCall{
      .code = Code::Of(target, std::move(source)),
      .params = {{.arg = grad.arg},
                 {.arg = c.target.arg},
                 {.arg = c.has_weight ? c.weight.arg : -1},
                 {.arg = total.arg},
                 {.arg = out.arg}},
      .blocks = {static_cast<uint32_t>((out.num_elements() + 255) / 256), 1, 1},
      .threads = {256, 1},
      .tells_errors = true}});
}

}  // namespace

void RegisterLosses(const Kernels& kernels) {
  AddPair(kernels, "mse_loss", MseLoss, MseSlope);
  AddPair(kernels, "smooth_l1_loss", SmoothLoss, SmoothSlope);
  AddPair(kernels, "huber_loss", HuberLoss, HuberSlope);
  kernels.Add("aten.nll_loss_forward", kFloats, PrepareNll);
  kernels.Add("aten.nll_loss_backward", kFloats, PrepareNllBackward);
}

}  // namespace mica::cuda
