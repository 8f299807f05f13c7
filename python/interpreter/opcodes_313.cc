#include <opcode.h>

#include "python/interpreter/opcodes_since_312.h"

namespace mica {

Instruction DecodeNewest(int opcode, int arg) {
  const auto as = [&](Act act) { return Instruction{.act = act, .arg = arg}; };
  switch (opcode) {
    case LOAD_FAST_LOAD_FAST:
    case STORE_FAST_LOAD_FAST:
      return {.act = Act::kLoadFastLast, .arg = arg & 15};
    case COMPARE_OP:  // The lower bits are the specialiser's and "to bool".
      return {.act = (arg & 16) != 0 ? Act::kCompareForTruth : Act::kCompare,
              .arg = arg >> 5};
    case TO_BOOL:
      return as(Act::kTruth);
    // These take bools alone, TO_BOOL's or a comparison's.
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_TRUE:
      return {.act = Act::kTruth, .is_fork = true, .arg = arg};
    case CALL_KW:
      return as(Act::kCallKeywords);
    case CONVERT_VALUE:
      return {.act = Act::kFormat, .arg = arg & 3};
    case FORMAT_SIMPLE:
      return {.act = Act::kFormat, .arg = 0};
    case FORMAT_WITH_SPEC:
      return {.act = Act::kFormat, .arg = 4};
    default:
      return {};
  }
}

}  // namespace mica
