// Floats of 16 bits.

#ifndef MICA_FRAMEWORK_TENSOR_HALF_H_
#define MICA_FRAMEWORK_TENSOR_HALF_H_

#include <cstdint>

#include "framework/tensor/dtype.h"

namespace mica {

float BFloat16ToFloat(uint16_t bits);
float HalfToFloat(uint16_t bits);
// To the nearest, of two to the even one.
uint16_t FloatToBFloat16(float value);
uint16_t FloatToHalf(float value);

// `value` as a number of a floating-point dtype; others leave it as it is.
double RoundedTo(DType dtype, double value);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TENSOR_HALF_H_
