// Reductions along axes.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/reduce_kernel.h"
#include "kernels/cuda/scratch.h"
#include "kernels/cuda/source.h"
#include "kernels/reference/axes.h"

namespace mica::cuda {
namespace {

// What is kept of the elements, and the results from it.
struct Rule {
  AxesOf axes;
  bool loads_as_result = false;  // Else as the operand.
  std::vector<Reduction::Field> fields;
  std::string add, merge;
  std::vector<std::string> results;
};

Verdict PrepareReduction(const Target& target, const KernelRequest& request,
                         const Rule& rule) {
  const Lane in = OperandLane(request, 0);
  const AxisMask mask = ReducedMask(request, rule.axes, in.rank());
  Reduction r{.compute = rule.loads_as_result ? request.results[0].type.dtype
                                              : in.dtype,
              .kept_dims = Unmarked(in.dims, mask),
              .reduced_dims = Marked(in.dims, mask),
              .fields = rule.fields,
              .add = rule.add,
              .merge = rule.merge};
  r.inputs = {{.at = {.arg = in.arg},
               .dtype = in.dtype,
               .kept_strides = Unmarked(in.strides, mask),
               .reduced_strides = Marked(in.strides, mask)}};
  for (size_t k = 0; k < request.results.size(); ++k) {
    if (!request.results[k].is_used) continue;
    const Lane out = ResultLane(request, static_cast<int>(k));
    r.outputs.push_back({.at = {.arg = out.arg},
                         .dtype = out.dtype,
                         .strides = out.rank() == in.rank()
                                        ? Unmarked(out.strides, mask)
                                        : out.strides,
                         .result = rule.results[k]});
  }
  Scratch scratch(request);
  std::vector<Call> calls;
  AddReduceCalls(target, r, scratch, calls);
  return PrepareCalls(std::move(calls), scratch.bytes());
}

void Add(const Kernels& kernels, absl::string_view op,
         absl::Span<const DType> dtypes, Rule rule) {
  kernels.Add(op, dtypes,
              PrepareFn([target = kernels.target,
                         rule = std::move(rule)](const KernelRequest& request) {
                return PrepareReduction(target, request, rule);
              }));
}

Rule SumRule(AxesOf axes, std::string result) {
  const Reduction sum;
  return {.axes = axes,
          .loads_as_result = true,
          .fields = sum.fields,
          .add = sum.add,
          .merge = sum.merge,
          .results = {std::move(result)}};
}

void RegisterSums(const Kernels& kernels) {
  Add(kernels, "aten.sum", kReals, SumRule({}, "a.sum"));
  Add(kernels, "aten.sum.dim_IntList", kReals, SumRule({.dim = 1}, "a.sum"));
  Add(kernels, "aten.mean", kFloats, SumRule({}, "a.sum / (number)count"));
  Add(kernels, "aten.mean.dim", kFloats,
      SumRule({.dim = 1}, "a.sum / (number)count"));
  Rule numbers = SumRule({.dim = 1}, "a.sum");
  numbers.add = "a.sum += is_nan(x) ? 0 : x;";
  Add(kernels, "aten.nansum", kReals, numbers);
  for (const auto& [op, axes] :
       {std::pair("aten.prod", AxesOf{}),
        std::pair("aten.prod.dim_int", AxesOf{.dim = 1})}) {
    Add(kernels, op, kReals,
        {.axes = axes,
         .loads_as_result = true,
         .fields = {{"number", "product", "1"}},
         .add = "a.product *= x;",
         .merge = "a.product *= b.product;",
         .results = {"a.product"}});
  }
  Add(kernels, "aten.logsumexp", kFloats,
      {.axes = {.dim = 1},
       .loads_as_result = true,
       .fields = {{"number", "most", "-infinity()"}, {"number", "sum", "0"}},
       .add = ""
              "  const number most = larger(a.most, x);\n"
              "  if (most != a.most) a.sum *= exp(a.most - most);\n"
              "  a.sum += isinf(most) ? 0 : exp(x - most);\n"
              "  a.most = most;",
       .merge = "const number most = larger(a.most, b.most);\n"
                "  if (isinf(most)) { a.most = most; return; }\n"
                "  a.sum = a.sum * exp(a.most - most) + b.sum * exp(b.most - "
                "most);\n  a.most = most;",
       .results = {"isinf(a.most) ? a.most : a.most + log(a.sum)"}});
}

void RegisterCounts(const Kernels& kernels) {
  const auto count = [](AxesOf axes, std::string result) {
    return Rule{.axes = axes,
                .fields = {{"long long", "n", "0"}},
                .add = "a.n += x != 0;",
                .merge = "a.n += b.n;",
                .results = {std::move(result)}};
  };
  Add(kernels, "aten.count_nonzero", kReals, count({.dim = 1}, "a.n"));
  Add(kernels, "aten.count_nonzero.dim_IntList", kReals,
      count({.dim = 1}, "a.n"));
  const AxesOf several{.dim = 1, .empty_is_none = true};
  for (const auto& [name, result] :
       {std::pair("any", "a.n > 0"), std::pair("all", "a.n == count")}) {
    Add(kernels, absl::StrCat("aten.", name), kReals, count({}, result));
    Add(kernels, absl::StrCat("aten.", name, ".dim"), kReals,
        count({.dim = 1}, result));
    Add(kernels, absl::StrCat("aten.", name, ".dims"), kReals,
        count(several, result));
  }
}

// Of equal elements the first; NaN counts as best.
Rule BestRule(AxesOf axes, absl::string_view better,
              std::vector<std::string> results) {
  const auto take_if = [&](absl::string_view value, absl::string_view at) {
    return absl::StrCat(
        "const bool takes = a.at < 0 || (is_nan(a.best) ? is_nan(", value,
        ") && ", at, " < a.at : is_nan(", value, ") || ", value, " ", better,
        " a.best || (", value, " == a.best && ", at, " < a.at));\n");
  };
  return {
      .axes = axes,
      .fields = {{"number", "best", "0"}, {"long long", "at", "-1"}},
      .add = absl::StrCat(take_if("x", "i"),
                          "  if (takes) { a.best = x; a.at = i; }"),
      .merge = absl::StrCat("if (b.at < 0) return;\n  ",
                            take_if("b.best", "b.at"), "  if (takes) a = b;"),
      .results = std::move(results)};
}

void RegisterExtremes(const Kernels& kernels) {
  for (const auto& [name, better] :
       {std::pair("max", ">"), std::pair("min", "<")}) {
    Add(kernels, absl::StrCat("aten.", name), kReals,
        BestRule({}, better, {"a.best"}));
    Add(kernels, absl::StrCat("aten.a", name), kReals,
        BestRule({.dim = 1}, better, {"a.best"}));
    Add(kernels, absl::StrCat("aten.arg", name), kReals,
        BestRule({.dim = 1}, better, {"a.at"}));
    Add(kernels, absl::StrCat("aten.", name, ".dim"), kReals,
        BestRule({.dim = 1}, better, {"a.best", "a.at"}));
  }
  Add(kernels, "aten.aminmax", kReals,
      {.axes = {.dim = 1},
       .fields = {{"number", "least", "0"},
                  {"number", "most", "0"},
                  {"long long", "n", "0"}},
       .add = "a.least = a.n == 0 ? x : smaller(a.least, x);\n"
              "  a.most = a.n == 0 ? x : larger(a.most, x);\n  ++a.n;",
       .merge = "if (b.n == 0) return;\n  if (a.n == 0) { a = b; return; }\n"
                "  a.least = smaller(a.least, b.least);\n"
                "  a.most = larger(a.most, b.most);\n  a.n += b.n;",
       .results = {"a.least", "a.most"}});
}

// Mean and squared distances from it, of two parts together. Source: Chan,
// Golub and LeVeque (1979), "Updating Formulae and a Pairwise Algorithm for
// Computing Sample Variances".
Verdict PrepareMoments(const Target& target, const KernelRequest& request,
                       bool is_std) {
  if (request.OperandIndex(2) >= 0) return No{"correction varies"};
  const double correction = request.Has(2) ? request.Number(2) : 1;
  const DType dtype = request.results[0].type.dtype;
  const std::string variance =
      absl::StrCat("a.squares / larger((number)count - ",
                   Literal(dtype, correction), ", (number)0)");
  return PrepareReduction(
      target, request,
      {.axes = {.dim = 1},
       .loads_as_result = true,
       .fields = {{"number", "mean", "0"},
                  {"number", "squares", "0"},
                  {"long long", "n", "0"}},
       .add = "++a.n;\n  const number far = x - a.mean;\n"
              "  a.mean += far / (number)a.n;\n"
              "  a.squares += far * (x - a.mean);",
       .merge = "if (b.n == 0) return;\n  const long long n = a.n + b.n;\n"
                "  const number far = b.mean - a.mean;\n"
                "  const number share = (number)b.n / (number)n;\n"
                "  a.squares += b.squares + far * far * share * (number)a.n;\n"
                "  a.mean += far * share;\n  a.n = n;",
       .results = {is_std ? absl::StrCat("sqrt(", variance, ")") : variance,
                   "count == 0 ? (number)not_a_number() : a.mean"}});
}

Verdict PrepareNorm(const Target& target, const KernelRequest& request,
                    AxesOf axes) {
  if (request.OperandIndex(1) >= 0) return No{"the order varies"};
  const double p = request.Has(1) ? request.Number(1) : 2;
  const DType dtype = request.results[0].type.dtype;
  Rule rule = SumRule(axes, "a.sum");
  if (p == 2) {
    rule.add = "a.sum += x * x;";
    rule.results = {"sqrt(a.sum)"};
  } else if (p == 1) {
    rule.add = "a.sum += magnitude(x);";
  } else if (p == 0) {
    rule.add = "a.sum += x != 0;";
  } else if (std::isinf(p)) {
    const absl::string_view pick = p > 0 ? "larger" : "smaller";
    rule.fields = {{"number", "sum", p > 0 ? "0" : "infinity()"}};
    rule.add = absl::StrCat("a.sum = ", pick, "(a.sum, magnitude(x));");
    rule.merge = absl::StrCat("a.sum = ", pick, "(a.sum, b.sum);");
  } else {
    rule.add =
        absl::StrCat("a.sum += pow(magnitude(x), ", Literal(dtype, p), ");");
    rule.results = {absl::StrCat("pow(a.sum, ", Literal(dtype, 1 / p), ")")};
  }
  return PrepareReduction(target, request, rule);
}

void RegisterMomentsAndNorms(const Kernels& kernels) {
  for (const char* name : {"var", "std"}) {
    for (const char* tail : {"", "_mean"}) {
      const bool is_std = name[0] == 's';
      kernels.Add(absl::StrCat("aten.", name, tail, ".correction"), kFloats,
                  PrepareFn([target = kernels.target,
                             is_std](const KernelRequest& request) {
                    return PrepareMoments(target, request, is_std);
                  }));
    }
  }
  for (const auto& [op, axes] :
       {std::pair("aten.linalg_vector_norm", AxesOf{.dim = 2}),
        std::pair("aten.norm.Scalar", AxesOf{}),
        std::pair("aten.norm.ScalarOpt_dim", AxesOf{.dim = 2})}) {
    kernels.Add(op, kFloats,
                PrepareFn([target = kernels.target,
                           axes = axes](const KernelRequest& request) {
                  return PrepareNorm(target, request, axes);
                }));
  }
}

}  // namespace

void RegisterReductions(const Kernels& kernels) {
  RegisterSums(kernels);
  RegisterCounts(kernels);
  RegisterExtremes(kernels);
  RegisterMomentsAndNorms(kernels);
}

}  // namespace mica::cuda
