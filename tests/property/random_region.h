// Random regions, and operands with every special value.

#ifndef MICA_TESTS_PROPERTY_RANDOM_REGION_H_
#define MICA_TESTS_PROPERTY_RANDOM_REGION_H_

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/region/region_rows.h"

namespace mica {

// Code of 1 to 12 instructions in any dtypes over 1 to 4 operands; every
// instruction is a result.
region::Signature RandomRegion(std::mt19937_64& random);

// Fills `count` elements: of floats random bits, ordinary numbers, small whole
// ones, zeros, infinities, nans, denormals.
void FillRandomElements(std::mt19937_64& random, DType dtype, int64_t count,
                        char* at);

}  // namespace mica

#endif  // MICA_TESTS_PROPERTY_RANDOM_REGION_H_
