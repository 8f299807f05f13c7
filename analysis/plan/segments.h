// Programs with sizes that depend on data run in segments.

#ifndef MICA_ANALYSIS_PLAN_SEGMENTS_H_
#define MICA_ANALYSIS_PLAN_SEGMENTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program cut behind an op whose result has as many rows as data decides. The
// head is static: memory is planned for the most rows that there can be, and it
// returns how many there are. The rest is planned once that is known, for so
// many.
struct Segments {
  // Has the inputs and variables of the whole, updates none of them. Returns
  // the result in room for all rows, the number of rows, then what else the
  // rest reads.
  std::shared_ptr<const Program> head;
  // Has the variables of the whole and its inputs; behind these, in the order
  // of `carried`, what the head returns but the number of rows. Returns and
  // updates what the whole does.
  std::shared_ptr<const Program> rest;
  std::vector<std::string> carried;  // Names of the rest's inputs.
  // How errors name the op, and its result as the Program has it: its rows are
  // a symbol, or the size that this symbol was found to have before.
  std::string op;
  TensorType result;
};

// Cuts behind Program::first_bounded_op(), which there must be. InvalidArgument
// if a size is unknown that it doesn't decide: no input's shape gives it, no op
// before.
absl::StatusOr<Segments> CutAtBoundedOp(const Program& program,
                                        const OpRegistry& ops);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_SEGMENTS_H_
