// Comparisons, boolean operators and selection.

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/tensor/promotion.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

constexpr DType kAll[] = {DType::kF32, DType::kF64, DType::kI64, DType::kI32,
                          DType::kBool};

void UnaryRow(const PointwiseLoop& loop, const void* const* in, void* out,
              int64_t n) {
  loop.unary(in[0], out, n);
}

void BinaryRow(const PointwiseLoop& loop, const void* const* in, void* out,
               int64_t n) {
  loop.binary(in[0], in[1], out, n, nullptr);
}

void SelectRow(const PointwiseLoop& loop, const void* const* in, void* out,
               int64_t n) {
  loop.select(static_cast<const bool*>(in[0]), in[1], in[2], out, n);
}

TensorType TypeOf(const Source& source) {
  if (source.type != nullptr) return *source.type;
  if (std::holds_alternative<bool>(source.constant)) {
    return ScalarType(DType::kBool);
  }
  return ScalarType(std::holds_alternative<int64_t>(source.constant)
                        ? DType::kI64
                        : DType::kF64);
}

// `elem` is what the operands are compared in.
Verdict PrepareIn(const KernelRequest& request, Binary op, Elem elem,
                  const Source& a, const Source& b) {
  auto loop = std::make_shared<PointwiseLoop>();
  loop->row = BinaryRow;
  const Source sources[] = {a, b};
  constexpr bool kKeeps[] = {false, false};
  if (auto no = LayOut(request, sources, elem, kKeeps, *loop)) return No{*no};
  if (!SetBinary(op, elem, *loop)) return No{"no vector loop for this dtype"};
  return Finish(request, sources, std::move(loop));
}

PrepareFn CompareOf(Binary op) {
  return [op](const KernelRequest& request) -> Verdict {
    const auto a = SourceOf(request, 0), b = SourceOf(request, 1);
    if (!a.has_value() || !b.has_value()) return No{"an operand is None"};
    Promotion promotion;
    promotion.Add(TypeOf(*a));
    promotion.Add(TypeOf(*b));
    const auto elem = ElemOf(promotion.dtype());
    if (!elem.has_value()) return No{"no vector loop for this dtype"};
    return PrepareIn(request, op, *elem, *a, *b);
  };
}

// Boolean operators: other types are true where they aren't 0.
PrepareFn LogicalOf(Binary op) {
  return [op](const KernelRequest& request) -> Verdict {
    const auto a = SourceOf(request, 0), b = SourceOf(request, 1);
    if (!a.has_value() || !b.has_value()) return No{"an operand is None"};
    return PrepareIn(request, op, Elem::kBool, *a, *b);
  };
}

PrepareFn BitwiseOf(Binary op) {
  return [op](const KernelRequest& request) -> Verdict {
    if (request.results[0].type.dtype != DType::kBool) return No{"not bool"};
    return LogicalOf(op)(request);
  };
}

Verdict PrepareNot(const KernelRequest& request) {
  const auto x = SourceOf(request, 0);
  if (!x.has_value() || request.results[0].type.dtype != DType::kBool) {
    return No{"not bool"};
  }
  auto loop = std::make_shared<PointwiseLoop>();
  loop->row = UnaryRow;
  loop->unary =
      Simd()
          .unary[static_cast<int>(Unary::kNot)][static_cast<int>(Elem::kBool)];
  const Source sources[] = {*x};
  constexpr bool kKeeps[] = {false};
  if (auto no = LayOut(request, sources, Elem::kBool, kKeeps, *loop)) {
    return No{*no};
  }
  return Finish(request, sources, std::move(loop));
}

// result = condition ? yes : no, by the positions of the parameters.
PrepareFn SelectOf(int condition, int yes, int no) {
  return [=](const KernelRequest& request) -> Verdict {
    const auto c = SourceOf(request, condition);
    const auto a = SourceOf(request, yes), b = SourceOf(request, no);
    const auto elem = ElemOf(request.results[0].type.dtype);
    if (!c.has_value() || !a.has_value() || !b.has_value() ||
        !elem.has_value() || c->type == nullptr ||
        c->type->dtype != DType::kBool) {
      return No{"no vector loop"};
    }
    auto loop = std::make_shared<PointwiseLoop>();
    loop->row = SelectRow;
    loop->longest_short_row = 64;
    const Source sources[] = {*c, *a, *b};
    constexpr bool kKeeps[] = {true, false, false};
    if (auto why = LayOut(request, sources, *elem, kKeeps, *loop)) {
      return No{*why};
    }
    PointwiseLoop::Input& first = loop->inputs[0];
    if (first.is_single && loop->inner > 1) {
      // The loop wants an array of conditions.
      first.is_single = false;
      first.is_gathered = true;
    }
    const int log2_bytes = *elem == Elem::kBool                       ? 0
                           : kElemBytes[static_cast<int>(*elem)] == 4 ? 2
                                                                      : 3;
    const int form = (loop->inputs[1].is_single ? 0 : 1) +
                     (loop->inputs[2].is_single ? 0 : 2);
    loop->select = Simd().select[log2_bytes][form];
    return Finish(request, sources, std::move(loop));
  };
}

}  // namespace

void RegisterLogic(KernelRegistry& registry) {
  auto add = [&registry](absl::string_view op, absl::string_view name,
                         PrepareFn prepare) {
    registry.Add(absl::StrCat("aten.", op), kAll, KernelRank::kFast,
                 {absl::StrCat("cpu.", name), std::move(prepare)});
  };
  const struct {
    absl::string_view name;
    Binary op;
  } compares[] = {{"eq", Binary::kEq}, {"ne", Binary::kNe},
                  {"lt", Binary::kLt}, {"le", Binary::kLe},
                  {"gt", Binary::kGt}, {"ge", Binary::kGe}};
  for (const auto& compare : compares) {
    for (absl::string_view form : {".Tensor", ".Scalar"}) {
      add(absl::StrCat(compare.name, form), compare.name,
          CompareOf(compare.op));
    }
  }
  add("logical_and", "and", LogicalOf(Binary::kAnd));
  add("logical_or", "or", LogicalOf(Binary::kOr));
  add("logical_xor", "xor", LogicalOf(Binary::kXor));
  add("logical_not", "not", PrepareNot);
  add("bitwise_not", "not", PrepareNot);
  add("bitwise_and.Tensor", "and", BitwiseOf(Binary::kAnd));
  add("bitwise_or.Tensor", "or", BitwiseOf(Binary::kOr));
  add("bitwise_xor.Tensor", "xor", BitwiseOf(Binary::kXor));
  for (absl::string_view form : {".self", ".ScalarOther", ".ScalarSelf"}) {
    add(absl::StrCat("where", form), "where", SelectOf(0, 1, 2));
  }
  add("masked_fill.Scalar", "masked_fill", SelectOf(1, 2, 0));
  add("masked_fill.Tensor", "masked_fill", SelectOf(1, 2, 0));
}

}  // namespace mica::cpu
