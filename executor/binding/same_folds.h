// Whether two Plans fold the same.

#ifndef MICA_EXECUTOR_BINDING_SAME_FOLDS_H_
#define MICA_EXECUTOR_BINDING_SAME_FOLDS_H_

#include "analysis/plan/plan.h"

namespace mica {

// True if, on the same variables, both Plans fold the same values, one by one
// under the same index: the same kernels, for operators with the same arguments
// and types, on the same of the variables and of what was folded before. False
// where a fold reads a constant, which may be another.
bool HaveSameFolds(const Plan& a, const Plan& b);

}  // namespace mica

#endif  // MICA_EXECUTOR_BINDING_SAME_FOLDS_H_
