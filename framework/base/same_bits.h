#ifndef MICA_FRAMEWORK_BASE_SAME_BITS_H_
#define MICA_FRAMEWORK_BASE_SAME_BITS_H_

#include <complex>
#include <cstdint>

#include "absl/base/casts.h"

namespace mica {

// Equal bit for bit: a zero's sign and a NaN's bits count.
inline bool SameBits(double a, double b) {
  return absl::bit_cast<uint64_t>(a) == absl::bit_cast<uint64_t>(b);
}

inline bool SameBits(std::complex<double> a, std::complex<double> b) {
  return SameBits(a.real(), b.real()) && SameBits(a.imag(), b.imag());
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_SAME_BITS_H_
