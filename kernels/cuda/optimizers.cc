// An optimizer's step on one parameter.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/element_kernel.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

// Builds a step: what depends on numbers alone is computed once, in double, by
// a kernel of its own; the other one reads it.
class OptimizerStep {
 public:
  OptimizerStep(const Target& target, const KernelRequest& request)
      : target_(target),
        request_(request),
        scratch_(request),
        compute_(WideFloat(request.operands[0].type.dtype)) {
    loop_ = {.compute = compute_, .dims = request.operands[0].type.dims};
    numbers_ = {.compute = DType::kF64};
  }

  // A tensor operand, as the name in the second kernel's body.
  void AddTensor(const std::string& name, int param) {
    Name(name);
    loop_.inputs.push_back(ArrayOf(OperandLane(request_, param), loop_.dims));
  }
  // A number of the step: a constant or an operand, for AddDerived().
  void AddNumber(const std::string& name, int param) {
    if (request_.OperandIndex(param) < 0) {
      absl::StrAppend(&numbers_.body, "    const number ", name, " = ",
                      Literal(DType::kF64, request_.Number(param)), ";\n");
      return;
    }
    absl::StrAppend(&numbers_.body, "    const number ", name, " = x",
                    numbers_.inputs.size(), ";\n");
    numbers_.inputs.push_back(ArrayOf(OperandLane(request_, param), {}));
  }
  // What the second kernel knows by this name.
  void AddDerived(const std::string& name, std::string expression) {
    Name(name);
    const Ref at = scratch_.Take(ElementBytes(compute_));
    loop_.inputs.push_back(
        {.at = at, .dtype = compute_, .strides = Dims(loop_.dims.size(), 0)});
    numbers_.outputs.push_back({.at = at, .dtype = compute_});
    numbers_.results.push_back(std::move(expression));
  }
  void Body(absl::string_view code) { absl::StrAppend(&loop_.body, code); }
  void AddResult(int result, std::string expression) {
    if (!request_.results[result].is_used) return;
    loop_.outputs.push_back(ArrayOf(ResultLane(request_, result), loop_.dims));
    loop_.results.push_back(std::move(expression));
  }

  Prepared Finish() {
    Prepared prepared = PrepareElements(target_, request_, loop_);
    std::vector<Call> calls;
    const bool is_empty = Loop{.dims = loop_.dims}.size() == 0;
    if (!is_empty && !loop_.outputs.empty()) {
      calls = {MakeElementCall(target_, numbers_),
               MakeElementCall(target_, loop_)};
    }
    Prepared both = PrepareCalls(std::move(calls), scratch_.bytes());
    both.inplace_operands = prepared.inplace_operands;
    return both;
  }

 private:
  void Name(const std::string& name) {
    absl::StrAppend(&loop_.body, "    number ", name, " = x",
                    loop_.inputs.size(), ";\n");
  }

  const Target& target_;
  const KernelRequest& request_;
  Scratch scratch_;
  const DType compute_;
  ElementLoop loop_, numbers_;
};

// self, grad, both averages, step, lr, beta1, beta2, decay, eps, maximize,
// is_decoupled.
Verdict PrepareAdam(const Target& target, const KernelRequest& request) {
  OptimizerStep s(target, request);
  s.AddNumber("step", 4);
  s.AddNumber("lr", 5);
  s.AddNumber("beta1", 6);
  s.AddNumber("beta2", 7);
  s.AddNumber("decay", 8);
  s.AddNumber("eps", 9);
  s.AddTensor("p", 0);
  s.AddTensor("g", 1);
  s.AddTensor("m", 2);
  s.AddTensor("v", 3);
  s.AddDerived("size", "lr / (1 - pow(beta1, step))");
  s.AddDerived("root", "sqrt(1 - pow(beta2, step))");
  s.AddDerived("shrink", "1 - lr * decay");
  s.AddDerived("weight", "1 - beta1");
  s.AddDerived("second", "beta2");
  s.AddDerived("second_rest", "1 - beta2");
  s.AddDerived("small", "eps");
  s.AddDerived("decays", "decay");
  if (request.Bool(10)) s.Body("    g = -g;\n");
  s.Body(request.Bool(11) ? "    if (decays != 0) p *= shrink;\n"
                          : "    if (decays != 0) g += p * decays;\n");
  s.Body(
      "    m = lerp(m, g, weight);\n"
      "    v = v * second + second_rest * g * g;\n"
      "    p -= size * m / (sqrt(v) / root + small);\n");
  s.AddResult(0, "p");
  s.AddResult(1, "m");
  s.AddResult(2, "v");
  return s.Finish();
}

// self, grad, buffer, decay, momentum, lr, dampening, nesterov, maximize,
// is_first.
Verdict PrepareSgd(const Target& target, const KernelRequest& request) {
  OptimizerStep s(target, request);
  s.AddNumber("decay", 3);
  s.AddNumber("momentum", 4);
  s.AddNumber("lr", 5);
  s.AddNumber("dampening", 6);
  s.AddTensor("p", 0);
  s.AddTensor("g", 1);
  const bool has_buffer = request.Has(2);
  if (has_buffer) s.AddTensor("b", 2);
  s.AddDerived("decays", "decay");
  s.AddDerived("inertia", "momentum");
  s.AddDerived("size", "lr");
  s.AddDerived("share", "1 - dampening");
  if (request.Bool(8)) s.Body("    g = -g;\n");
  s.Body("    if (decays != 0) g += p * decays;\n");
  if (has_buffer) {
    s.Body(request.Bool(9) ? "    b = g;\n"
                           : "    b = b * inertia + g * share;\n");
    s.Body(request.Bool(7) ? "    g = g + b * inertia;\n" : "    g = b;\n");
  }
  s.AddResult(0, "p - size * g");
  if (has_buffer) s.AddResult(1, "b");
  return s.Finish();
}

}  // namespace

void RegisterOptimizers(const Kernels& kernels) {
  kernels.Add("mica.adam_step", kFloats, PrepareAdam);
  kernels.Add("mica.sgd_step", kFloats, PrepareSgd);
}

}  // namespace mica::cuda
