// Products with weights of few bits, number by number.

#include "kernels/reference/quantised.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/activation.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// Smaller ones can't be inverted: what is below counts as 0.
constexpr float kSmallest = 1e-36f;

float FloatAt(const Lane& lane, void* const* args, int64_t offset) {
  return static_cast<float>(lane.Load<double>(args, offset));
}

// k floats as scale times whole numbers in -127..127, in float32's own
// rounding; a scale of NaN if one of them isn't finite.
struct Int8Row {
  Int8Row(const Lane& lane, void* const* args, int64_t offset, int64_t k,
          int64_t stride) {
    float size = 0;
    for (int64_t i = 0; i < k; ++i) {
      const float x = FloatAt(lane, args, offset + i * stride);
      if (!std::isfinite(x)) scale = std::numeric_limits<float>::quiet_NaN();
      size = std::max(size, std::abs(x));
    }
    numbers.resize(static_cast<size_t>(k));
    if (std::isnan(scale) || size < kSmallest) return;
    scale = size / 127.0f;
    const float inverse = 127.0f / size;
    for (int64_t i = 0; i < k; ++i) {
      numbers[i] = static_cast<int64_t>(
          std::nearbyint(FloatAt(lane, args, offset + i * stride) * inverse));
    }
  }
  float scale = 0;
  std::vector<int64_t> numbers;
};

Verdict PrepareQuantiseInt8(const KernelRequest& request) {
  const Lane weight = OperandLane(request, 0);
  const Lane values = ResultLane(request, 0), scales = ResultLane(request, 1);
  return RunBody([=](void* const* args, LaunchContext&) {
    const int64_t k = weight.dims[1];
    for (int64_t n = 0; n < weight.dims[0]; ++n) {
      const Int8Row row(weight, args, n * weight.strides[0], k,
                        weight.strides[1]);
      for (int64_t i = 0; i < k && !values.IsUnused(args); ++i) {
        values.Store<int64_t>(args,
                              n * values.strides[0] + i * values.strides[1],
                              row.numbers[i]);
      }
      if (scales.IsUnused(args)) continue;
      scales.Store<double>(args, n * scales.strides[0], row.scale);
    }
    return true;
  });
}

// What follows a product's sum in both operators: bias, residual and activation
// from parameter `first` on.
struct Rest {
  Rest(const KernelRequest& request, int first)
      : has_bias(request.Has(first)),
        has_residual(request.Has(first + 1)),
        activation(request.String(first + 2)),
        out(ResultLane(request)) {
    if (has_bias) bias = OperandLane(request, first);
    if (has_residual) residual = OperandLane(request, first + 1);
  }

  // Calls sum(offset of a row of x, n) for each element of the result.
  template <typename Sum>
  void ForEach(void* const* args, const Lane& x, Sum sum) const {
    Dims x_strides = x.strides, columns(out.rank(), 0);
    x_strides.back() = 0;
    columns.back() = 1;
    const Dims residual_strides =
        has_residual ? residual.strides : Dims(out.rank(), 0);
    for (Odometer at(out.dims,
                     {x_strides, columns, residual_strides, out.strides});
         !at.done(); at.Next()) {
      const int64_t n = at.offset(1);
      double y = sum(at.offset(0), n);
      if (has_bias) y += bias.Load<double>(args, n * bias.strides[0]);
      y = Activated(activation, y);
      if (has_residual) y += residual.Load<double>(args, at.offset(2));
      out.Store<double>(args, at.offset(3), y);
    }
  }

  bool has_bias, has_residual;
  std::string activation;
  Lane bias, residual, out;
};

Verdict PrepareInt8Linear(const KernelRequest& request) {
  const Lane x = OperandLane(request, 0), weight = OperandLane(request, 1);
  const Lane scales = OperandLane(request, 2);
  const Rest rest(request, 3);
  const bool is_dynamic = request.Bool(6);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (rest.out.IsUnused(args)) return true;
    const int64_t k = weight.dims[1], x_stride = x.strides.back();
    const auto number = [&](int64_t n, int64_t i) {
      return weight.Load<int64_t>(
          args, n * weight.strides[0] + i * weight.strides[1]);
    };
    rest.ForEach(args, x, [&](int64_t row, int64_t n) {
      const double scale = scales.Load<double>(args, n * scales.strides[0]);
      if (is_dynamic) {
        const Int8Row numbers(x, args, row, k, x_stride);
        int64_t sum = 0;
        for (int64_t i = 0; i < k; ++i) {
          sum += numbers.numbers[i] * number(n, i);
        }
        return static_cast<double>(sum) * numbers.scale * scale;
      }
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += x.Load<double>(args, row + i * x_stride) *
               static_cast<double>(number(n, i));
      }
      return sum * scale;
    });
    return true;
  });
}

// A group of weights as offset + scale * number, numbers in 0..15: from the
// smallest to the largest, so that 0 needn't be among them.
Verdict PrepareQuantiseInt4(const KernelRequest& request) {
  const Lane weight = OperandLane(request, 0);
  const Lane values = ResultLane(request, 0), scales = ResultLane(request, 1);
  const Lane offsets = ResultLane(request, 2);
  const int64_t group = request.Int(1);
  return RunBody([=](void* const* args, LaunchContext&) {
    const int64_t k = weight.dims[1];
    const auto store = [&](int64_t n, int64_t i, int64_t number) {
      if (values.IsUnused(args)) return;
      const int64_t at = n * values.strides[0] + i / 2 * values.strides[1];
      const int64_t other = i % 2 == 0 ? 0 : values.Load<int64_t>(args, at);
      values.Store<int64_t>(args, at, other | number << (i % 2 * 4));
    };
    for (int64_t n = 0; n < weight.dims[0]; ++n) {
      for (int64_t begin = 0; begin < k; begin += group) {
        const int64_t end = std::min(begin + group, k);
        const auto at = [&](int64_t i) {
          return FloatAt(weight, args,
                         n * weight.strides[0] + i * weight.strides[1]);
        };
        float low = at(begin), high = low, bad = 0;
        for (int64_t i = begin; i < end; ++i) {
          low = std::min(low, at(i));
          high = std::max(high, at(i));
          bad += at(i) * 0;
        }
        const float range = high - low;
        const bool is_finite = bad == 0 && std::isfinite(range);
        const bool is_flat = !is_finite || range <= kSmallest;
        for (int64_t i = begin; i < end; ++i) {
          const float steps =
              is_flat ? 0 : std::nearbyint((at(i) - low) * (15.0f / range));
          store(n, i, static_cast<int64_t>(std::clamp(steps, 0.0f, 15.0f)));
        }
        const double nan = std::numeric_limits<double>::quiet_NaN();
        const double scale = is_flat ? 0 : range / 15.0f;
        const int64_t g = begin / group;
        if (!scales.IsUnused(args)) {
          scales.Store<double>(args,
                               n * scales.strides[0] + g * scales.strides[1],
                               is_finite ? scale : nan);
        }
        if (!offsets.IsUnused(args)) {
          offsets.Store<double>(args,
                                n * offsets.strides[0] + g * offsets.strides[1],
                                is_finite ? low : nan);
        }
      }
    }
    return true;
  });
}

Verdict PrepareInt4Linear(const KernelRequest& request) {
  const Lane x = OperandLane(request, 0), weight = OperandLane(request, 1);
  const Lane scales = OperandLane(request, 2),
             offsets = OperandLane(request, 3);
  const Rest rest(request, 4);
  const int64_t group = request.Int(7);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (rest.out.IsUnused(args)) return true;
    const int64_t k = x.dims.back(), x_stride = x.strides.back();
    rest.ForEach(args, x, [&](int64_t row, int64_t n) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t byte = weight.Load<int64_t>(
            args, n * weight.strides[0] + i / 2 * weight.strides[1]);
        const auto number = static_cast<double>(byte >> (i % 2 * 4) & 15);
        const int64_t g = i / group;
        const double w = scales.Load<double>(args, n * scales.strides[0] +
                                                       g * scales.strides[1]) *
                             number +
                         offsets.Load<double>(args, n * offsets.strides[0] +
                                                        g * offsets.strides[1]);
        sum += x.Load<double>(args, row + i * x_stride) * w;
      }
      return sum;
    });
    return true;
  });
}

}  // namespace

void RegisterReferenceQuantised(KernelRegistry& registry) {
  AddReference(registry, "mica.quantise_int8", PrepareQuantiseInt8);
  AddReference(registry, "mica.int8_linear", PrepareInt8Linear);
  AddReference(registry, "mica.quantise_int4", PrepareQuantiseInt4);
  AddReference(registry, "mica.int4_linear", PrepareInt4Linear);
}

}  // namespace mica
