// How many operands are on a frame's stack before each instruction, from the
// code alone: while it runs, a frame of 3.12 or later doesn't tell.

#include <opcode.h>

#include <vector>

#include "python/interpreter/instructions.h"

namespace mica {
namespace {

class DepthFinder {
 public:
  DepthFinder(PyCodeObject* code, absl::Span<const uint8_t> bytes,
              absl::Span<Instruction> by_unit)
      : code_(*code), bytes_(bytes), by_unit_(by_unit) {}

  bool Run(absl::Span<const int> starts) {
    if (starts.empty()) return false;
    for (const int start : starts) by_unit_[start].depth = -1;
    return Reach(starts[0], 0) && ReachHandlers() && Drain();
  }

 private:
  // An instruction as the bytes have it.
  struct Raw {
    int opcode = 0;
    int arg = 0;
    int next = 0;  // The unit behind it and its caches.
  };
  Raw Read(int unit) const {
    Raw raw{.arg = bytes_[2 * unit + 1]};
    while (bytes_[2 * unit] == EXTENDED_ARG) {
      ++unit;
      raw.arg = (raw.arg << 8) | bytes_[2 * unit + 1];
    }
    raw.opcode = bytes_[2 * unit];
    raw.next = unit + 1;
    const int size = static_cast<int>(by_unit_.size());
    while (raw.next < size && bytes_[2 * raw.next] == CACHE) ++raw.next;
    return raw;
  }

  // Notes a depth before the instruction at `unit`. False if it can't be, or if
  // another way there gives another.
  bool Reach(int unit, int depth) {
    if (unit < 0 || unit >= static_cast<int>(by_unit_.size()) || depth < 0 ||
        depth > code_.co_stacksize) {
      return false;
    }
    int& known = by_unit_[unit].depth;
    if (known >= 0) return known == depth;
    known = depth;
    todo_.push_back(unit);
    return true;
  }

  bool Drain() {
    while (!todo_.empty()) {
      const int unit = todo_.back();
      todo_.pop_back();
      const Raw raw = Read(unit);
      const int depth = by_unit_[unit].depth;
      const Flow flow = FlowOf(raw.opcode, raw.arg, raw.next);
      if (flow.target >= 0) {
        if (!Reach(flow.target, depth + EffectOf(raw, /*jumps=*/1))) {
          return false;
        }
      }
      if (flow.kind == Flow::Kind::kGoesOn &&
          !Reach(raw.next, depth + EffectOf(raw, /*jumps=*/0))) {
        return false;
      }
    }
    return true;
  }

  static int EffectOf(const Raw& raw, int jumps) {
    // A generator that is resumed gets a value; the opcode that makes it was
    // said to push nothing before 3.13.
    if (raw.opcode == RETURN_GENERATOR) return 1;
    return PyCompile_OpcodeStackEffectWithJump(raw.opcode, raw.arg, jumps);
  }

  // One number of the exception table: six bits a byte, the highest first.
  int ReadNumber(size_t* at) const {
    const auto* table = reinterpret_cast<const uint8_t*>(
        PyBytes_AS_STRING(code_.co_exceptiontable));
    const auto size =
        static_cast<size_t>(PyBytes_GET_SIZE(code_.co_exceptiontable));
    int number = 0;
    while (*at < size) {
      const uint8_t byte = table[(*at)++];
      number = (number << 6) | (byte & 63);
      if ((byte & 64) == 0) break;
    }
    return number;
  }

  // Handlers find as many operands as their entry says, where the exception was
  // raised if it says so, and the exception.
  bool ReachHandlers() {
    const auto size =
        static_cast<size_t>(PyBytes_GET_SIZE(code_.co_exceptiontable));
    for (size_t at = 0; at < size;) {
      ReadNumber(&at);  // Where its range begins,
      ReadNumber(&at);  // and how long that is.
      const int target = ReadNumber(&at);
      const int depth_and_flag = ReadNumber(&at);
      const int depth = (depth_and_flag >> 1) + (depth_and_flag & 1) + 1;
      if (!Reach(target, depth)) return false;
    }
    return true;
  }

  const PyCodeObject& code_;
  absl::Span<const uint8_t> bytes_;
  absl::Span<Instruction> by_unit_;
  std::vector<int> todo_;
};

}  // namespace

Flow FlowOf(int opcode, int arg, int behind) {
  switch (opcode) {
    case JUMP_FORWARD:
      return {.kind = Flow::Kind::kJumps, .target = behind + arg};
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
      return {.kind = Flow::Kind::kJumps, .target = behind - arg};
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_TRUE:
    case POP_JUMP_IF_NONE:
    case POP_JUMP_IF_NOT_NONE:
    case FOR_ITER:
    case SEND:
      return {.target = behind + arg};
    case RETURN_VALUE:
    case RETURN_CONST:
    case INTERPRETER_EXIT:
      return {.kind = Flow::Kind::kReturns};
    case RAISE_VARARGS:
    case RERAISE:
      return {.kind = Flow::Kind::kRaises};
    default:
      return {};
  }
}

bool FindDepths(PyCodeObject* code, absl::Span<const uint8_t> bytes,
                absl::Span<const int> starts, absl::Span<Instruction> by_unit) {
  return DepthFinder(code, bytes, by_unit).Run(starts);
}

}  // namespace mica
