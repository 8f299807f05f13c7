// What 3.12 brought and later versions kept, but for what opcodes_312.cc and
// opcodes_313.cc have.

#include "python/interpreter/opcodes_since_312.h"

#include <opcode.h>

#include "python/interpreter/instructions.h"

namespace mica {
namespace {

// CALL_INTRINSIC_1's.
enum Intrinsic {
  kPrint = 1,
  kImportStar = 2,
  kStopIterationError = 3,
  kAsyncGenWrap = 4,
  kUnaryPositive = 5,
  kListToTuple = 6,
};

Instruction DecodeIntrinsic(int number) {
  const auto refuse = [](Reason reason) {
    return Instruction{.act = Act::kRefuse, .arg = static_cast<int>(reason)};
  };
  switch (number) {
    case kPrint:
      return refuse(Reason::kPrintExpression);
    case kImportStar:
      return refuse(Reason::kImportStar);
    case kAsyncGenWrap:
      return refuse(Reason::kAsynchronous);
    case kStopIterationError:
    case kListToTuple:
      return {};
    case kUnaryPositive:
      return {.act = Act::kTouch};
    default:
      return refuse(Reason::kTypeParameters);
  }
}

}  // namespace

Instruction DecodeOwn(int opcode, int arg) {
  const auto as = [&](Act act) { return Instruction{.act = act, .arg = arg}; };
  switch (opcode) {
    case LOAD_ATTR:  // The lowest bit: a method, to be called.
      return {.act = Act::kLoadAttr, .arg = arg >> 1};
    case LOAD_SUPER_ATTR:
      return {
          .act = (arg & 2) != 0 ? Act::kLoadSuperAttr : Act::kLoadOwnSuperAttr,
          .arg = arg >> 2};
    case RETURN_CONST:
      return as(Act::kLoadConst);
    case LOAD_FROM_DICT_OR_GLOBALS:
      return as(Act::kLoadFromDictOrGlobal);
    case LOAD_FROM_DICT_OR_DEREF:
      return as(Act::kLoadDeref);
    case LOAD_FAST_CHECK:
      return as(Act::kLoadFast);
    case BINARY_SLICE:
      return as(Act::kLoadSlice);
    case STORE_SLICE:
      return as(Act::kStoreSlice);
    case CALL:
      return as(Act::kCall);
    case CALL_INTRINSIC_1:
      return DecodeIntrinsic(arg);
    case CALL_INTRINSIC_2: {
      constexpr int kPrepReraiseStar = 1;
      if (arg == kPrepReraiseStar) return {};
      return {.act = Act::kRefuse,
              .arg = static_cast<int>(Reason::kTypeParameters)};
    }
    default:
      return DecodeNewest(opcode, arg);
  }
}

}  // namespace mica
