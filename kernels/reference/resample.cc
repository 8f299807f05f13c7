// Planes made larger or smaller: each result pixel is a weighted sum of pixels
// of the operand, and its gradient goes to these.

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/accumulator.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// Pixel `index` of the operand counts `weight`.
struct Tap {
  int64_t index = 0;
  double weight = 1;
};
// Of each place along one axis of the result, the pixels that it is made of.
using AxisTaps = std::vector<std::vector<Tap>>;

enum class Method : uint8_t { kNearest, kNearestExact, kBilinear };

// What a plane's axis is made of. C is what eager computes places in.
struct AxisSpec {
  int64_t in = 1, out = 1;
  double scale = 0;  // As the user gave it; 0 if not.
  bool aligns_corners = false;
};

template <typename C>
C Ratio(const AxisSpec& spec) {
  if (spec.scale > 0) return static_cast<C>(1 / spec.scale);
  return static_cast<C>(spec.in) / static_cast<C>(spec.out);
}

AxisTaps NearestTaps(const AxisSpec& spec, double shift) {
  const float ratio = Ratio<float>(spec);
  AxisTaps taps(spec.out);
  for (int64_t i = 0; i < spec.out; ++i) {
    const float at =
        (static_cast<float>(i) + static_cast<float>(shift)) * ratio;
    taps[i].push_back(
        {.index = std::min(static_cast<int64_t>(std::floor(at)), spec.in - 1)});
  }
  return taps;
}

template <typename C>
AxisTaps LinearTaps(const AxisSpec& spec) {
  C ratio = Ratio<C>(spec);
  if (spec.aligns_corners) {
    ratio = spec.out > 1
                ? static_cast<C>(spec.in - 1) / static_cast<C>(spec.out - 1)
                : C{0};
  }
  AxisTaps taps(spec.out);
  for (int64_t i = 0; i < spec.out; ++i) {
    C at = ratio * static_cast<C>(i);
    if (!spec.aligns_corners) {
      at = std::max(ratio * (static_cast<C>(i) + C{0.5}) - C{0.5}, C{0});
    }
    const int64_t low = std::min(static_cast<int64_t>(at), spec.in - 1);
    const int64_t high = std::min(low + 1, spec.in - 1);
    const C share = std::clamp(at - static_cast<C>(low), C{0}, C{1});
    taps[i].push_back({.index = low, .weight = C{1} - share});
    taps[i].push_back({.index = high, .weight = share});
  }
  return taps;
}

AxisTaps TapsOf(Method method, const AxisSpec& spec, DType dtype) {
  if (method == Method::kBilinear) {
    if (spec.in == spec.out)
      return NearestTaps({.in = spec.in, .out = spec.out}, 0);
    return dtype == DType::kF64 ? LinearTaps<double>(spec)
                                : LinearTaps<float>(spec);
  }
  return NearestTaps(spec, method == Method::kNearestExact ? 0.5 : 0);
}

// Where pixel `i` of a padded axis comes from.
int64_t BorderSource(int64_t i, int64_t before, int64_t size, bool reflects) {
  int64_t at = i - before;
  if (!reflects) return std::clamp<int64_t>(at, 0, size - 1);
  if (at < 0) at = -at;
  return at >= size ? 2 * (size - 1) - at : at;
}

AxisTaps BorderTaps(int64_t size, int64_t before, int64_t after,
                    bool reflects) {
  AxisTaps taps(size + before + after);
  for (size_t i = 0; i < taps.size(); ++i) {
    taps[i].push_back({.index = BorderSource(static_cast<int64_t>(i), before,
                                             size, reflects)});
  }
  return taps;
}

// Calls visit(offset in the operand, weight) for the pixels that the result's
// pixel at `index` is made of; the last taps.size() axes are the plane.
template <typename Visit>
void ForEachTap(const std::vector<AxisTaps>& taps, const Dims& strides,
                absl::Span<const int64_t> index, Visit&& visit) {
  const size_t outer = index.size() - taps.size();
  int64_t start = 0;
  for (size_t i = 0; i < outer; ++i) start += index[i] * strides[i];
  if (taps.size() == 1) {
    for (const Tap& tap : taps[0][index[outer]]) {
      visit(start + tap.index * strides[outer], tap.weight);
    }
    return;
  }
  for (const Tap& row : taps[0][index[outer]]) {
    for (const Tap& column : taps[1][index[outer + 1]]) {
      visit(start + row.index * strides[outer] +
                column.index * strides[outer + 1],
            row.weight * column.weight);
    }
  }
}

Prepared Gather(const KernelRequest& request, std::vector<AxisTaps> taps) {
  const Lane in = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  return RunBody(
      [=, taps = std::move(taps)](void* const* args, LaunchContext&) {
        if (out.IsUnused(args)) return true;
        for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
          if (!IsFloating(in.dtype)) {
            ForEachTap(taps, in.strides, at.index(), [&](int64_t from, double) {
              out.Store(args, at.offset(0), in.Load<int64_t>(args, from));
            });
            continue;
          }
          double sum = 0;
          ForEachTap(taps, in.strides, at.index(),
                     [&](int64_t from, double weight) {
                       if (weight != 0)
                         sum += weight * in.Load<double>(args, from);
                     });
          out.Store(args, at.offset(0), sum);
        }
        return true;
      });
}

Prepared Scatter(const KernelRequest& request, std::vector<AxisTaps> taps) {
  const Lane grad = OperandLane(request, 0);
  const Lane out = ResultLane(request);
  return RunBody([=, taps = std::move(taps)](void* const* args,
                                             LaunchContext&) {
    if (out.IsUnused(args)) return true;
    Accumulator sums(out);
    for (Odometer at(grad.dims, {grad.strides}); !at.done(); at.Next()) {
      const double g = grad.Load<double>(args, at.offset(0));
      ForEachTap(taps, sums.strides(), at.index(),
                 [&](int64_t to, double weight) { sums.Add(to, g * weight); });
    }
    sums.Store(args);
    return true;
  });
}

// `in` and `out` are the dims of the operand and the result of the forward;
// `scales` the parameter of the first of two.
std::vector<AxisTaps> PlaneTaps(const KernelRequest& request, Method method,
                                const Dims& in, const Dims& out, int scales) {
  std::vector<AxisTaps> taps;
  for (int i = 0; i < 2; ++i) {
    const AxisSpec spec = {
        .in = in[i + 2],
        .out = out[i + 2],
        .scale = request.Has(scales + i) ? request.Number(scales + i) : 0,
        .aligns_corners =
            method == Method::kBilinear && request.Bool(scales - 1)};
    taps.push_back(TapsOf(method, spec, request.operands[0].type.dtype));
  }
  return taps;
}

void AddResample(KernelRegistry& registry, const std::string& op,
                 Method method) {
  const int extra = method == Method::kBilinear ? 1 : 0;
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    return Gather(request,
                  PlaneTaps(request, method, request.operands[0].type.dims,
                            request.results[0].type.dims, 2 + extra));
  });
  AddReference(
      registry, op + "_backward", [=](const KernelRequest& request) -> Verdict {
        return Scatter(request,
                       PlaneTaps(request, method, request.results[0].type.dims,
                                 request.operands[0].type.dims, 3 + extra));
      });
}

// `in` is the operand of the forward; `param` its padding, last axis first.
std::vector<AxisTaps> FrameTaps(const KernelRequest& request, const Dims& in,
                                int param, int num_axes, bool reflects) {
  const auto padding = request.Ints(param);
  std::vector<AxisTaps> taps;
  for (int i = num_axes - 1; i >= 0; --i) {
    taps.push_back(BorderTaps(in[in.size() - 1 - i], padding[2 * i],
                              padding[2 * i + 1], reflects));
  }
  return taps;
}

void AddPad(KernelRegistry& registry, const std::string& op, int num_axes,
            bool reflects) {
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    return Gather(request, FrameTaps(request, request.operands[0].type.dims, 1,
                                     num_axes, reflects));
  });
  AddReference(
      registry, op + "_backward", [=](const KernelRequest& request) -> Verdict {
        return Scatter(request, FrameTaps(request, request.results[0].type.dims,
                                          2, num_axes, reflects));
      });
}

}  // namespace

void RegisterReferenceResample(KernelRegistry& registry) {
  AddResample(registry, "aten.upsample_nearest2d", Method::kNearest);
  AddResample(registry, "aten._upsample_nearest_exact2d",
              Method::kNearestExact);
  AddResample(registry, "aten.upsample_bilinear2d", Method::kBilinear);
  AddPad(registry, "aten.reflection_pad1d", 1, /*reflects=*/true);
  AddPad(registry, "aten.reflection_pad2d", 2, /*reflects=*/true);
  AddPad(registry, "aten.replication_pad1d", 1, /*reflects=*/false);
  AddPad(registry, "aten.replication_pad2d", 2, /*reflects=*/false);
}

}  // namespace mica
