// Ops with bodies: branches, loops and calls of functions.
//
//   mica.if(predicate, operands)     one of two bodies of these operands
//   mica.while(initial, invariants)  as long as `cond` of the carried values
//                                    and the invariants holds, `body` of the
//                                    same gives the next carried values
//   mica.call(operands)              a function of these operands
//
// A function is a body that several calls share, as one object: passes and
// analyses take it once. Its name is its Program's. It stands before those that
// call it, so that none calls itself.
//
// A body is isolated: what it uses are its inputs, which stand for operands.

#ifndef MICA_FRAMEWORK_IR_CONTROL_FLOW_H_
#define MICA_FRAMEWORK_IR_CONTROL_FLOW_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/ir/program.h"
#include "framework/op/op_def.h"

namespace mica {

// What an op does with its bodies.
enum class ControlKind : uint8_t {
  kNone,   // It has none.
  kIf,     // Runs one of two.
  kWhile,  // Runs a body as long as a condition holds.
  kCall,   // Runs a function.
};
ControlKind ControlKindOf(const OpDef& def);

// Bodies may stand in bodies this deep: all that walks them recurses.
inline constexpr int kMaxBodyDepth = 32;

// What the bodies are called, in order: "then", "else"; "cond", "body";
// "function".
absl::Span<const absl::string_view> BodyNames(ControlKind control);

// The operands that the bodies' inputs stand for, in order: a branch's or a
// call's operands, a loop's initial values and its invariants.
std::vector<ValueId> BodyOperands(const Op& op);

// How many values a loop carries from one round to the next, the first of
// BodyOperands(); 0 for a branch.
int NumCarried(const Op& op);

// The type of a value of type `type` in memory of its own: row-major if the
// strides leave gaps or overlap.
TensorType OwnedType(const TensorType& type);

// The result types of an op with bodies, `given` where there are any.
// InvalidArgument, naming the body, if the bodies aren't those of the operator,
// take other operands than they get, or give another number of values. Whether
// two bodies give a value in one type counts only where it is read: that is
// CheckControlFlow()'s to say, in analysis.
absl::StatusOr<std::vector<TensorType>> ControlTypes(
    const Op& op, std::vector<TensorType> given,
    absl::Span<const Value> values);

// The functions that a walk over a Program has been in.
using SeenFunctions = absl::flat_hash_set<const Program*>;

// Calls `visit(const std::shared_ptr<const Program>&)` for each body of an op,
// but not for a function that is among `seen`, which gets those that aren't.
template <typename Visitor>
void ForEachNewBody(const Op& op, SeenFunctions& seen, const Visitor& visit) {
  const bool is_call = ControlKindOf(*op.def) == ControlKind::kCall;
  for (const auto& body : op.bodies) {
    if (!is_call || seen.insert(body.get()).second) visit(body);
  }
}

// Calls `visit(const Op&)` for each op and those in its bodies behind it; for
// those of a function behind its first call. An op's index in this order is its
// flat id; without bodies that is its OpId.
template <typename Visitor>
void ForEachOp(const Program& program, const Visitor& visit,
               SeenFunctions& seen) {
  for (const Op& op : program.ops()) {
    visit(op);
    if (op.bodies.empty()) continue;
    ForEachNewBody(op, seen,
                   [&](const auto& body) { ForEachOp(*body, visit, seen); });
  }
}
template <typename Visitor>
void ForEachOp(const Program& program, const Visitor& visit) {
  SeenFunctions seen;
  ForEachOp(program, visit, seen);
}

// Calls `visit(const Op&)` for each op, in order; in place of a call for the
// ops of its function, each time. Branches and loops are one op.
template <typename Visitor>
void ForEachCalledOp(const Program& program, const Visitor& visit) {
  for (const Op& op : program.ops()) {
    if (ControlKindOf(*op.def) == ControlKind::kCall) {
      ForEachCalledOp(*op.bodies[0], visit);
    } else {
      visit(op);
    }
  }
}

// How many ops ForEachOp() visits of a Program.
OpId CountOps(const Program& program);

// The functions that a Program calls, in its bodies too, each once and behind
// those that it calls itself.
std::vector<const Program*> FunctionsOf(const Program& program);

// The op with this flat id, which there must be.
const Op& OpAt(const Program& program, OpId flat_id);

// True if the operator, or one in a body, has an effect beside its results.
bool HasEffect(const Op& op);

// True if the operator, or one in a body, is known by its schema alone.
bool IsOpaque(const Op& op);

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_CONTROL_FLOW_H_
