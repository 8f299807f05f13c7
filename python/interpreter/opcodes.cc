#include <opcode.h>

#include "python/interpreter/instructions.h"

namespace mica {

const char* TextOf(Reason reason) {
  switch (reason) {
    case Reason::kClassPattern:
      return "matches a class pattern";
    case Reason::kImportStar:
      return "imports all names of a module";
    case Reason::kPrintExpression:
      return "prints an expression";
    case Reason::kAsynchronous:
      return "runs asynchronous code";
    case Reason::kTypeParameters:
      return "makes type parameters";
  }
  return "";
}

Instruction Decode(int opcode, int arg) {
  const auto as = [&](Act act) { return Instruction{.act = act, .arg = arg}; };
  const auto refuse = [](Reason reason) {
    return Instruction{.act = Act::kRefuse, .arg = static_cast<int>(reason)};
  };
  switch (opcode) {
    case LOAD_CONST:
      return as(Act::kLoadConst);
    case LOAD_FAST:
      return as(Act::kLoadFast);
    case POP_TOP:
      return as(Act::kDrop);
    case COPY:
      return as(Act::kCopy);
    case SWAP:
      return as(Act::kSwap);
    case LOAD_GLOBAL:
      return {.act = Act::kLoadGlobal, .arg = arg >> 1};
    case STORE_GLOBAL:
      return as(Act::kStoreGlobal);
    case DELETE_GLOBAL:
      return as(Act::kDeleteGlobal);
    case LOAD_NAME:
      return as(Act::kLoadName);
    case STORE_NAME:
    case DELETE_NAME:
      return as(Act::kStoreName);
    case IMPORT_FROM:
      return as(Act::kLoadAttr);
    case STORE_ATTR:
      return as(Act::kStoreAttr);
    case DELETE_ATTR:
      return as(Act::kDeleteAttr);
    case LOAD_DEREF:
    case DELETE_DEREF:
      return as(Act::kLoadDeref);
    case STORE_DEREF:
      return as(Act::kStoreDeref);
    case BINARY_SUBSCR:
      return as(Act::kLoadItem);
    case STORE_SUBSCR:
      return as(Act::kStoreItem);
    case DELETE_SUBSCR:
      return as(Act::kDeleteItem);
    case CONTAINS_OP:
      return as(Act::kContains);
    case BINARY_OP:
      return as(Act::kBinary);
    case IS_OP:
      return as(Act::kIs);
    case UNARY_NEGATIVE:
      return as(Act::kNegate);
    case UNARY_NOT:
      return as(Act::kTruth);
    case GET_ITER:
      return as(Act::kMakeIterator);
    case FOR_ITER:
      return as(Act::kAdvance);
    case UNARY_INVERT:
    case GET_YIELD_FROM_ITER:
    case UNPACK_SEQUENCE:
    case UNPACK_EX:
    case MATCH_MAPPING:
    case MATCH_SEQUENCE:
    case LIST_EXTEND:
      return as(Act::kTouch);
    case GET_LEN:
    case DICT_UPDATE:
    case DICT_MERGE:
      return as(Act::kTouchAndTake);
    case BUILD_MAP:
      return as(Act::kHashKeys);
    case BUILD_SET:
      return as(Act::kHashItems);
    case MAP_ADD:
      return {.act = Act::kHash, .arg = 2};
    case SET_ADD:
      return {.act = Act::kHash, .arg = 1};
    case SET_UPDATE:
      return as(Act::kHashAll);
    case SEND:
      return as(Act::kTouchSecond);
    case MATCH_KEYS:
      return as(Act::kTouchBoth);
    case MATCH_CLASS:
      return refuse(Reason::kClassPattern);
    case BUILD_STRING:
      return as(Act::kJoin);
    case CALL_FUNCTION_EX:
      return {.act = Act::kCallSplat, .arg = arg & 1};
    case BEFORE_WITH:
      return as(Act::kWith);
    case WITH_EXCEPT_START:
      return as(Act::kLeaveWith);
    case IMPORT_NAME:
      return as(Act::kImport);
    case GET_AWAITABLE:
    case GET_AITER:
    case GET_ANEXT:
    case BEFORE_ASYNC_WITH:
    case END_ASYNC_FOR:
      return refuse(Reason::kAsynchronous);
    default:
      return DecodeOwn(opcode, arg);
  }
}

}  // namespace mica
