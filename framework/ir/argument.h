// What an Op is applied to: values and constants, in the order of its schema.

#ifndef MICA_FRAMEWORK_IR_ARGUMENT_H_
#define MICA_FRAMEWORK_IR_ARGUMENT_H_

#include <complex>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "framework/tensor/dtype.h"

namespace mica {

// A Value's index in its Program.
using ValueId = int32_t;
// In a list of values: an entry that is absent (aten.index's None).
inline constexpr ValueId kNoValue = -1;

// A Value used as an argument; a type of its own, so that it is never taken
// for an integer constant.
struct ValueRef {
  ValueId id = kNoValue;
  friend bool operator==(const ValueRef&, const ValueRef&) = default;
};
using ValueRefs = std::vector<ValueRef>;

// One argument. monostate is None. int64s and lists of them may be or hold
// symbols (IsSymbol).
using Argument =
    std::variant<std::monostate, ValueRef, ValueRefs, int64_t, double, bool,
                 DType, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<bool>, std::complex<double>>;
using Arguments = absl::InlinedVector<Argument, 4>;

inline bool IsNone(const Argument& argument) {
  return std::holds_alternative<std::monostate>(argument);
}

// Calls `visit(ValueId)` for each value among `arguments`, in order, absent
// ones left out. This order is that of a kernel's operands.
template <typename Visitor>
void ForEachValue(const Arguments& arguments, Visitor&& visit) {
  for (const Argument& argument : arguments) {
    if (const auto* ref = std::get_if<ValueRef>(&argument)) {
      visit(ref->id);
    } else if (const auto* refs = std::get_if<ValueRefs>(&argument)) {
      for (ValueRef ref : *refs) {
        if (ref.id != kNoValue) visit(ref.id);
      }
    }
  }
}

// As ForEachValue, but `rename(ValueId) -> ValueId` replaces each value.
template <typename Renamer>
void RenameValues(Arguments& arguments, Renamer&& rename) {
  for (Argument& argument : arguments) {
    if (auto* ref = std::get_if<ValueRef>(&argument)) {
      ref->id = rename(ref->id);
    } else if (auto* refs = std::get_if<ValueRefs>(&argument)) {
      for (ValueRef& ref : *refs) {
        if (ref.id != kNoValue) ref.id = rename(ref.id);
      }
    }
  }
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_ARGUMENT_H_
