#include <opcode.h>

#include "python/interpreter/opcodes_since_312.h"

namespace mica {

Instruction DecodeNewest(int opcode, int arg) {
  const auto as = [&](Act act) { return Instruction{.act = act, .arg = arg}; };
  switch (opcode) {
    case KW_NAMES:
      return as(Act::kKeywordNames);
    case COMPARE_OP:  // The lower bits are the specialiser's.
      return {.act = Act::kCompare, .arg = arg >> 4};
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_TRUE:
      return {.act = Act::kTruth, .is_fork = true, .arg = arg};
    case FORMAT_VALUE:
      return {.act = Act::kFormat, .arg = arg & 7};
    default:
      return {};
  }
}

}  // namespace mica
