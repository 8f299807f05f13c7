// Where a template holds, as conditions on numbers: for Programs with symbols,
// which know nothing else of it.

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analysis/sizes/size_template.h"
#include "analysis/sizes/size_walk.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// What holds of a and b, given how the comparison came out; "" if unknown.
std::string RelationOf(const SizeFacts::Comparison& comparison) {
  struct Known {
    absl::string_view op, if_true, if_false;
  };
  constexpr std::array<Known, 3> kKnown = {{{"mica.scalar_lt", "<", ">="},
                                            {"mica.scalar_le", "<=", ">"},
                                            {"mica.scalar_eq", "==", "!="}}};
  for (const Known& known : kKnown) {
    if (known.op != comparison.op) continue;
    return std::string(comparison.outcome ? known.if_true : known.if_false);
  }
  return "";
}

// A whole constant above 0; 0 for anything else.
int64_t DivisorOf(const TapeHostOperand& operand) {
  const std::optional<int64_t> divisor = WholeOf(operand.constant);
  return operand.id < 0 && divisor.has_value() && *divisor > 0 ? *divisor : 0;
}

// Of polynomials a polynomial, if it is whole.
bool KeepsPolynomials(const SizeFacts::Number& number) {
  constexpr std::array<absl::string_view, 7> kOps = {
      "mica.int_add",    "mica.int_sub",    "mica.int_mul",   "mica.scalar_add",
      "mica.scalar_sub", "mica.scalar_mul", "mica.scalar_neg"};
  return absl::c_linear_search(kOps, number.op) ||
         (number.op == "mica.scalar_div" && DivisorOf(number.operands[1]) > 0);
}

// Views whose place in memory follows from conditions here and from their
// sizes: no steps, and nothing of which the smaller one counts.
bool IsPlainView(const TapeCall& call, absl::Span<const TapeValue> args) {
  constexpr std::array<absl::string_view, 25> kPlain = {
      "aten.view",
      "aten._unsafe_view",
      "aten._reshape_alias",
      "aten.expand",
      "aten.transpose.int",
      "aten.permute",
      "aten.t",
      "aten.squeeze",
      "aten.squeeze.dim",
      "aten.squeeze.dims",
      "aten.unsqueeze",
      "aten.select.int",
      "aten.slice.Tensor",
      "aten.alias",
      "aten.detach",
      "aten.split.Tensor",
      "aten.unbind.int",
      "aten.split_with_sizes",
      "aten.lift_fresh",
      "aten.view_as_real",
      "aten.view_as_complex",
      "aten.movedim.intlist",
      "aten.view.dtype",
      "aten.unsafe_split.Tensor",
      "aten.unsafe_split_with_sizes"};
  if (!absl::c_linear_search(kPlain, call.op)) return false;
  if (call.op != "aten.slice.Tensor" || args.size() < 5) return true;
  const auto* step = std::get_if<int64_t>(&args[4]);
  return step != nullptr && *step == 1;
}

}  // namespace

// Gathers conditions at certain sizes.
class SizeTemplate::Conditions {
 public:
  Conditions(const SizeTemplate& made, Walk& walk)
      : made_(made),
        walk_(walk),
        numbers_(walk.numbers()),
        is_followed_(made.facts_.numbers.size()) {}

  absl::StatusOr<std::vector<SizeCondition>> Find() {
    AddSizes();
    MICA_RETURN_IF_ERROR(FollowTerms());
    MICA_RETURN_IF_ERROR(AddComparisons());
    MICA_RETURN_IF_ERROR(AddSlices());
    for (size_t i = 0; i < made_.tape().calls.size(); ++i) {
      MICA_RETURN_IF_ERROR(AddPlaces(static_cast<int32_t>(i)));
    }
    return std::move(conditions_);
  }

 private:
  absl::Status Add(double a, std::string relation, double b,
                   int64_t divisor = 1) {
    const std::optional<int64_t> left = WholeOf(a), right = WholeOf(b);
    if (!left.has_value() || !right.has_value()) {
      return Unlike("it goes by numbers that aren't whole");
    }
    conditions_.push_back({*left, divisor, std::move(relation), *right});
    return absl::OkStatus();
  }

  // 0 and 1 are programs of their own.
  void AddSizes() {
    for (size_t id = 0; id < walk_.sizes().size(); ++id) {
      const auto tensor = static_cast<TapeTensorId>(id);
      if (!walk_.IsKnown(tensor)) continue;
      for (const SizeGroups::Member& open : made_.groups_->of(tensor)) {
        conditions_.push_back({walk_.sizes()[id].sizes[open.dim], 1, ">=", 2});
      }
    }
  }

  // Numbers that the program's calls are made with.
  absl::Status FollowTerms() {
    const auto follow = [&](const SizeSlot& slot) -> absl::Status {
      for (const SizeTerm& term : slot.terms) {
        if (term.scale != 0 || term.parts != 0 || term.by_size != 0) {
          return Unlike("it rounds a size in ATen");
        }
        if (term.number >= 0) MICA_RETURN_IF_ERROR(Follow(term.number));
      }
      return absl::OkStatus();
    };
    for (const SizeSlot& slot : made_.slots_) {
      MICA_RETURN_IF_ERROR(follow(slot));
    }
    for (const auto& [tensor, slots] : made_.explained_) {
      for (const SizeSlot& slot : slots) MICA_RETURN_IF_ERROR(follow(slot));
    }
    for (const TapeHostValue& value : made_.tape().host_values) {
      if (value.size >= 0) MICA_RETURN_IF_ERROR(Follow(value.size));
    }
    return absl::OkStatus();
  }

  // What a number is computed of, but for sizes: sums and products, which show
  // in what they give, and rounded quotients, which may not: of each of these
  // it is a condition that it is what it seems to be.
  absl::Status Follow(int32_t id) {
    if (is_followed_[id]) return absl::OkStatus();
    is_followed_[id] = true;
    const SizeFacts::Number& number = made_.facts_.numbers[id];
    if (number.op.empty()) return absl::OkStatus();
    const bool is_quotient =
        number.op == "mica.int_floordiv" && DivisorOf(number.operands[1]) > 0;
    const bool is_max = number.op == "mica.int_max";
    const bool is_extreme = is_max || number.op == "mica.int_min";
    if (!is_quotient && !is_extreme && !KeepsPolynomials(number)) {
      return Unlike(
          absl::StrCat("it computes numbers of sizes by ", number.op));
    }
    for (const TapeHostOperand& operand : number.operands) {
      if (operand.id >= 0) MICA_RETURN_IF_ERROR(Follow(operand.id));
    }
    if (is_extreme) return AddExtreme(number, is_max);
    if (!is_quotient) return absl::OkStatus();
    return Add(numbers_.Of(number.operands[0]), "==", numbers_.Of(id),
               DivisorOf(number.operands[1]));
  }
  // It is the same one of the two everywhere.
  absl::Status AddExtreme(const SizeFacts::Number& number, bool is_max) {
    const double a = numbers_.Of(number.operands[0]);
    const double b = numbers_.Of(number.operands[1]);
    const bool is_first = is_max ? a >= b : a <= b;
    return Add(is_first ? a : b, is_max ? ">=" : "<=", is_first ? b : a);
  }
  absl::StatusOr<double> Followed(const TapeHostOperand& operand) {
    if (operand.id >= 0) MICA_RETURN_IF_ERROR(Follow(operand.id));
    return numbers_.Of(operand);
  }

  absl::Status AddComparisons() {
    for (const SizeFacts::Comparison& comparison : made_.facts_.comparisons) {
      const std::string relation = RelationOf(comparison);
      if (relation.empty()) return Unlike("it compares sizes in another way");
      MICA_ASSIGN_OR_RETURN(const double a, Followed(comparison.a));
      MICA_ASSIGN_OR_RETURN(const double b, Followed(comparison.b));
      MICA_RETURN_IF_ERROR(Add(a, relation, b));
    }
    for (const auto& [number, value] : made_.constant_) {
      MICA_RETURN_IF_ERROR(Follow(number));
      MICA_RETURN_IF_ERROR(Add(numbers_.Of(number), "==", value));
    }
    return absl::OkStatus();
  }

  // Slices that were all of their dims, and so are no calls.
  absl::Status AddSlices() {
    for (const SizeFacts::Slice& slice : made_.slices_) {
      const std::vector<int64_t>& sizes = walk_.sizes()[slice.tensor].sizes;
      const auto rank = static_cast<int32_t>(sizes.size());
      const int32_t dim = slice.dim < 0 ? slice.dim + rank : slice.dim;
      if (dim < 0 || dim >= rank) return Unlike("a slice of an unknown dim");
      MICA_ASSIGN_OR_RETURN(const double start, Followed(slice.start));
      MICA_ASSIGN_OR_RETURN(const double stop, Followed(slice.stop));
      MICA_RETURN_IF_ERROR(Add(start, "==", 0));
      if (std::isinf(stop) && stop > 0) continue;
      MICA_RETURN_IF_ERROR(Add(stop, ">=", static_cast<double>(sizes[dim])));
    }
    return absl::OkStatus();
  }

  // Where slices and indices lie in their dims. Programs may have no op for
  // such a view but its place in memory.
  absl::Status AddPlaces(int32_t index) {
    const TapeCall& call = made_.tape().calls[index];
    const std::vector<TapeValue>& args = walk_.args()[index];
    if (args.empty() || !std::holds_alternative<TapeTensorRef>(args[0])) {
      return absl::OkStatus();
    }
    const TapeTensorId self = std::get<TapeTensorRef>(args[0]).id;
    const bool is_open = !made_.groups_->of(self).empty();
    if (IsViewCall(call) && !IsPlainView(call, args)) {
      if (!is_open && !HasSlots(index)) return absl::OkStatus();
      return Unlike(absl::StrCat(call.op, " goes by sizes"));
    }
    if (call.op != "aten.slice.Tensor" && call.op != "aten.select.int") {
      return absl::OkStatus();
    }
    const std::vector<int64_t>& now = walk_.sizes()[self].sizes;
    const std::vector<int64_t>& then = made_.tape().tensors[self].sizes;
    const auto* dim = std::get_if<int64_t>(&args[1]);
    if (dim == nullptr) return absl::OkStatus();
    const size_t at = *dim < 0 ? *dim + now.size() : *dim;
    for (size_t arg = 2; arg < std::min<size_t>(args.size(), 4); ++arg) {
      const auto* place = std::get_if<int64_t>(&args[arg]);
      const auto* recorded = std::get_if<int64_t>(&call.args[arg]);
      if (place == nullptr || recorded == nullptr) continue;
      // Ends far beyond any dim are none.
      constexpr int64_t kNoEnd = int64_t{1} << 62;
      if (*place >= kNoEnd) continue;
      const auto note = [&](int64_t a, int64_t b, bool is_less) {
        conditions_.push_back({a, 1, is_less ? "<" : ">=", b});
      };
      const int64_t size = now[at], was = then[at];
      note(*place, 0, *recorded < 0);
      note(*place, -size, *recorded < -was);
      // An index is below the size, an end may be it.
      const int64_t beyond = call.op == "aten.select.int" ? 0 : 1;
      note(*place, size + beyond, *recorded < was + beyond);
    }
    return absl::OkStatus();
  }

  // Whether a number of the call varies.
  bool HasSlots(int32_t call) const {
    return absl::c_any_of(made_.slots_, [call](const SizeSlot& slot) {
      return slot.call == call;
    });
  }

  const SizeTemplate& made_;
  Walk& walk_;
  SizeNumbers& numbers_;
  std::vector<bool> is_followed_;  // By number.
  std::vector<SizeCondition> conditions_;
};

absl::StatusOr<std::vector<SizeCondition>> SizeTemplate::ConditionsAt(
    absl::Span<const TensorSizes> inputs,
    absl::Span<const double> given) const {
  if (rounds_.num_loops() != 0) return Unlike("it goes through loops by sizes");
  Walk walk(*this, given);
  MICA_RETURN_IF_ERROR(walk.Go(inputs));
  return Conditions(*this, walk).Find();
}

}  // namespace mica
