// Cuts a Program into the stages of a pipeline.

#ifndef MICA_ANALYSIS_SCHEDULE_CUT_H_
#define MICA_ANALYSIS_SCHEDULE_CUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/schedule/value_plan.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// The value of a training step that is a variable's gradient.
struct GradientOf {
  std::string variable;  // By the user's name.
  std::string value;     // Without the "%".
};

struct CutOptions {
  int num_stages = 1;
  // The modules with which the stages begin, but for the first, in the order
  // in which the forward pass comes to them: {"layers.2", "layers.4"} makes
  // three stages. Empty: stages of about equal cost.
  std::vector<std::string> scopes;
  // The device of each stage; empty: one each. A tensor that goes from one to
  // another is sent and received.
  std::vector<int> device_of_stage;
  // Of a training step: what its backward pass starts from, and the gradients
  // that its updates read. Found from the Program, unless given, if it tells
  // which ops are backward ones (SourceLine); without any gradient all of it is
  // forward.
  std::string loss;
  std::vector<GradientOf> gradients;
  // Backward passes in two parts: inputs' gradients, variables' gradients.
  bool split_backward = false;
  // Stages have reducing Jobs, needed or not.
  bool reduce = false;
  // Ops with effects are taken: who runs them sees to it that random numbers
  // are those of the whole Program.
  bool keeps_random_order = false;
};

// Programs of all classes of Jobs, in terms that PipelinePlan joins.
struct CutProgram {
  struct Stage {
    JobClass jobs;
    Program program;
    double cost = 0;  // As StageCostOf().
  };
  std::vector<Stage> stages;
  // What the Program returns: of each micro-batch or, where it is computed
  // from gradients behind the backward pass, of all of them.
  std::vector<std::string> fetches;
  std::vector<std::string> accumulators;  // "sum of gradients: fc.weight".
};

// The forward pass is cut in its order, before the first op of a module or into
// pieces of about equal cost; but elementwise ops, which may be fused into the
// ops before, stay in the stage of what they are applied to. A backward op goes
// where its module's forward ops are or, where none is known, its forward op's
// values and variables, as far as values only flow backward. What a gradient's
// value is becomes a sum over the micro-batches; an op behind it is part of its
// stage's update. Where an update reads gradients of several stages, as it does
// to clip them by their global norm, each stage reduces its own ones first, to
// the values that an op then joins: the ops from there on are part of each
// update. Views are made anew where they are read.
//
// A tensor of another device arrives as an input, %"h to 1", which mica.receive
// reads; where it is made, mica.send gives it that name. Host scalars are every
// device's.
//
// What the Program computes of one micro-batch, the stages compute with the
// same ops: equal bits, unless their Plans fuse ops that the whole one doesn't.
//
// NotFound for a loss, gradient, variable or module that there is not.
// InvalidArgument, naming the value or variable, where an update reads a value
// of a micro-batch, where a gradient is of no variable or several, where an
// input is updated, and where the Program returns what no op computes.
// Unimplemented, naming the op, for random numbers, unless keeps_random_order:
// they would be drawn in another order.
absl::StatusOr<CutProgram> CutIntoStages(const Program& program,
                                         const CutOptions& options,
                                         const OpRegistry& registry);

// About how long an op takes: the numbers that it moves or, where there are
// more of them, its multiplications.
double StageCostOf(const Program& program, const Op& op);

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_CUT_H_
