// Comparisons, logic, bits, choices and plain copies.

#include "absl/strings/str_cat.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/reference.h"

namespace mica {
namespace {

// NAME.Tensor and NAME.Scalar, computed in the operands' promotion.
template <typename F>
void AddComparison(KernelRegistry& registry, absl::string_view name, F f) {
  for (absl::string_view kind : {".Tensor", ".Scalar"}) {
    AddPointwise(
        registry, absl::StrCat("aten.", name, kind),
        {.params = {0, 1}, .fns = MakeFns(f), .compute = ComputeIn::kOperands});
  }
}

template <typename F>
void AddLogical(KernelRegistry& registry, absl::string_view op, F f) {
  AddPointwise(
      registry, op,
      {.params = {0, 1}, .fns = MakeFns(f), .compute = ComputeIn::kOperands});
}

template <typename F>
void AddBitwise(KernelRegistry& registry, absl::string_view name, F f) {
  for (absl::string_view kind : {".Tensor", ".Scalar"}) {
    AddPointwise(registry, absl::StrCat("aten.", name, kind),
                 {{0, 1}, MakeFns(f)});
  }
}

int64_t Bits(double x) { return static_cast<int64_t>(x); }
int64_t Bits(int64_t x) { return x; }

// Shifts by more than an integer's bits, or by a negative number of them, give
// what shifting out all bits gives.
int64_t ShiftedLeft(int64_t x, int64_t by) {
  if (by < 0 || by > 63) return 0;
  return static_cast<int64_t>(static_cast<uint64_t>(x) << by);
}
int64_t ShiftedRight(int64_t x, int64_t by) {
  return x >> (by < 0 || by > 63 ? 63 : by);
}

void RegisterShifts(KernelRegistry& registry) {
  for (absl::string_view kind : {"Tensor", "Tensor_Scalar"}) {
    AddPointwise(registry, absl::StrCat("aten.bitwise_left_shift.", kind),
                 {{0, 1}, MakeFns([](const auto* x) {
                    return ShiftedLeft(Bits(x[0]), Bits(x[1]));
                  })});
    AddPointwise(registry, absl::StrCat("aten.bitwise_right_shift.", kind),
                 {{0, 1}, MakeFns([](const auto* x) {
                    return ShiftedRight(Bits(x[0]), Bits(x[1]));
                  })});
  }
}

// `condition` holds where it is not 0, so it is compared unconverted.
void RegisterChoices(KernelRegistry& registry) {
  const PointwiseFns choose =
      MakeFns([](const auto* x) { return x[0] != 0 ? x[1] : x[2]; });
  for (absl::string_view op : {"aten.where.self", "aten.where.ScalarOther",
                               "aten.where.ScalarSelf", "aten.where.Scalar"}) {
    AddPointwise(registry, op, {{0, 1, 2}, choose});
  }
  for (absl::string_view op :
       {"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"}) {
    AddPointwise(registry, op, {{1, 2, 0}, choose});
  }
}

void RegisterPlainCopies(KernelRegistry& registry) {
  const PointwiseFns first = MakeFns([](const auto* x) { return x[0]; });
  for (absl::string_view op :
       {"aten._to_copy", "aten.clone", "aten.lift_fresh_copy",
        "aten._local_scalar_dense", "mica.send"}) {
    AddPointwise(registry, op, {{0}, first});
  }
  for (absl::string_view op :
       {"aten.copy", "aten.fill.Scalar", "aten.fill.Tensor"}) {
    AddPointwise(registry, op, {{1}, first});
  }
}

}  // namespace

void RegisterReferenceLogic(KernelRegistry& registry) {
  AddComparison(registry, "eq", [](const auto* x) { return x[0] == x[1]; });
  AddComparison(registry, "ne", [](const auto* x) { return x[0] != x[1]; });
  AddComparison(registry, "lt", [](const auto* x) { return x[0] < x[1]; });
  AddComparison(registry, "le", [](const auto* x) { return x[0] <= x[1]; });
  AddComparison(registry, "gt", [](const auto* x) { return x[0] > x[1]; });
  AddComparison(registry, "ge", [](const auto* x) { return x[0] >= x[1]; });
  AddLogical(registry, "aten.logical_and",
             [](const auto* x) { return x[0] != 0 && x[1] != 0; });
  AddLogical(registry, "aten.logical_or",
             [](const auto* x) { return x[0] != 0 || x[1] != 0; });
  AddLogical(registry, "aten.logical_xor",
             [](const auto* x) { return (x[0] != 0) != (x[1] != 0); });
  AddBitwise(registry, "bitwise_and",
             [](const auto* x) { return Bits(x[0]) & Bits(x[1]); });
  AddBitwise(registry, "bitwise_or",
             [](const auto* x) { return Bits(x[0]) | Bits(x[1]); });
  AddBitwise(registry, "bitwise_xor",
             [](const auto* x) { return Bits(x[0]) ^ Bits(x[1]); });
  RegisterShifts(registry);
  RegisterChoices(registry);
  RegisterPlainCopies(registry);
}

}  // namespace mica
