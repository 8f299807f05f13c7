// Reductions over axes.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

enum class SumDType : uint8_t {
  kWide,      // i64 for integers and bool, unless a dtype is given.
  kFloating,  // As given, or the operand's, which must be floating-point.
  kReal,      // f32 for integers and bool.
  kSame,
  kTruth,  // bool; u8 for u8.
  kIndex,  // i64.
};

struct ReductionRule {
  // Positions of the parameters in the schema, -1 where there is none.
  int dim = -1;
  int keepdim = -1;
  int dtype = -1;
  SumDType result = SumDType::kSame;
  bool wants_elements = false;  // No value for an empty set of elements.
  bool is_one_axis = false;     // `dim` is an int, not a list.
  bool empty_is_none = false;   // An empty list of axes reduces nothing.
};

absl::StatusOr<absl::InlinedVector<bool, 5>> Marked(const OpCall& call,
                                                    const ReductionRule& rule) {
  const int rank = call.Type(0).rank();
  if (rule.dim < 0 || !call.Has(rule.dim)) {
    return absl::InlinedVector<bool, 5>(rank, true);
  }
  if (rule.is_one_axis) return MarkAxes(call, {call.Int(rule.dim)}, rank);
  if (rule.empty_is_none) return MarkAxes(call, call.Ints(rule.dim), rank);
  return MarkReducedAxes(call, rule.dim, rank);
}

absl::StatusOr<DType> ReducedDType(const OpCall& call,
                                   const ReductionRule& rule) {
  const DType own = call.Type(0).dtype;
  switch (rule.result) {
    case SumDType::kWide:
      return DTypeOr(call, rule.dtype, IsFloating(own) ? own : DType::kI64);
    case SumDType::kFloating: {
      const DType dtype = rule.dtype < 0 ? own : DTypeOr(call, rule.dtype, own);
      if (!IsFloating(dtype)) return call.Wants("a floating-point tensor");
      return dtype;
    }
    case SumDType::kReal:
      return IsFloating(own) ? own : DType::kF32;
    case SumDType::kSame:
      return own;
    case SumDType::kTruth:
      return own == DType::kU8 ? DType::kU8 : DType::kBool;
    case SumDType::kIndex:
      return DType::kI64;
  }
  return own;
}

InferFn Reduction(ReductionRule rule) {
  return [rule](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    const TensorType& self = call.Type(0);
    MICA_ASSIGN_OR_RETURN(const auto marked, Marked(call, rule));
    MICA_ASSIGN_OR_RETURN(const DType dtype, ReducedDType(call, rule));
    for (int i = 0; rule.wants_elements && i < self.rank(); ++i) {
      if (marked[i] && self.dims[i] == 0) {
        return call.Wants("at least one element to reduce");
      }
    }
    const Reduced reduced =
        KeepIf(rule.keepdim >= 0 && BoolOrFalse(call, rule.keepdim));
    Dims dims = ReduceDims(self.dims, marked, reduced);
    return TensorTypes(call.def().num_results(),
                       FreshTensor(dtype, std::move(dims)));
  };
}

// max.dim and min.dim: values and where they stand.
InferFn WithIndices(ReductionRule rule) {
  return [infer = Reduction(rule)](
             const OpCall& call) -> absl::StatusOr<TensorTypes> {
    MICA_ASSIGN_OR_RETURN(TensorTypes types, infer(call));
    types[1].dtype = DType::kI64;
    return types;
  };
}

void RegisterSums(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor")
          .Doc("The sum of all elements.")
          .Infer(Reduction({.dtype = 1, .result = SumDType::kWide})));
  registry.Add(OpDef("aten::sum.dim_IntList(Tensor self, int[1]? dim, bool "
                     "keepdim=False, *, ScalarType? dtype=None) -> Tensor")
                   .Doc("Sums over the axes dim.")
                   .Infer(Reduction({.dim = 1,
                                     .keepdim = 2,
                                     .dtype = 3,
                                     .result = SumDType::kWide})));
  registry.Add(OpDef("aten::nansum(Tensor self, int[1]? dim=None, bool "
                     "keepdim=False, *, ScalarType? dtype=None) -> Tensor")
                   .Doc("Sums over the axes dim, NaN counting as 0.")
                   .Infer(Reduction({.dim = 1,
                                     .keepdim = 2,
                                     .dtype = 3,
                                     .result = SumDType::kWide})));
  registry.Add(
      OpDef("aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor")
          .Doc("The mean of all elements.")
          .Infer(Reduction({.dtype = 1, .result = SumDType::kFloating})));
  registry.Add(OpDef("aten::mean.dim(Tensor self, int[1]? dim, bool "
                     "keepdim=False, *, ScalarType? dtype=None) -> Tensor")
                   .Doc("Means over the axes dim.")
                   .Infer(Reduction({.dim = 1,
                                     .keepdim = 2,
                                     .dtype = 3,
                                     .result = SumDType::kFloating})));
  registry.Add(
      OpDef("aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor")
          .Doc("The product of all elements.")
          .Infer(Reduction({.dtype = 1, .result = SumDType::kWide})));
  registry.Add(OpDef("aten::prod.dim_int(Tensor self, int dim, bool "
                     "keepdim=False, *, ScalarType? dtype=None) -> Tensor")
                   .Doc("Products over the axis dim.")
                   .Infer(Reduction({.dim = 1,
                                     .keepdim = 2,
                                     .dtype = 3,
                                     .result = SumDType::kWide,
                                     .is_one_axis = true})));
  registry.Add(
      OpDef("aten::count_nonzero(Tensor self, int? dim=None) -> Tensor")
          .Doc("How many elements are not 0.")
          .Infer(Reduction(
              {.dim = 1, .result = SumDType::kIndex, .is_one_axis = true})));
  registry.Add(
      OpDef("aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor")
          .Doc("How many elements are not 0, over the axes dim.")
          .Infer(Reduction({.dim = 1, .result = SumDType::kIndex})));
}

void RegisterExtremes(OpRegistry& registry) {
  const ReductionRule all = {.wants_elements = true};
  const ReductionRule axes = {.dim = 1, .keepdim = 2, .wants_elements = true};
  ReductionRule axis = axes;
  axis.is_one_axis = true;
  registry.Add(OpDef("aten::max(Tensor self) -> Tensor")
                   .Doc("The largest element; NaN if there is one.")
                   .Infer(Reduction(all)));
  registry.Add(OpDef("aten::min(Tensor self) -> Tensor")
                   .Doc("The smallest element; NaN if there is one.")
                   .Infer(Reduction(all)));
  registry.Add(OpDef("aten::amax(Tensor self, int[1] dim=[], bool "
                     "keepdim=False) -> Tensor")
                   .Doc("The largest elements over the axes dim.")
                   .Infer(Reduction(axes)));
  registry.Add(OpDef("aten::amin(Tensor self, int[1] dim=[], bool "
                     "keepdim=False) -> Tensor")
                   .Doc("The smallest elements over the axes dim.")
                   .Infer(Reduction(axes)));
  registry.Add(OpDef("aten::max.dim(Tensor self, int dim, bool keepdim=False) "
                     "-> (Tensor values, Tensor indices)")
                   .Doc("The largest elements along dim and where they stand.")
                   .Infer(WithIndices(axis)));
  registry.Add(OpDef("aten::min.dim(Tensor self, int dim, bool keepdim=False) "
                     "-> (Tensor values, Tensor indices)")
                   .Doc("The smallest elements along dim and where they stand.")
                   .Infer(WithIndices(axis)));
  registry.Add(OpDef("aten::aminmax(Tensor self, *, int? dim=None, bool "
                     "keepdim=False) -> (Tensor min, Tensor max)")
                   .Doc("The smallest and the largest element.")
                   .Infer(Reduction(axis)));
  axis.result = SumDType::kIndex;
  registry.Add(OpDef("aten::argmax(Tensor self, int? dim=None, bool "
                     "keepdim=False) -> Tensor")
                   .Doc("Where the largest element stands, along dim or in "
                        "row-major order.")
                   .Infer(Reduction(axis)));
  registry.Add(OpDef("aten::argmin(Tensor self, int? dim=None, bool "
                     "keepdim=False) -> Tensor")
                   .Doc("Where the smallest element stands, along dim or in "
                        "row-major order.")
                   .Infer(Reduction(axis)));
}

void RegisterTruths(OpRegistry& registry) {
  for (absl::string_view name : {"any", "all"}) {
    const std::string doc = absl::StrCat(
        "True where ", name == "any" ? "an element is" : "no element is not",
        " unequal to 0.");
    const std::string prefix = absl::StrCat("aten::", name);
    registry.Add(OpDef(absl::StrCat(prefix, "(Tensor self) -> Tensor"))
                     .Doc(doc)
                     .Infer(Reduction({.result = SumDType::kTruth})));
    registry.Add(
        OpDef(absl::StrCat(
                  prefix,
                  ".dim(Tensor self, int dim, bool keepdim=False) -> Tensor"))
            .Doc(doc)
            .Infer(Reduction({.dim = 1,
                              .keepdim = 2,
                              .result = SumDType::kTruth,
                              .is_one_axis = true})));
    registry.Add(OpDef(absl::StrCat(prefix,
                                    ".dims(Tensor self, int[]? dim=None, bool "
                                    "keepdim=False) -> Tensor"))
                     .Doc(doc)
                     .Infer(Reduction({.dim = 1,
                                       .keepdim = 2,
                                       .result = SumDType::kTruth,
                                       .empty_is_none = true})));
  }
}

void RegisterMoments(OpRegistry& registry) {
  const ReductionRule moment = {
      .dim = 1, .keepdim = 3, .result = SumDType::kFloating};
  constexpr absl::string_view kParams =
      ".correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, "
      "bool keepdim=False) -> ";
  registry.Add(OpDef(absl::StrCat("aten::var", kParams, "Tensor"))
                   .Doc("The variance, divided by the count less correction "
                        "(1 if None).")
                   .Infer(Reduction(moment)));
  registry.Add(OpDef(absl::StrCat("aten::std", kParams, "Tensor"))
                   .Doc("The square root of the variance.")
                   .Infer(Reduction(moment)));
  registry.Add(
      OpDef(absl::StrCat("aten::var_mean", kParams, "(Tensor, Tensor)"))
          .Doc("The variance and the mean.")
          .Infer(Reduction(moment)));
  registry.Add(
      OpDef(absl::StrCat("aten::std_mean", kParams, "(Tensor, Tensor)"))
          .Doc("The standard deviation and the mean.")
          .Infer(Reduction(moment)));
  registry.Add(
      OpDef("aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? "
            "dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
            "Tensor")
          .Doc("(sum of |x|^ord)^(1/ord); the largest |x| for infinity.")
          .Infer(Reduction({.dim = 2,
                            .keepdim = 3,
                            .dtype = 4,
                            .result = SumDType::kFloating})));
  registry.Add(OpDef("aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor")
                   .Doc("The p-norm of all elements.")
                   .Infer(Reduction({.result = SumDType::kFloating})));
  registry.Add(
      OpDef("aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] "
            "dim, bool keepdim=False) -> Tensor")
          .Doc("p-norms over the axes dim.")
          .Infer(Reduction(
              {.dim = 2, .keepdim = 3, .result = SumDType::kFloating})));
  registry.Add(OpDef("aten::logsumexp(Tensor self, int[1] dim, bool "
                     "keepdim=False) -> Tensor")
                   .Doc("log of the sum of exp, over the axes dim.")
                   .Infer(Reduction(
                       {.dim = 1, .keepdim = 2, .result = SumDType::kReal})));
}

}  // namespace

void RegisterReductionOps(OpRegistry& registry) {
  RegisterSums(registry);
  RegisterExtremes(registry);
  RegisterTruths(registry);
  RegisterMoments(registry);
}

}  // namespace mica
