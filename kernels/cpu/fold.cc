// Reductions of any axes where elements or results are neighbours in memory, to
// sums, norms, products, variances, counts; of numbers of 16 bits, too, which
// are widened tile by tile. kernels/cpu/reduction.cc comes before for what it
// has.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "kernels/cpu/axes.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/fold_plan.h"
#include "kernels/cpu/fold_run.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/widened.h"

namespace mica::cpu {
namespace {

using Ending = FoldEnding;

// An op's parameters that matter, -1 where there is none.
struct Params {
  int dim = -1, order = -1, correction = -1;
};

// The fields that follow from the types; nothing if these aren't taken.
std::optional<No> SetTypes(const KernelRequest& request, int dim_param,
                           FoldState& s) {
  const TensorType& x = request.operands[0].type;
  if (request.operands.size() != 1) return No{"a number varies"};
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return No{"a result isn't row-major"};
  }
  const auto plan = FoldPlan::Of(x, MarkedAxes(request, dim_param, x.rank()));
  if (!plan.has_value()) return No{"neither elements nor results lie together"};
  s.plan = *plan;
  s.bytes = ElementBytes(x.dtype);
  s.out = request.results[0].type.dtype;
  s.out_bytes = ElementBytes(s.out);
  s.num_threads = UsefulThreads(request.num_threads, x.num_elements());
  return std::nullopt;
}

void SetLoops(FoldFn rows, FoldFn columns, FoldState& s) {
  constexpr int64_t kFewest = 16;  // Rows that are worth turning.
  s.fold = s.plan.by_columns ? columns : rows;
  if (!s.plan.by_columns && s.plan.reduced.size <= kShortFold &&
      s.plan.kept.size >= kFewest) {
    s.fold_turned = columns;
  }
}

Verdict Ready(const FoldState& s) {
  Prepared prepared;
  prepared.launch = LaunchFold;
  prepared.never_fails = true;
  prepared.state = std::make_shared<const FoldState>(s);
  return prepared;
}

Verdict PrepareFold(const KernelRequest& request, Fold fold, Ending ending,
                    const Params& params) {
  FoldState s{.ending = ending};
  if (auto no = SetTypes(request, params.dim, s)) return *no;
  const DType own = request.operands[0].type.dtype;
  const bool is_whole = own == DType::kI64 || own == DType::kI32;
  if (is_whole ? s.out != DType::kI64 : s.out != own) return No{"converts"};
  s.is_whole = is_whole;
  auto elem = ElemOf(own);
  const auto half = HalfOf(own);
  if (half.has_value()) {
    s.widen = Simd().widen[static_cast<int>(*half)];
    s.narrow = Simd().narrow[static_cast<int>(*half)];
    s.out = DType::kF32;
    elem = Elem::kF32;
  }
  if (!elem.has_value()) return No{"no vector loop for this dtype"};
  const int f = static_cast<int>(fold), e = static_cast<int>(*elem);
  FoldFn rows = Simd().fold_rows[f][e], columns = Simd().fold_columns[f][e];
  if (rows == nullptr) return No{"no vector loop for this dtype"};
  if (half.has_value() && fold == Fold::kSum) {
    rows = Simd().half_sum_rows[static_cast<int>(*half)];
    columns = Simd().half_sum_columns[static_cast<int>(*half)];
    s.widen = nullptr;
  }
  constexpr int64_t kLong = 4096;
  if (fold == Fold::kProduct && !is_whole && !half.has_value() &&
      !s.plan.by_columns && s.plan.reduced.size > kLong) {
    return No{"ATen's products of long rows are faster"};
  }
  SetLoops(rows, columns, s);
  const double count = static_cast<double>(s.plan.elements);
  if (ending == Ending::kMean) s.divisor = count;
  if (fold == Fold::kMoments) {
    const double correction =
        request.Has(params.correction) ? request.Number(params.correction) : 1;
    s.divisor = std::max(count - correction, 0.0);
    s.gives_mean = request.results.size() > 1;
  }
  return Ready(s);
}

PrepareFn FoldOf(Fold fold, Ending ending, Params params) {
  return [=](const KernelRequest& request) {
    return PrepareFold(request, fold, ending, params);
  };
}

// The bits of an element that aren't its sign.
uint64_t MaskOf(DType dtype) {
  const int bits = static_cast<int>(ElementBytes(dtype) * 8);
  const uint64_t all = ~uint64_t{0} >> (64 - bits);
  return IsFloating(dtype) ? all >> 1 : all;
}

Verdict PrepareCount(const KernelRequest& request, Ending ending, int dim_param,
                     bool empty_is_none) {
  const bool is_list =
      dim_param >= 0 && request.Has(dim_param) &&
      !std::holds_alternative<int64_t>((*request.arguments)[dim_param]);
  if (empty_is_none && is_list && request.Ints(dim_param).empty()) {
    return No{"reduces nothing"};
  }
  FoldState s{.ending = ending, .is_whole = true};
  if (auto no = SetTypes(request, dim_param, s)) return *no;
  const DType own = request.operands[0].type.dtype;
  const int log2 = s.bytes == 1 ? 0 : s.bytes == 2 ? 1 : s.bytes == 4 ? 2 : 3;
  SetLoops(Simd().count_rows[log2], Simd().count_columns[log2], s);
  s.mask = MaskOf(own);
  return Ready(s);
}

// A norm of an order that needs no power. `order` is null where it is 2.
Verdict PrepareNorm(const KernelRequest& request, const Params& params) {
  double order = 2;
  if (request.Has(params.order)) {
    if (request.OperandIndex(params.order) >= 0) return No{"the order varies"};
    order = request.Number(params.order);
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Fold fold;
  Ending ending = Ending::kItself;
  if (order == 2) {
    fold = Fold::kSumSquares;
    ending = Ending::kRoot;
  } else if (order == 1) {
    fold = Fold::kSumAbs;
  } else if (order == kInfinity) {
    fold = Fold::kLargestAbs;
  } else if (order == -kInfinity) {
    fold = Fold::kSmallestAbs;
  } else {
    return No{"another order"};
  }
  return PrepareFold(request, fold, ending, params);
}

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kBF16,
                             DType::kF16};
constexpr DType kWideFloats[] = {DType::kF32, DType::kF64};
constexpr DType kCounted[] = {
    DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
    DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

void AddCounts(KernelRegistry& registry) {
  const struct {
    absl::string_view op;
    Ending ending;
    int dim = -1;
    bool empty_is_none = false;
  } counts[] = {{"aten.any", Ending::kAny},
                {"aten.any.dim", Ending::kAny, 1},
                {"aten.any.dims", Ending::kAny, 1, true},
                {"aten.all", Ending::kAll},
                {"aten.all.dim", Ending::kAll, 1},
                {"aten.all.dims", Ending::kAll, 1, true},
                {"aten.count_nonzero", Ending::kCount, 1},
                {"aten.count_nonzero.dim_IntList", Ending::kCount, 1}};
  for (const auto& count : counts) {
    registry.Add(count.op, kCounted, KernelRank::kFast,
                 {"cpu.count", [count](const KernelRequest& request) {
                    return PrepareCount(request, count.ending, count.dim,
                                        count.empty_is_none);
                  }});
  }
}

}  // namespace

void RegisterFold(KernelRegistry& registry) {
  const struct {
    absl::string_view op;
    Fold fold;
    Ending ending = Ending::kItself;
    Params params = {};
  } folds[] = {
      {"aten.sum", Fold::kSum},
      {"aten.sum.dim_IntList", Fold::kSum, Ending::kItself, {.dim = 1}},
      {"aten.mean", Fold::kSum, Ending::kMean},
      {"aten.mean.dim", Fold::kSum, Ending::kMean, {.dim = 1}},
      {"aten.max", Fold::kLargest},
      {"aten.min", Fold::kSmallest},
      {"aten.amax", Fold::kLargest, Ending::kItself, {.dim = 1}},
      {"aten.amin", Fold::kSmallest, Ending::kItself, {.dim = 1}},
      {"aten.prod", Fold::kProduct},
      {"aten.prod.dim_int", Fold::kProduct, Ending::kItself, {.dim = 1}},
      {"aten.logsumexp", Fold::kLogSumExp, Ending::kLogarithm, {.dim = 1}},
      {"aten.var.correction",
       Fold::kMoments,
       Ending::kVariance,
       {.dim = 1, .correction = 2}},
      {"aten.var_mean.correction",
       Fold::kMoments,
       Ending::kVariance,
       {.dim = 1, .correction = 2}},
      {"aten.std.correction",
       Fold::kMoments,
       Ending::kDeviation,
       {.dim = 1, .correction = 2}},
      {"aten.std_mean.correction",
       Fold::kMoments,
       Ending::kDeviation,
       {.dim = 1, .correction = 2}}};
  for (const auto& fold : folds) {
    // Extremes of 16 bits ATen finds without widening them.
    const bool is_extreme =
        fold.fold == Fold::kLargest || fold.fold == Fold::kSmallest;
    registry.Add(fold.op,
                 is_extreme ? absl::MakeConstSpan(kWideFloats)
                            : absl::MakeConstSpan(kFloats),
                 KernelRank::kFast,
                 {"cpu.fold", FoldOf(fold.fold, fold.ending, fold.params)});
  }
  for (absl::string_view op : {"aten.prod", "aten.prod.dim_int"}) {
    const int dim = op == "aten.prod" ? -1 : 1;
    registry.Add(
        op, {DType::kI64, DType::kI32}, KernelRank::kFast,
        {"cpu.fold", FoldOf(Fold::kProduct, Ending::kItself, {.dim = dim})});
  }
  const struct {
    absl::string_view op;
    Params params;
  } norms[] = {{"aten.linalg_vector_norm", {.dim = 2, .order = 1}},
               {"aten.norm.Scalar", {.order = 1}},
               {"aten.norm.ScalarOpt_dim", {.dim = 2, .order = 1}}};
  for (const auto& norm : norms) {
    registry.Add(norm.op, kFloats, KernelRank::kFast,
                 {"cpu.norm", [norm](const KernelRequest& request) {
                    return PrepareNorm(request, norm.params);
                  }});
  }
  AddCounts(registry);
}

}  // namespace mica::cpu
