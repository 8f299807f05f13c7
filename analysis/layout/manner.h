// What operators do with images whose elements lie otherwise than recorded.

#ifndef MICA_ANALYSIS_LAYOUT_MANNER_H_
#define MICA_ANALYSIS_LAYOUT_MANNER_H_

#include <vector>

#include "framework/ir/program.h"

namespace mica {

// What an op does with operands whose elements lie otherwise than recorded.
enum class Manner {
  kLeads,    // Gives channels-last results, takes any operands.
  kFollows,  // Takes any, gives its result the strides of its operands.
  kReduces,  // Takes any, gives what was recorded.
  kInsists,  // Wants row-major operands, or those recorded.
};

// Of an op of `program`, whose values are read so often: CountUses().
Manner MannerOf(const Program& program, const Op& op,
                const std::vector<int>& uses);

}  // namespace mica

#endif  // MICA_ANALYSIS_LAYOUT_MANNER_H_
