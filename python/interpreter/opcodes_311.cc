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
      return {.act = Act::kTruth, .is_fork = true, .arg = arg};
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

Flow FlowOf(int opcode, int arg, int behind) {
  switch (opcode) {
    case JUMP_FORWARD:
      return {.kind = Flow::Kind::kJumps, .target = behind + arg};
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
      return {.kind = Flow::Kind::kJumps, .target = behind - arg};
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case JUMP_IF_FALSE_OR_POP:
    case JUMP_IF_TRUE_OR_POP:
    case FOR_ITER:
    case SEND:
      return {.target = behind + arg};
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      return {.target = behind - arg};
    case RETURN_VALUE:
      return {.kind = Flow::Kind::kReturns};
    case RAISE_VARARGS:
    case RERAISE:
      return {.kind = Flow::Kind::kRaises};
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
