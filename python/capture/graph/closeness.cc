#include "python/capture/graph/closeness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/reference/element.h"

namespace mica {
namespace {

// What is allowed of the largest element, at small ones beside it, is so much
// less than what is of the element itself.
constexpr double kSmallerOfLargest = 5;
// Of larger ones it is as much as of this: people compare with some absolute
// tolerance, too.
constexpr double kMostOfLargest = 100;

struct Real {
  template <typename T>
  static double Of(T value) {
    return static_cast<double>(value);
  }
};

struct Half {
  static double Of(uint16_t bits) { return HalfToFloat(bits); }
};

struct BFloat16 {
  static double Of(uint16_t bits) { return BFloat16ToFloat(bits); }
};

template <typename Reading, typename T>
double FindExcess(double allowed, int64_t count, const T* own, const T* other) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double size = std::abs(Reading::Of(other[i]));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  const double near_zero = allowed * std::min(1.0, largest);
  const double of_largest =
      allowed / kSmallerOfLargest * std::min(kMostOfLargest, largest);
  double found = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double a = Reading::Of(own[i]), b = Reading::Of(other[i]);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    double difference = std::abs(a - b);
    const double limit =
        std::max(near_zero + allowed * std::abs(b), of_largest);
    if (difference <= limit && std::isfinite(b)) continue;
    if (std::isnan(difference)) {
      difference = std::numeric_limits<double>::infinity();
    }
    found = std::max(found, difference);
  }
  return found;
}

}  // namespace

double AllowedDifference(DType dtype) {
  switch (RealDType(dtype)) {
    case DType::kF16:
      return 1e-2;
    case DType::kBF16:
      return 5e-2;
    case DType::kF32:
      return 1e-5;
    case DType::kF64:
      return 1e-10;
    default:
      return 0;
  }
}

Discrepancy FindDiscrepancy(DType dtype, int64_t count, const void* own,
                            const void* other) {
  const auto bytes = static_cast<size_t>(count * ElementBytes(dtype));
  if (std::memcmp(own, other, bytes) == 0) return {};
  const auto find = [&]<typename Reading, typename T>(Reading, T) {
    return FindExcess<Reading>(
        AllowedDifference(dtype), IsComplex(dtype) ? 2 * count : count,
        static_cast<const T*>(own), static_cast<const T*>(other));
  };
  Discrepancy found{.is_none = false};
  if (dtype == DType::kF16) {
    found.excess = find(Half(), uint16_t());
  } else if (dtype == DType::kBF16) {
    found.excess = find(BFloat16(), uint16_t());
  } else {
    VisitNative(RealDType(dtype),
                [&](auto element) { found.excess = find(Real(), element); });
  }
  // Large integers may differ by less than a double tells.
  const bool is_rounded = IsFloating(dtype) || IsComplex(dtype);
  if (!is_rounded) found.excess = std::max(found.excess, 1.0);
  return found;
}

}  // namespace mica
