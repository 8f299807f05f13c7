// Bytecode in words that all versions of CPython share.

#ifndef MICA_PYTHON_INTERPRETER_INSTRUCTIONS_H_
#define MICA_PYTHON_INTERPRETER_INSTRUCTIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// What an instruction does, as far as a stream's listener is told. `arg` is an
// index of the code's names, constants or variables unless it says otherwise.
// Operands are counted from the top of the stack, from 1.
enum class Act : uint8_t {
  kNone,  // Moves values that others made, makes new objects of them, or jumps.
  kDrop,  // Drops operand 1.
  kPartOfStep,  // Belongs to a step that was announced before it.
  kRefuse,      // `arg`: a Reason.
  kLoadConst,
  kKeywordNames,  // `arg`: a constant. For the call that comes next.
  kLoadFast,
  kLoadFastLast,  // As the second half of an instruction.
  kCopy,          // `arg`: which operand.
  kSwap,          // `arg`: with which operand.
  kLoadGlobal,
  kStoreGlobal,
  kDeleteGlobal,
  kLoadName,
  kLoadFromDictOrGlobal,  // The dict is operand 1.
  kStoreName,             // Or deletes it.
  kLoadAttr,              // Of operand 1.
  kLoadSuperAttr,         // Operands: super, a class, self.
  kLoadOwnSuperAttr,      // The same, by super() without arguments.
  kStoreAttr,             // Operands 2 -> 1.
  kDeleteAttr,
  kLoadDeref,
  kStoreDeref,
  kLoadItem,         // 2[1].
  kStoreItem,        // 2[1] = 3.
  kDeleteItem,       // del 2[1].
  kLoadSlice,        // 3[2:1].
  kStoreSlice,       // 3[2:1] = 4.
  kContains,         // 2 in 1.
  kBinary,           // `arg`: one of CPython's NB_*.
  kCompare,          // `arg`: one of Py_LT to Py_GE.
  kCompareForTruth,  // The same, and takes the result's truth.
  kIs,
  kNegate,
  kTruth,         // Of operand 1.
  kTouch,         // Looks at operand 1, and may iterate over it.
  kAdvance,       // Asks operand 1, an iterator, for its next item.
  kTouchAndTake,  // The same, and takes what it gives: its length, keys.
  kTouchSecond,   // Looks at operand 2.
  kTouchBoth,
  kHash,          // Operand `arg` is hashed.
  kHashItems,     // The first `arg` operands are.
  kHashKeys,      // The keys of `arg` pairs are: operands 2, 4, …
  kHashAll,       // What operand 1 gives is.
  kMakeIterator,  // Of operand 1.
  kFormat,  // Makes text: `arg` & 3 is the conversion, 4 if it has a spec.
  kJoin,    // Makes one text of `arg` operands.
  kCall,    // With `arg` arguments.
  kCallKeywords,  // The same; operand 1 is a tuple of keywords.
  kCallSplat,  // f(*args, **kwargs); `arg` says whether there are the latter.
  kWith,       // Enters a context; operand 1 is the manager.
  kLeaveWith,  // Leaves one by an exception, operand 1; operand 4 is the exit.
  kImport,
};

// What no listener knows how to take, as told to Refuse().
enum class Reason : uint8_t {
  kClassPattern,
  kImportStar,
  kPrintExpression,
  kAsynchronous,
  kTypeParameters,
};
const char* TextOf(Reason reason);

struct Instruction {
  Act act = Act::kNone;
  bool is_increment = false;  // Instructions::IncrementAt() tells which.
  bool is_fork = false;       // Jumps, or doesn't, by an operand's truth.
  int32_t arg = 0;
  int32_t depth = 0;  // Of the operands before it; below 0 where not known.
};

// Meaning of an opcode as the compiler makes it, with its whole argument.
Instruction Decode(int opcode, int arg);
// Of those that not all versions have, or that mean something else in some.
Instruction DecodeOwn(int opcode, int arg);

// Of opcodes: extends the next one's argument; is the memory of the one before.
bool IsExtension(int opcode);
bool IsCache(int opcode);

// Those of a code's instructions; none without memory.
std::vector<uint8_t> BytesOf(PyCodeObject* code);

// Calls visit(start, opcode, argument, behind) for each instruction of a code's
// bytes: `start` is the unit where it, or what extends its argument, begins,
// `behind` the one behind it and its caches.
template <typename Visit>
void ForEachInstruction(absl::Span<const uint8_t> bytes, const Visit& visit) {
  const int num_units = static_cast<int>(bytes.size() / 2);
  for (int unit = 0; unit < num_units;) {
    const int start = unit;
    int arg = bytes[2 * unit + 1];
    while (IsExtension(bytes[2 * unit]) && unit + 1 < num_units) {
      ++unit;
      arg = (arg << 8) | bytes[2 * unit + 1];
    }
    const int opcode = bytes[2 * unit];
    for (++unit; unit < num_units && IsCache(bytes[2 * unit]); ++unit) {
    }
    visit(start, opcode, arg, unit);
  }
}

// Where an instruction may lead.
struct Flow {
  enum class Kind : uint8_t { kGoesOn, kJumps, kReturns, kRaises };
  Kind kind = Kind::kGoesOn;
  int target = -1;  // The unit to which it may jump.
  int next = -1;    // The unit behind it.
};
// `behind` is the unit behind the instruction and its caches.
Flow FlowOf(int opcode, int arg, int behind);

// Sets the depth of the instructions of a code, given its bytecode and where
// each begins. False if that can't be done. On 3.11 the frame knows instead.
bool FindDepths(PyCodeObject* code, absl::Span<const uint8_t> bytes,
                absl::Span<const int> starts, absl::Span<Instruction> by_unit);

// A code object's instructions. Keeps the code alive. Immutable.
class Instructions {
 public:
  // Null for code without bytecode, or with one that can't be followed.
  static std::unique_ptr<const Instructions> Of(PyCodeObject* code);

  // By unit. An instruction with EXTENDED_ARGs stands at the first of these.
  const Instruction& at(int unit) const { return by_unit_[unit]; }
  int num_units() const { return static_cast<int>(by_unit_.size()); }

  // `self.n += 1` and its like: a number is added to what an instruction reads,
  // and the sum goes where that came from and nowhere else.
  struct Increment {
    PyRef addend;
    int store = 0;  // The unit of the instruction that puts the sum there.
  };
  const Increment& IncrementAt(int unit) const {
    return increments_.find(unit)->second;
  }

 private:
  Instructions() = default;
  void FindIncrement(PyObject* constants, absl::Span<const int> starts,
                     size_t index);

  PyRef code_;
  std::vector<Instruction> by_unit_;
  absl::flat_hash_map<int, Increment> increments_;
};

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_INSTRUCTIONS_H_
