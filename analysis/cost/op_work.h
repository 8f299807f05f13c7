// How much work an op is, from types alone.

#ifndef MICA_ANALYSIS_COST_OP_WORK_H_
#define MICA_ANALYSIS_COST_OP_WORK_H_

#include "framework/ir/program.h"

namespace mica {

// An estimate: what depends on it is how well something runs, never what.
struct OpWork {
  double moved = 0;     // Numbers that it reads and writes.
  double products = 0;  // Multiplications, where these tell how long it takes.
};

// One that goes forward, with or without what is fused behind it.
bool IsConvolution(const Op& op);

// Nothing for a view. A convolution's products are counted; another
// contraction's are the root of the product of its results' and its two largest
// operands' numbers: of [m,k] by [k,n] that is m k n.
OpWork WorkOf(const Program& program, const Op& op);

}  // namespace mica

#endif  // MICA_ANALYSIS_COST_OP_WORK_H_
