#include "ops/infer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/tensor/promotion.h"

namespace mica {
namespace {

bool IsAccepted(Accepts accepts, DType dtype) {
  switch (accepts) {
    case Accepts::kAny:
      return true;
    case Accepts::kNoBool:
      return dtype != DType::kBool;
    case Accepts::kBitwise:
      return !IsFloating(dtype);
    case Accepts::kFloating:
      return IsFloating(dtype);
  }
  return false;
}

absl::string_view AcceptedText(Accepts accepts) {
  switch (accepts) {
    case Accepts::kAny:
      return "numbers";
    case Accepts::kNoBool:
      return "numbers that are not bool";
    case Accepts::kBitwise:
      return "integers or bool";
    case Accepts::kFloating:
      return "floating-point numbers";
  }
  return "";
}

// The promotion of the rule's operands; constants count as host scalars.
Promotion Promote(const OpCall& call, const PointwiseRule& rule) {
  Promotion promotion;
  for (int param : rule.operands) {
    if (!call.Has(param)) continue;
    promotion.Add(call.IsValue(param) ? call.Type(param)
                                      : ScalarType(call.NumberDType(param)));
  }
  return promotion;
}

// True if every value among the arguments is a host scalar.
bool AreScalars(const OpCall& call) {
  const int num_params = static_cast<int>(call.def().schema().params.size());
  for (int i = 0; i < num_params; ++i) {
    if (call.IsValue(i) && !call.Type(i).is_scalar) return false;
  }
  return true;
}

DType ResultDType(const OpCall& call, const PointwiseRule& rule,
                  const Promotion& promotion) {
  // Python's float is f64 among its kind and torch's default in a tensor.
  const DType real = AreScalars(call) ? DType::kF64 : DType::kF32;
  const bool is_number = promotion.is_scalar() && IsFloating(promotion.dtype());
  const DType promoted = is_number ? real : promotion.dtype();
  switch (rule.result) {
    case ResultRule::kPromoted:
      return promoted;
    case ResultRule::kFloat:
      return IsFloating(promoted) ? promoted : real;
    case ResultRule::kBool:
      return DType::kBool;
    case ResultRule::kFirst:
      return call.Type(rule.operands[0]).dtype;
  }
  return promoted;
}

// The dims that all value arguments broadcast to.
absl::StatusOr<Dims> BroadcastAll(const OpCall& call) {
  Dims dims;
  const auto& params = call.def().schema().params;
  for (int i = 0; i < static_cast<int>(params.size()); ++i) {
    if (!call.IsValue(i)) continue;
    const TensorType& type = call.Type(i);
    if (params[i].kind == ParamKind::kScalar && type.rank() != 0) {
      return call.Wants(absl::StrCat("a number for '", params[i].name, "'"));
    }
    if (!BroadcastDims(dims, type.dims, &dims)) {
      return call.Wants("shapes that broadcast");
    }
  }
  return dims;
}

}  // namespace

TensorType FreshTensor(DType dtype, Dims dims) {
  return TensorType{.dtype = dtype, .dims = std::move(dims)};
}

InferFn Pointwise(PointwiseRule rule) {
  return [rule = std::move(rule)](
             const OpCall& call) -> absl::StatusOr<TensorTypes> {
    MICA_ASSIGN_OR_RETURN(Dims dims, BroadcastAll(call));
    const Promotion promotion = Promote(call, rule);
    if (!IsAccepted(rule.accepts, promotion.dtype())) {
      return call.Wants(AcceptedText(rule.accepts));
    }
    if (rule.keeps_first_dims && call.Type(rule.operands[0]).dims != dims) {
      return call.Wants("operands that broadcast to the first");
    }
    TensorType type =
        FreshTensor(ResultDType(call, rule, promotion), std::move(dims));
    type.is_scalar = AreScalars(call);
    return TensorTypes{std::move(type)};
  };
}

OpDef PointwiseOp(absl::string_view schema, absl::string_view doc,
                  PointwiseRule rule) {
  return OpDef(schema).Doc(doc).Infer(Pointwise(std::move(rule))).Elementwise();
}

InferFn SameTypeAs(int param) {
  return [param](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    TensorType type = call.Type(param);
    type.strides.clear();
    return TensorTypes{std::move(type)};
  };
}

bool BroadcastDims(absl::Span<const Dim> a, absl::Span<const Dim> b,
                   Dims* result) {
  const size_t rank = std::max(a.size(), b.size());
  Dims dims(rank);
  for (size_t i = 0; i < rank; ++i) {
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const Dim y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    dims[rank - 1 - i] = x == 1 ? y : x;
  }
  *result = std::move(dims);
  return true;
}

bool BroadcastsTo(absl::Span<const Dim> from, absl::Span<const Dim> to) {
  Dims dims;
  return BroadcastDims(from, to, &dims) && absl::Span<const Dim>(dims) == to;
}

absl::StatusOr<int> NormalizeAxis(const OpCall& call, int64_t axis, int rank) {
  const int64_t limit = std::max(rank, 1);
  if (axis < -limit || axis >= limit) {
    return call.Wants(absl::StrCat("an axis from ", -limit, " to ", limit - 1,
                                   ", not ", axis, ","));
  }
  return static_cast<int>(axis < 0 ? axis + limit : axis);
}

absl::StatusOr<absl::InlinedVector<bool, 5>> MarkAxes(
    const OpCall& call, absl::Span<const int64_t> axes, int rank) {
  absl::InlinedVector<bool, 5> marked(std::max(rank, 1), false);
  for (int64_t axis : axes) {
    MICA_ASSIGN_OR_RETURN(const int index, NormalizeAxis(call, axis, rank));
    if (marked[index]) return call.Wants("each axis once");
    marked[index] = true;
  }
  marked.resize(rank);
  return marked;
}

absl::StatusOr<absl::InlinedVector<bool, 5>> MarkReducedAxes(const OpCall& call,
                                                             int param,
                                                             int rank) {
  if (!call.Has(param) || call.Ints(param).empty()) {
    return absl::InlinedVector<bool, 5>(rank, true);
  }
  return MarkAxes(call, call.Ints(param), rank);
}

Dims ReduceDims(absl::Span<const Dim> dims, absl::Span<const bool> marked,
                Reduced reduced) {
  Dims result;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!marked[i]) {
      result.push_back(dims[i]);
    } else if (reduced == Reduced::kKept) {
      result.push_back(1);
    }
  }
  return result;
}

int64_t CountOf(absl::Span<const Dim> dims) {
  int64_t count = 1;
  for (Dim dim : dims) {
    if (__builtin_mul_overflow(count, dim, &count)) return -1;
  }
  return count;
}

bool IsConstantNumber(const OpCall& call, int param) {
  return call.Has(param) && !call.IsValue(param);
}

DType DTypeOr(const OpCall& call, int param, DType otherwise) {
  if (!call.Has(param)) return otherwise;
  const auto* dtype = std::get_if<DType>(&call.arguments()[param]);
  return dtype != nullptr ? *dtype : otherwise;
}

int64_t IntOr(const OpCall& call, int param, int64_t otherwise) {
  return call.Has(param) ? call.Int(param) : otherwise;
}

bool BoolOrFalse(const OpCall& call, int param) {
  return call.Has(param) && call.Bool(param);
}

}  // namespace mica
