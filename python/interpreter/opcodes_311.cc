#include <opcode.h>

#include "python/interpreter/instructions.h"

namespace mica {

Instruction DecodeOwn(int opcode, int arg) {
  const auto as = [&](Act act) { return Instruction{.act = act, .arg = arg}; };
  const auto refuse = [](Reason reason) {
    return Instruction{.act = Act::kRefuse, .arg = static_cast<int>(reason)};
  };
  switch (opcode) {
    case KW_NAMES:
      return as(Act::kKeywordNames);
    case LOAD_ATTR:
    case LOAD_METHOD:
      return as(Act::kLoadAttr);
    case LOAD_CLASSDEREF:
      return as(Act::kLoadDeref);
    case COMPARE_OP:
      return as(Act::kCompare);
    case UNARY_POSITIVE:
      return as(Act::kTouch);
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case JUMP_IF_FALSE_OR_POP:
    case JUMP_IF_TRUE_OR_POP:
      return as(Act::kTruth);
    case FORMAT_VALUE:
      return {.act = Act::kFormat, .arg = arg & 7};
    case PRECALL:
      return as(Act::kCall);
    case CALL:
      return as(Act::kPartOfStep);
    case IMPORT_STAR:
      return refuse(Reason::kImportStar);
    case PRINT_EXPR:
      return refuse(Reason::kPrintExpression);
    case ASYNC_GEN_WRAP:
      return refuse(Reason::kAsynchronous);
    default:
      return {};
  }
}

bool FindDepths(PyCodeObject* /*code*/, absl::Span<const uint8_t> /*bytes*/,
                absl::Span<const int> /*starts*/,
                absl::Span<Instruction> /*by_unit*/) {
  return true;
}

}  // namespace mica
