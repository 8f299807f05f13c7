#include "tools/difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/element.h"
#include "kernels/reference/strided.h"

namespace mica {

double DifferenceOf(const TensorView& got, const TensorView& want) {
  double apart = 0, most = 0;
  for (Odometer at(want.type.dims,
                   {got.type.EffectiveStrides(), want.type.EffectiveStrides()});
       !at.done(); at.Next()) {
    const auto a = LoadElement<double>(got.data, got.type.dtype, at.offset(0));
    const auto b =
        LoadElement<double>(want.data, want.type.dtype, at.offset(1));
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) {
      return std::numeric_limits<double>::infinity();
    }
    apart = std::max(apart, std::fabs(a - b));
    most = std::max(most, std::fabs(b));
  }
  return most == 0 ? apart : apart / most;
}

}  // namespace mica
