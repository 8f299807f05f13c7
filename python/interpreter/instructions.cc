#include "python/interpreter/instructions.h"

#include <opcode.h>

#include <utility>

namespace mica {
namespace {

// CPython's numbers for `+`, `-` and, from one of them on, `+=` and the rest.
constexpr int kAdd = 0, kSubtract = 10, kInplace = 13;

bool IsSum(const Instruction& instruction) {
  if (instruction.act != Act::kBinary) return false;
  const int operation = instruction.arg % kInplace;
  return operation == kAdd || operation == kSubtract;
}

}  // namespace

bool IsExtension(int opcode) { return opcode == EXTENDED_ARG; }
bool IsCache(int opcode) { return opcode == CACHE; }

std::vector<uint8_t> BytesOf(PyCodeObject* code) {
  const PyRef text = PyRef::Steal(PyCode_GetCode(code));
  if (!text) {
    PyErr_Clear();
    return {};
  }
  const auto* bytes =
      reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(text.get()));
  return {bytes, bytes + PyBytes_GET_SIZE(text.get())};
}

std::unique_ptr<const Instructions> Instructions::Of(PyCodeObject* code) {
  const std::vector<uint8_t> bytes = BytesOf(code);
  if (bytes.empty()) return nullptr;
  const int num_units = static_cast<int>(bytes.size() / 2);
  std::unique_ptr<Instructions> made(new Instructions);
  made->code_ = PyRef::Share(reinterpret_cast<PyObject*>(code));
  made->by_unit_.assign(static_cast<size_t>(num_units),
                        {.act = Act::kPartOfStep});
  std::vector<int> starts;
  ForEachInstruction(bytes, [&](int start, int opcode, int arg, int) {
    made->by_unit_[start] = Decode(opcode, arg);
    starts.push_back(start);
  });
  if (!FindDepths(code, bytes, starts, absl::MakeSpan(made->by_unit_))) {
    return nullptr;
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    made->FindIncrement(code->co_consts, starts, i);
  }
  return made;
}

void Instructions::FindIncrement(PyObject* constants,
                                 absl::Span<const int> starts, size_t index) {
  // What a step does, `ahead` of the one in question (or behind); of a code's
  // edge, nothing.
  const auto step = [&](int ahead) {
    const size_t i = index + static_cast<size_t>(ahead);  // May wrap around.
    return i < starts.size() ? by_unit_[starts[i]] : Instruction();
  };
  const auto is = [&](int ahead, Act act, int arg) {
    return step(ahead).act == act && step(ahead).arg == arg;
  };
  const Instruction read = step(0);
  const bool reads = read.act == Act::kLoadAttr ||
                     read.act == Act::kLoadGlobal ||
                     read.act == Act::kLoadDeref || read.act == Act::kLoadItem;
  if (!reads || step(1).act != Act::kLoadConst || !IsSum(step(2))) return;
  PyObject* number = PyTuple_GET_ITEM(constants, step(1).arg);
  if (!PyLong_CheckExact(number) && !PyFloat_CheckExact(number)) return;
  int store = 3;
  switch (read.act) {
    case Act::kLoadAttr: {
      const Instruction before = step(-1);
      const bool copies = is(-1, Act::kCopy, 1) && is(3, Act::kSwap, 2);
      const bool again =
          (before.act == Act::kLoadFast || before.act == Act::kLoadFastLast) &&
          is(3, Act::kLoadFast, before.arg);
      store = 4;
      if (!copies && !again) return;
      if (!is(store, Act::kStoreAttr, read.arg)) return;
      break;
    }
    case Act::kLoadGlobal:
      if (!is(store, Act::kStoreGlobal, read.arg)) return;
      break;
    case Act::kLoadDeref:
      if (!is(store, Act::kStoreDeref, read.arg)) return;
      break;
    default:
      store = 5;
      if (!is(-1, Act::kCopy, 2) || !is(-2, Act::kCopy, 2) ||
          !is(3, Act::kSwap, 3) || !is(4, Act::kSwap, 2) ||
          step(store).act != Act::kStoreItem) {
        return;
      }
  }
  PyRef addend = step(2).arg % kInplace == kAdd
                     ? PyRef::Share(number)
                     : PyRef::Steal(PyNumber_Negative(number));
  if (!addend) return PyErr_Clear();
  by_unit_[starts[index]].is_increment = true;
  increments_[starts[index]] = {
      .addend = std::move(addend),
      .store = starts[index + static_cast<size_t>(store)]};
}

}  // namespace mica
