// Tensors from nothing but numbers.

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/element_kernel.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

// Each element is `expression`, which may name `numbers`, and x0, the operand
// given for parameter `value`, unless that is -1.
Verdict PrepareFill(const Target& target, const KernelRequest& request,
                    std::string expression,
                    std::vector<std::pair<std::string, Dims>> numbers = {},
                    int value = -1) {
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane out = ResultLane(request);
  ElementLoop loop{.compute = out.dtype,
                   .dims = out.dims,
                   .outputs = {ArrayOf(out, out.dims)},
                   .numbers = std::move(numbers),
                   .results = {std::move(expression)}};
  if (value >= 0) {
    loop.inputs = {ArrayOf(OperandLane(request, value), out.dims)};
  }
  Prepared prepared = PrepareElements(target, request, loop);
  if (value < 0) prepared.inplace_operands = 0;
  return prepared;
}

// The number given for a parameter.
Verdict PrepareFull(const Target& target, const KernelRequest& request,
                    int param) {
  if (request.OperandIndex(param) >= 0) {
    return PrepareFill(target, request, "x0", {}, param);
  }
  const DType dtype = request.results[0].type.dtype;
  const Argument& argument = (*request.arguments)[param];
  const auto* integer = std::get_if<int64_t>(&argument);
  if (dtype == DType::kBool) {
    return PrepareFill(target, request, request.Number(param) != 0 ? "1" : "0");
  }
  return PrepareFill(target, request,
                     integer != nullptr && !IsFloating(dtype)
                         ? IntegerLiteral(*integer)
                         : Literal(dtype, request.Number(param)));
}

// `start` and `step` are parameters, or -1 for 0 and 1. Positions are computed
// in double, as eager's are.
Verdict PrepareArange(const Target& target, const KernelRequest& request,
                      int start, int step) {
  const DType dtype = request.results[0].type.dtype;
  const auto number = [&](int param, double none) {
    const double value = param < 0 ? none : request.Number(param);
    return IsFloating(dtype) ? Literal(DType::kF64, value)
                             : Literal(DType::kI64, value);
  };
  return PrepareFill(
      target, request,
      absl::StrCat(number(start, 0), " + ", number(step, 1), " * at"),
      {{"at", {1}}});
}

Verdict PrepareEye(const Target& target, const KernelRequest& request) {
  return PrepareFill(target, request, "row == column",
                     {{"row", {1, 0}}, {"column", {0, 1}}});
}

// Any contents are right: nothing to do.
Verdict PrepareEmpty(const Target&, const KernelRequest&) {
  return PrepareCalls({});
}

}  // namespace

void RegisterFactories(const Kernels& kernels) {
  const auto add = [&](absl::string_view op, auto prepare) {
    kernels.Add(op, kReals,
                PrepareFn([target = kernels.target,
                           prepare](const KernelRequest& request) {
                  return prepare(target, request);
                }));
  };
  for (const auto& [value, ops] :
       {std::pair("0", std::vector<const char*>{"aten.zeros", "aten.zeros_like",
                                                "aten.new_zeros", "aten.zero"}),
        std::pair("1", std::vector<const char*>{"aten.ones", "aten.ones_like",
                                                "aten.new_ones"})}) {
    for (const char* op : ops) {
      add(op, [value = value](const Target& target, const KernelRequest& r) {
        return PrepareFill(target, r, value);
      });
    }
  }
  for (const auto& [op, param] :
       {std::pair("aten.full", 1), std::pair("aten.full_like", 1),
        std::pair("aten.new_full", 2), std::pair("aten.scalar_tensor", 0)}) {
    add(op, [param = param](const Target& target, const KernelRequest& r) {
      return PrepareFull(target, r, param);
    });
  }
  for (const char* op :
       {"aten.empty.memory_format", "aten.empty_like", "aten.new_empty",
        "aten.empty_strided", "aten.new_empty_strided"}) {
    kernels.Add(op, kReals, PrepareEmpty);
  }
  const struct {
    const char* op;
    int start, step;
  } ranges[] = {{"aten.arange", -1, -1},
                {"aten.arange.start", 0, -1},
                {"aten.arange.start_step", 0, 2}};
  for (const auto& range : ranges) {
    add(range.op, [range](const Target& target, const KernelRequest& r) {
      return PrepareArange(target, r, range.start, range.step);
    });
  }
  kernels.Add("aten.eye", kReals, PrepareEye);
  kernels.Add("aten.eye.m", kReals, PrepareEye);
}

}  // namespace mica::cuda
