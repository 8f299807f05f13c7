// Which values of a Program are the same at every run.

#ifndef MICA_ANALYSIS_LOWER_FIXED_VALUES_H_
#define MICA_ANALYSIS_LOWER_FIXED_VALUES_H_

#include <vector>

#include "framework/ir/program.h"
#include "framework/op/op_def.h"

namespace mica {

// Whether an operator gives memory as it was found: aten.empty and its kin.
bool IsUninitialised(const OpDef& def);

// By ValueId: true for what is computed from constants alone, without chance
// and by operators whose meaning is known. False may be overcautious.
std::vector<bool> FixedValues(const Program& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_FIXED_VALUES_H_
