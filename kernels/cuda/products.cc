// Products of matrices, by cuBLASLt.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/element_kernel.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/matrices.h"

namespace mica::cuda {
namespace {

// beta * addend + alpha * (a @ b), of matrices or of batches of them.
struct Rule {
  int a = 0;        // Parameter; b is the next.
  int addend = -1;  // Parameter.
  int beta = -1;    // Parameter; alpha is the next.
};

// Copies the addend, whatever its strides, to where the result will be, which
// is then added to.
// Whether it is one row of numbers, for all rows of the result.
bool IsBias(const Lane& addend, const Lane& out) {
  const Dims strides = BroadcastStrides(addend, out.dims);
  return out.rank() == 2 && strides[0] == 0 && strides[1] == 1 &&
         addend.dtype == out.dtype;
}

Verdict PrepareProduct(const Target& target, const KernelRequest& request,
                       const Rule& rule) {
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane a = OperandLane(request, rule.a);
  const Lane b = OperandLane(request, rule.a + 1);
  const Lane out = ResultLane(request);
  ProductCall product;
  if (rule.addend >= 0) {
    for (int param : {rule.beta, rule.beta + 1}) {
      if (request.OperandIndex(param) >= 0) return No{"a factor varies"};
    }
    product.product.beta = request.Number(rule.beta);
    product.product.alpha = request.Number(rule.beta + 1);
  }
  if (auto misfit = SetMatrices(a, b, out, product)) return No{*misfit};
  std::vector<Call> calls;
  if (out.num_elements() == 0) return PrepareCalls({});
  if (rule.addend >= 0 && IsBias(OperandLane(request, rule.addend), out) &&
      product.product.beta == 1 && product.is_turned) {
    product.product.beta = 0;
    product.product.epilogue = Epilogue::kBias;
    product.bias = {.arg = OperandLane(request, rule.addend).arg};
  } else if (rule.addend >= 0 && product.product.beta != 0) {
    calls.push_back(MakeCopyCall(
        target, ArrayOf(OperandLane(request, rule.addend), out.dims),
        ArrayOf(out, out.dims), out.dims));
    product.c = product.out;
    product.product.c = product.product.out;
  }
  if (product.product.inner == 0) return No{"nothing is summed"};
  calls.push_back(std::move(product));
  return PrepareCalls(std::move(calls));
}

void Add(const Kernels& kernels, absl::string_view op, Rule rule) {
  kernels.Add(
      op, kFloats,
      PrepareFn([target = kernels.target, rule](const KernelRequest& request) {
        return PrepareProduct(target, request, rule);
      }));
}

// An expression of x0; empty for none.
std::optional<std::string> ActivationCode(const std::string& name) {
  if (name == "none") return "x0";
  if (name == "relu") return "x0 < 0 ? 0 : x0";
  if (name == "relu6") return "relu6(x0)";
  if (name == "hardswish") return "x0 * relu6(x0 + 3) / 6";
  if (name == "gelu") return "gelu_erf(x0)";
  if (name == "gelu_tanh") return "gelu_tanh(x0)";
  if (name == "tanh") return "tanh(x0)";
  if (name == "sigmoid") return "sigmoid(x0)";
  if (name == "silu") return "x0 * sigmoid(x0)";
  return std::nullopt;
}

// What comes behind the product that cuBLASLt doesn't do with it.
void AddTail(const Target& target, const KernelRequest& request,
             const Lane& out, const std::string& activation,
             std::vector<Call>& calls) {
  const bool has_residual = request.Has(3);
  if (!has_residual && activation == "x0") return;
  ElementLoop loop{.compute = out.dtype,
                   .dims = out.dims,
                   .inputs = {ArrayOf(out, out.dims)},
                   .outputs = {ArrayOf(out, out.dims)},
                   .results = {absl::StrCat("(", activation, ")")}};
  if (has_residual) {
    loop.inputs.push_back(ArrayOf(OperandLane(request, 3), out.dims));
    loop.results[0] += " + x1";
  }
  calls.push_back(MakeElementCall(target, loop));
}

// activation(x @ weight^T + bias) + residual, of x as one matrix.
Verdict PrepareLinear(const Target& target, const KernelRequest& request) {
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane out = ResultLane(request);
  auto activation = ActivationCode(request.String(4));
  if (!activation.has_value()) {
    return No{absl::StrCat("has no activation ", request.String(4))};
  }
  const std::optional<Lane> x = AsMatrix(OperandLane(request, 0));
  const std::optional<Lane> y = AsMatrix(out);
  if (!x.has_value() || !y.has_value()) {
    return No{"rows have no common stride"};
  }
  Lane weight = OperandLane(request, 1);
  std::swap(weight.dims[0], weight.dims[1]);
  std::swap(weight.strides[0], weight.strides[1]);
  if (out.num_elements() == 0) return PrepareCalls({});
  ProductCall product;
  if (auto misfit = SetMatrices(*x, weight, *y, product)) return No{*misfit};
  if (product.product.inner == 0) return No{"nothing is summed"};
  if (request.Has(2)) {
    const Lane bias = OperandLane(request, 2);
    if (bias.strides[0] != 1) return No{"the bias has gaps"};
    if (!product.is_turned) return No{"the result lies by columns"};
    const bool is_relu = request.String(4) == "relu";
    product.bias = {.arg = bias.arg};
    product.product.epilogue = is_relu ? Epilogue::kReluBias : Epilogue::kBias;
    if (is_relu) activation = "x0";
  }
  std::vector<Call> calls = {std::move(product)};
  AddTail(target, request, out, *activation, calls);
  return PrepareCalls(std::move(calls));
}

}  // namespace

void RegisterProducts(const Kernels& kernels) {
  Add(kernels, "aten.mm", {});
  Add(kernels, "aten.bmm", {});
  Add(kernels, "aten.addmm", {.a = 1, .addend = 0, .beta = 3});
  Add(kernels, "aten.baddbmm", {.a = 1, .addend = 0, .beta = 3});
  kernels.Add("mica.linear", kFloats, PrepareLinear);
}

}  // namespace mica::cuda
