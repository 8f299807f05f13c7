// Where the instructions of a region that are of 16 bits round.

#ifndef MICA_KERNELS_REGION_ROUNDING_H_
#define MICA_KERNELS_REGION_ROUNDING_H_

#include <vector>

#include "kernels/region/region_rows.h"

namespace mica::region {

struct Rounding {
  // What an instruction of 16 bits computes is a number of its dtype without
  // being rounded, as what `neg` or `maximum` make of such numbers.
  bool is_exact = false;
  // A nan that it makes has no bits beyond a bfloat's. Others may become
  // numbers when they are rounded as if they were some.
  bool has_short_nans = false;
};

// Of each instruction.
std::vector<Rounding> RoundingsOf(const Signature& signature);

}  // namespace mica::region

#endif  // MICA_KERNELS_REGION_ROUNDING_H_
