#include "executor/binding/same_folds.h"

#include <algorithm>
#include <vector>

#include "framework/ir/argument.h"
#include "framework/ir/program.h"

namespace mica {
namespace {

// The types of the values that an op is given and gives, in order.
std::vector<TensorType> TypesOf(const Program& program, const Op& op) {
  std::vector<TensorType> types;
  const auto add = [&](ValueId id) { types.push_back(program.type(id)); };
  ForEachValue(op.arguments, add);
  for (const ValueId id : op.results) add(id);
  return types;
}

// The arguments, whichever values are among them.
Arguments WithoutValues(const Op& op) {
  Arguments arguments = op.arguments;
  RenameValues(arguments, [](ValueId) { return ValueId{0}; });
  return arguments;
}

bool IsSameOp(const Plan& a, const Step& a_step, const Plan& b,
              const Step& b_step) {
  if (a_step.call >= 0 || b_step.call >= 0) return false;
  if (a_step.op < 0 || b_step.op < 0) return a_step.op == b_step.op;
  const Op& a_op = a.program().ops()[a_step.op];
  const Op& b_op = b.program().ops()[b_step.op];
  return a_op.def == b_op.def && a_op.bodies.empty() &&
         WithoutValues(a_op) == WithoutValues(b_op) &&
         TypesOf(a.program(), a_op) == TypesOf(b.program(), b_op);
}

bool IsSameFold(const Plan& a, const Step& a_step, const Plan& b,
                const Step& b_step) {
  const auto args = [](const Plan& plan, const Step& step) {
    return plan.fold_args().subspan(step.first_arg, step.num_args);
  };
  const auto a_args = args(a, a_step);
  const bool reads_constant =
      std::any_of(a_args.begin(), a_args.end(), [](const Location& location) {
        return location.home == Home::kConstant;
      });
  return !reads_constant && a_step.name == b_step.name &&
         a_step.kernel == b_step.kernel && a_args == args(b, b_step) &&
         IsSameOp(a, a_step, b, b_step);
}

}  // namespace

bool HaveSameFolds(const Plan& a, const Plan& b) {
  const auto has_same_bytes = [](const FoldedValue& x, const FoldedValue& y) {
    return x.bytes == y.bytes;
  };
  return std::equal(a.folded().begin(), a.folded().end(), b.folded().begin(),
                    b.folded().end(), has_same_bytes) &&
         std::equal(a.folds().begin(), a.folds().end(), b.folds().begin(),
                    b.folds().end(), [&](const Step& x, const Step& y) {
                      return IsSameFold(a, x, b, y);
                    });
}

}  // namespace mica
