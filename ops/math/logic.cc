// Comparisons, logic, bits and choices.

#include "absl/strings/str_cat.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

struct NamedOp {
  absl::string_view name;
  absl::string_view doc;
};

constexpr NamedOp kComparisons[] = {
    {"eq", "True where self = other."}, {"ne", "True where self ≠ other."},
    {"lt", "True where self < other."}, {"le", "True where self ≤ other."},
    {"gt", "True where self > other."}, {"ge", "True where self ≥ other."},
};
constexpr NamedOp kLogical[] = {
    {"logical_and", "True where both are not 0."},
    {"logical_or", "True where one is not 0."},
    {"logical_xor", "True where exactly one is not 0."},
};
constexpr NamedOp kBitwise[] = {
    {"bitwise_and", "Bits set in both."},
    {"bitwise_or", "Bits set in one or both."},
    {"bitwise_xor", "Bits set in exactly one."},
};
constexpr NamedOp kShifts[] = {
    {"bitwise_left_shift", "self times 2 to the power of other."},
    {"bitwise_right_shift",
     "self divided by 2 to the power of other, rounded down."},
};

// NAME.Tensor and NAME.Scalar.
void AddBoth(OpRegistry& registry, const NamedOp& op, PointwiseRule rule) {
  registry.Add(PointwiseOp(absl::StrCat("aten::", op.name,
                                        ".Tensor(Tensor self, Tensor other) -> "
                                        "Tensor"),
                           op.doc, rule));
  registry.Add(PointwiseOp(absl::StrCat("aten::", op.name,
                                        ".Scalar(Tensor self, Scalar other) -> "
                                        "Tensor"),
                           op.doc, rule));
}

// Choices by a condition, which takes no part in promotion.
void RegisterChoices(OpRegistry& registry) {
  const PointwiseRule where = {.operands = {1, 2}};
  constexpr absl::string_view kDoc = "self where condition holds, else other.";
  registry.Add(PointwiseOp(
      "aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
      kDoc, where));
  registry.Add(PointwiseOp(
      "aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> "
      "Tensor",
      kDoc, where));
  registry.Add(PointwiseOp(
      "aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> "
      "Tensor",
      kDoc, where));
  registry.Add(PointwiseOp(
      "aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> "
      "Tensor",
      kDoc, where));
  const PointwiseRule first = {.operands = {0}, .result = ResultRule::kFirst};
  registry.Add(PointwiseOp(
      "aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> "
      "Tensor",
      "value where mask holds, else self.", first));
  registry.Add(PointwiseOp(
      "aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> "
      "Tensor",
      "value where mask holds, else self.", first));
}

}  // namespace

void RegisterLogicOps(OpRegistry& registry) {
  const PointwiseRule predicate = {.operands = {0, 1},
                                   .result = ResultRule::kBool};
  for (const NamedOp& op : kComparisons) AddBoth(registry, op, predicate);
  for (const NamedOp& op : kLogical) {
    registry.Add(
        PointwiseOp(absl::StrCat("aten::", op.name,
                                 "(Tensor self, Tensor other) -> Tensor"),
                    op.doc, predicate));
  }
  for (const NamedOp& op : kBitwise) {
    AddBoth(registry, op, {.operands = {0, 1}, .accepts = Accepts::kBitwise});
  }
  for (const NamedOp& op : kShifts) {
    const PointwiseRule integers = {.operands = {0, 1},
                                    .accepts = Accepts::kBitwise};
    registry.Add(PointwiseOp(
        absl::StrCat("aten::", op.name,
                     ".Tensor(Tensor self, Tensor other) -> Tensor"),
        op.doc, integers));
    registry.Add(PointwiseOp(
        absl::StrCat("aten::", op.name,
                     ".Tensor_Scalar(Tensor self, Scalar other) -> Tensor"),
        op.doc, integers));
  }
  RegisterChoices(registry);
}

}  // namespace mica
