// Reductions: the elements that make one result are gathered in a list.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/axes.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

using Reals = absl::Span<const double>;
using Integers = absl::Span<const int64_t>;

// Which axes go, and how the results' dims read as the kept ones.
struct ReductionPlan {
  Lane in;
  DType load = DType::kF32;  // Elements are converted to it first.
  Dims kept_dims, reduced_dims;
  Dims kept_strides, reduced_strides;
  std::vector<Lane> outs;
  std::vector<Dims> out_strides;  // Over kept_dims.
};

ReductionPlan MakePlan(const KernelRequest& request, AxesOf axes) {
  ReductionPlan plan = {.in = OperandLane(request, 0)};
  const AxisMask mask = ReducedMask(request, axes, plan.in.rank());
  plan.load = plan.in.dtype;
  plan.kept_dims = Unmarked(plan.in.dims, mask);
  plan.reduced_dims = Marked(plan.in.dims, mask);
  plan.kept_strides = Unmarked(plan.in.strides, mask);
  plan.reduced_strides = Marked(plan.in.strides, mask);
  for (int i = 0; i < static_cast<int>(request.results.size()); ++i) {
    plan.outs.push_back(ResultLane(request, i));
    const bool is_kept = plan.outs[i].rank() == plan.in.rank();
    plan.out_strides.push_back(is_kept ? Unmarked(plan.outs[i].strides, mask)
                                       : plan.outs[i].strides);
  }
  return plan;
}

template <typename C>
void Gather(const ReductionPlan& plan, void* const* args, int64_t from,
            std::vector<C>& list) {
  list.clear();
  for (Odometer at(plan.reduced_dims, {plan.reduced_strides}); !at.done();
       at.Next()) {
    const int64_t offset = from + at.offset(0);
    if (plan.load == DType::kBool) {
      list.push_back(plan.in.LoadTruth(args, offset));
    } else {
      C value = plan.in.Load<C>(args, offset);
      if (plan.load == DType::kF32) value = static_cast<float>(value);
      list.push_back(value);
    }
  }
}

// Calls `reduce(list, store)` for each result element, where store(i, value)
// writes that of result i.
template <typename C, typename Reduce>
void ForEachResult(const ReductionPlan& plan, void* const* args,
                   Reduce&& reduce) {
  std::vector<Dims> strides = {plan.kept_strides};
  strides.insert(strides.end(), plan.out_strides.begin(),
                 plan.out_strides.end());
  std::vector<C> list;
  for (Odometer at(plan.kept_dims, strides); !at.done(); at.Next()) {
    Gather(plan, args, at.offset(0), list);
    reduce(absl::Span<const C>(list), [&](int result, auto value) {
      const Lane& out = plan.outs[result];
      if (!out.IsUnused(args)) out.Store(args, at.offset(1 + result), value);
    });
  }
}

// One number from a list, as floats and as integers.
struct ReduceFns {
  double (*real)(Reals);
  int64_t (*integer)(Integers);
};

// Elements are converted to the result's dtype first, where they are to be.
enum class Load : uint8_t { kAsOperand, kAsResult };

void AddReduction(KernelRegistry& registry, absl::string_view op, AxesOf axes,
                  Load load, ReduceFns fns) {
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    ReductionPlan plan = MakePlan(request, axes);
    if (load == Load::kAsResult) plan.load = plan.outs[0].dtype;
    const bool is_real = IsFloating(plan.load);
    return RunBody(
        [=, plan = std::move(plan)](void* const* args, LaunchContext&) {
          if (is_real) {
            ForEachResult<double>(plan, args, [&](Reals list, auto store) {
              store(0, fns.real(list));
            });
          } else {
            ForEachResult<int64_t>(plan, args, [&](Integers list, auto store) {
              store(0, fns.integer(list));
            });
          }
          return true;
        });
  });
}

template <typename C>
C SumOf(absl::Span<const C> list) {
  C sum = 0;
  for (C value : list) sum = Sum(sum, value);
  return sum;
}

template <typename C>
C ProductOf(absl::Span<const C> list) {
  C product = 1;
  for (C value : list) product = Product(product, value);
  return product;
}

double SumOfNumbers(Reals list) {
  double sum = 0;
  for (double value : list) sum += IsNan(value) ? 0 : value;
  return sum;
}

double MeanOf(Reals list) {
  return SumOf(list) / static_cast<double>(list.size());
}

template <typename C>
C LargestOf(absl::Span<const C> list) {
  C best = list[0];
  for (C value : list) best = Larger(best, value);
  return best;
}

template <typename C>
C SmallestOf(absl::Span<const C> list) {
  C best = list[0];
  for (C value : list) best = Smaller(best, value);
  return best;
}

// Of equal elements the first; NaN counts as best.
template <typename C, typename IsBetter>
int64_t BestIndex(absl::Span<const C> list, IsBetter is_better) {
  int64_t best = 0;
  for (size_t i = 1; i < list.size(); ++i) {
    if (IsNan(list[best])) break;
    if (IsNan(list[i]) || is_better(list[i], list[best])) {
      best = static_cast<int64_t>(i);
    }
  }
  return best;
}

template <typename C>
int64_t LargestIndex(absl::Span<const C> list) {
  return BestIndex(list, [](C a, C b) { return a > b; });
}

template <typename C>
int64_t SmallestIndex(absl::Span<const C> list) {
  return BestIndex(list, [](C a, C b) { return a < b; });
}

template <typename C>
int64_t CountNonzero(absl::Span<const C> list) {
  return std::count_if(list.begin(), list.end(), [](C x) { return x != 0; });
}

template <typename C>
bool AnyOf(absl::Span<const C> list) {
  return CountNonzero(list) > 0;
}

template <typename C>
bool AllOf(absl::Span<const C> list) {
  return CountNonzero(list) == static_cast<int64_t>(list.size());
}

double LogSumExp(Reals list) {
  if (list.empty()) return -std::numeric_limits<double>::infinity();
  const double most = LargestOf(list);
  if (std::isinf(most)) return most;
  double sum = 0;
  for (double value : list) sum += std::exp(value - most);
  return most + std::log(sum);
}

void RegisterSums(KernelRegistry& registry) {
  const ReduceFns sum = {SumOf<double>, SumOf<int64_t>};
  AddReduction(registry, "aten.sum", {}, Load::kAsResult, sum);
  AddReduction(registry, "aten.sum.dim_IntList", {.dim = 1}, Load::kAsResult,
               sum);
  AddReduction(registry, "aten.nansum", {.dim = 1}, Load::kAsResult,
               {SumOfNumbers, SumOf<int64_t>});
  const ReduceFns product = {ProductOf<double>, ProductOf<int64_t>};
  AddReduction(registry, "aten.prod", {}, Load::kAsResult, product);
  AddReduction(registry, "aten.prod.dim_int", {.dim = 1}, Load::kAsResult,
               product);
  const ReduceFns mean = {MeanOf, SumOf<int64_t>};
  AddReduction(registry, "aten.mean", {}, Load::kAsResult, mean);
  AddReduction(registry, "aten.mean.dim", {.dim = 1}, Load::kAsResult, mean);
  AddReduction(registry, "aten.logsumexp", {.dim = 1}, Load::kAsResult,
               {LogSumExp, SumOf<int64_t>});
}

// Results that a float carries though they are counts or truths.
template <typename C, auto kFn>
double AsReal(absl::Span<const C> list) {
  return static_cast<double>(kFn(list));
}
template <typename C, auto kFn>
int64_t AsInteger(absl::Span<const C> list) {
  return static_cast<int64_t>(kFn(list));
}

void RegisterCounts(KernelRegistry& registry) {
  const ReduceFns count = {AsReal<double, CountNonzero<double>>,
                           CountNonzero<int64_t>};
  AddReduction(registry, "aten.count_nonzero", {.dim = 1}, Load::kAsOperand,
               count);
  AddReduction(registry, "aten.count_nonzero.dim_IntList", {.dim = 1},
               Load::kAsOperand, count);
  const ReduceFns any = {AsReal<double, AnyOf<double>>,
                         AsInteger<int64_t, AnyOf<int64_t>>};
  const ReduceFns all = {AsReal<double, AllOf<double>>,
                         AsInteger<int64_t, AllOf<int64_t>>};
  AddReduction(registry, "aten.any", {}, Load::kAsOperand, any);
  AddReduction(registry, "aten.all", {}, Load::kAsOperand, all);
  AddReduction(registry, "aten.any.dim", {.dim = 1}, Load::kAsOperand, any);
  AddReduction(registry, "aten.all.dim", {.dim = 1}, Load::kAsOperand, all);
  const AxesOf axes = {.dim = 1, .empty_is_none = true};
  AddReduction(registry, "aten.any.dims", axes, Load::kAsOperand, any);
  AddReduction(registry, "aten.all.dims", axes, Load::kAsOperand, all);
}

// max.dim and min.dim: the best element and its index.
void AddBestAlong(KernelRegistry& registry, absl::string_view op,
                  int64_t (*real)(Reals), int64_t (*integer)(Integers)) {
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    const ReductionPlan plan = MakePlan(request, {.dim = 1});
    return RunBody([=](void* const* args, LaunchContext&) {
      auto store_both = [](auto best, auto list, auto store) {
        store(0, list[best]);
        store(1, best);
      };
      if (IsFloating(plan.load)) {
        ForEachResult<double>(plan, args, [&](Reals list, auto store) {
          store_both(real(list), list, store);
        });
      } else {
        ForEachResult<int64_t>(plan, args, [&](Integers list, auto store) {
          store_both(integer(list), list, store);
        });
      }
      return true;
    });
  });
}

Verdict PrepareBothExtremes(const KernelRequest& request) {
  const ReductionPlan plan = MakePlan(request, {.dim = 1});
  return RunBody([=](void* const* args, LaunchContext&) {
    auto reduce = [](auto list, auto store) {
      store(0, SmallestOf(list));
      store(1, LargestOf(list));
    };
    if (IsFloating(plan.load)) {
      ForEachResult<double>(plan, args, reduce);
    } else {
      ForEachResult<int64_t>(plan, args, reduce);
    }
    return true;
  });
}

void RegisterExtremes(KernelRegistry& registry) {
  AddReference(registry, "aten.aminmax", PrepareBothExtremes);
  const ReduceFns largest = {LargestOf<double>, LargestOf<int64_t>};
  const ReduceFns smallest = {SmallestOf<double>, SmallestOf<int64_t>};
  AddReduction(registry, "aten.max", {}, Load::kAsOperand, largest);
  AddReduction(registry, "aten.min", {}, Load::kAsOperand, smallest);
  AddReduction(registry, "aten.amax", {.dim = 1}, Load::kAsOperand, largest);
  AddReduction(registry, "aten.amin", {.dim = 1}, Load::kAsOperand, smallest);
  AddReduction(registry, "aten.argmax", {.dim = 1}, Load::kAsOperand,
               {AsReal<double, LargestIndex<double>>, LargestIndex<int64_t>});
  AddReduction(registry, "aten.argmin", {.dim = 1}, Load::kAsOperand,
               {AsReal<double, SmallestIndex<double>>, SmallestIndex<int64_t>});
  AddBestAlong(registry, "aten.max.dim", LargestIndex<double>,
               LargestIndex<int64_t>);
  AddBestAlong(registry, "aten.min.dim", SmallestIndex<double>,
               SmallestIndex<int64_t>);
}

// Variance in two passes; results are variance or deviation, then the mean.
void AddMoments(KernelRegistry& registry, absl::string_view op, bool is_std) {
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    const ReductionPlan plan = MakePlan(request, {.dim = 1});
    if (request.OperandIndex(2) >= 0) return No{"correction varies"};
    const double correction = request.Has(2) ? request.Number(2) : 1;
    return RunBody([=](void* const* args, LaunchContext&) {
      ForEachResult<double>(plan, args, [&](Reals list, auto store) {
        const double mean = MeanOf(list);
        double squares = 0;
        for (double x : list) squares += (x - mean) * (x - mean);
        const double count = static_cast<double>(list.size()) - correction;
        const double variance = squares / std::max(count, 0.0);
        store(0, is_std ? std::sqrt(variance) : variance);
        if (plan.outs.size() > 1) store(1, mean);
      });
      return true;
    });
  });
}

// Powers are of type T, as torch's: of small floats they are zero, of large
// ones infinite.
template <typename T>
double NormOf(Reals list, double p) {
  double sum = 0;
  double most = 0;
  double least = std::numeric_limits<double>::infinity();
  double count = 0;
  for (double x : list) {
    const double size = std::fabs(x);
    most = Larger(most, size);
    least = Smaller(least, size);
    count += size != 0;
    const T element = static_cast<T>(size);
    sum += p == 2 ? element * element : std::pow(element, static_cast<T>(p));
  }
  if (p == 0) return count;
  if (std::isinf(p)) return p > 0 ? most : least;
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

// The order is parameter 1, 2 if None.
void AddNorm(KernelRegistry& registry, absl::string_view op, AxesOf axes) {
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    ReductionPlan plan = MakePlan(request, axes);
    if (request.OperandIndex(1) >= 0) return No{"the order varies"};
    plan.load = plan.outs[0].dtype;
    const double p = request.Has(1) ? request.Number(1) : 2;
    const bool is_double = plan.load == DType::kF64;
    return RunBody([=](void* const* args, LaunchContext&) {
      ForEachResult<double>(plan, args, [&](Reals list, auto store) {
        store(0, is_double ? NormOf<double>(list, p) : NormOf<float>(list, p));
      });
      return true;
    });
  });
}

}  // namespace

void RegisterReferenceReductions(KernelRegistry& registry) {
  RegisterSums(registry);
  RegisterCounts(registry);
  RegisterExtremes(registry);
  AddMoments(registry, "aten.var.correction", /*is_std=*/false);
  AddMoments(registry, "aten.std.correction", /*is_std=*/true);
  AddMoments(registry, "aten.var_mean.correction", /*is_std=*/false);
  AddMoments(registry, "aten.std_mean.correction", /*is_std=*/true);
  AddNorm(registry, "aten.linalg_vector_norm", {.dim = 2});
  AddNorm(registry, "aten.norm.Scalar", {});
  AddNorm(registry, "aten.norm.ScalarOpt_dim", {.dim = 2});
}

}  // namespace mica
