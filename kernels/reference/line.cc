// Ops that turn each line of elements along an axis into another: softmax,
// running sums, sorting.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/reference/numbers.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// The operand and the results, each with the axis apart.
struct LinePlan {
  AxisLane in;
  std::vector<AxisLane> outs;
};

LinePlan MakePlan(const KernelRequest& request, int64_t axis) {
  const Lane in = OperandLane(request, 0);
  const int at = AxisIndex(axis, in.rank());
  LinePlan plan = {.in = SplitAxis(in, at)};
  for (int i = 0; i < static_cast<int>(request.results.size()); ++i) {
    plan.outs.push_back(SplitAxis(ResultLane(request, i), at));
  }
  return plan;
}

// Calls `turn(line, store)` for each line; store(result, values) writes one.
template <typename C, typename Turn>
void ForEachLine(const LinePlan& plan, void* const* args, Turn&& turn) {
  if (plan.in.size == 0) return;  // There may be many lines without elements.
  std::vector<Dims> strides = {plan.in.outer.strides};
  for (const AxisLane& out : plan.outs) strides.push_back(out.outer.strides);
  std::vector<C> line;
  for (Odometer at(plan.in.outer.dims, strides); !at.done(); at.Next()) {
    line.resize(plan.in.size);
    for (int64_t i = 0; i < plan.in.size; ++i) {
      line[i] = plan.in.outer.Load<C>(args, at.offset(0) + i * plan.in.stride);
    }
    turn(line, [&](int result, const auto& values) {
      const AxisLane& out = plan.outs[result];
      if (out.outer.IsUnused(args)) return;
      for (int64_t i = 0; i < out.size; ++i) {
        out.outer.Store(args, at.offset(1 + result) + i * out.stride,
                        values[i]);
      }
    });
  }
}

// Turns a line of numbers in place.
struct LineFns {
  void (*real)(std::vector<double>&);
  void (*integer)(std::vector<int64_t>&);
};

// `axis` is the parameter that names it.
void AddLine(KernelRegistry& registry, absl::string_view op, LineFns fns) {
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    const LinePlan plan = MakePlan(request, request.Int(1));
    const bool is_real = IsFloating(plan.outs[0].outer.dtype);
    return RunBody([=](void* const* args, LaunchContext&) {
      if (is_real) {
        ForEachLine<double>(plan, args,
                            [&](std::vector<double>& line, auto store) {
                              fns.real(line);
                              store(0, line);
                            });
      } else {
        ForEachLine<int64_t>(plan, args,
                             [&](std::vector<int64_t>& line, auto store) {
                               fns.integer(line);
                               store(0, line);
                             });
      }
      return true;
    });
  });
}

void NoIntegers(std::vector<int64_t>&) {}

double LargestOf(const std::vector<double>& line) {
  double most = -std::numeric_limits<double>::infinity();
  for (double x : line) most = Larger(most, x);
  return most;
}

void Softmax(std::vector<double>& line) {
  const double most = LargestOf(line);
  double sum = 0;
  for (double& x : line) sum += x = std::exp(x - most);
  for (double& x : line) x /= sum;
}

void SafeSoftmax(std::vector<double>& line) {
  if (LargestOf(line) == -std::numeric_limits<double>::infinity()) {
    std::fill(line.begin(), line.end(), 0.0);
  } else {
    Softmax(line);
  }
}

void LogSoftmax(std::vector<double>& line) {
  const double most = LargestOf(line);
  double sum = 0;
  for (double x : line) sum += std::exp(x - most);
  for (double& x : line) x = x - most - std::log(sum);
}

template <typename C>
void RunningSum(std::vector<C>& line) {
  C sum = 0;
  for (C& x : line) x = sum = Sum(sum, x);
}

template <typename C>
void RunningProduct(std::vector<C>& line) {
  C product = 1;
  for (C& x : line) x = product = Product(product, x);
}

// NaN counts as larger than any number.
template <typename C>
bool IsLess(C a, C b) {
  return a < b || (IsNan(b) && !IsNan(a));
}

// The indices that put `line` in order, equal elements as they stood.
template <typename C>
std::vector<int64_t> SortedIndices(const std::vector<C>& line,
                                   bool is_descending) {
  std::vector<int64_t> order(line.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return is_descending ? IsLess(line[j], line[i]) : IsLess(line[i], line[j]);
  });
  return order;
}

struct SortParams {
  int axis = 1;
  int descending = 2;
};

// As many results along the axis as the result has room for: sort and topk.
void AddSort(KernelRegistry& registry, absl::string_view op,
             SortParams params) {
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    const LinePlan plan = MakePlan(request, request.Int(params.axis));
    const bool is_descending = request.Bool(params.descending);
    return RunBody([=](void* const* args, LaunchContext&) {
      auto turn = [&](const auto& line, auto store) {
        const std::vector<int64_t> order = SortedIndices(line, is_descending);
        auto sorted = line;
        for (size_t i = 0; i < order.size(); ++i) sorted[i] = line[order[i]];
        store(0, sorted);
        store(1, order);
      };
      if (IsFloating(plan.in.outer.dtype)) {
        ForEachLine<double>(plan, args, turn);
      } else {
        ForEachLine<int64_t>(plan, args, turn);
      }
      return true;
    });
  });
}

}  // namespace

void RegisterReferenceLines(KernelRegistry& registry) {
  AddLine(registry, "aten._softmax", {Softmax, NoIntegers});
  AddLine(registry, "aten._safe_softmax", {SafeSoftmax, NoIntegers});
  AddLine(registry, "aten._log_softmax", {LogSoftmax, NoIntegers});
  AddLine(registry, "aten.cumsum", {RunningSum<double>, RunningSum<int64_t>});
  AddLine(registry, "aten.cumprod",
          {RunningProduct<double>, RunningProduct<int64_t>});
  AddSort(registry, "aten.sort", {});
  AddSort(registry, "aten.sort.stable", {.axis = 2, .descending = 3});
  AddSort(registry, "aten.topk", {.axis = 2, .descending = 3});
}

}  // namespace mica
