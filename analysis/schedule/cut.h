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
  // Of a training step: what its backward pass starts from, and the gradients
  // that its updates read. Without gradients all of the Program is forward.
  std::string loss;
  std::vector<GradientOf> gradients;
  // Backward passes in two parts: inputs' gradients, variables' gradients.
  bool split_backward = false;
};

// Programs of all classes of Jobs, in terms that PipelinePlan joins.
struct CutProgram {
  struct Stage {
    JobClass jobs;
    Program program;
    double cost = 0;  // As EstimateCost().
  };
  std::vector<Stage> stages;
  std::vector<std::string> fetches;       // What the Program returns.
  std::vector<std::string> accumulators;  // "sum of gradients: fc.weight".
};

// The forward pass, which the loss depends on, is cut in its order into pieces
// of about equal cost. A backward op goes where its forward op's values and
// variables are, as far as values only flow backward. What a gradient's value
// is becomes a sum over the micro-batches; an op behind it is part of its
// stage's update. Views are made anew where they are read.
//
// What the Program computes of one micro-batch, the stages compute with the
// same ops: equal bits, unless their Plans fuse ops that the whole one doesn't.
//
// NotFound for a loss, gradient or variable that there is not.
// InvalidArgument, naming the value or variable, where an update reads a value
// of a micro-batch or gradients of several stages, where an input is updated,
// and where the Program returns what no op computes.
absl::StatusOr<CutProgram> CutIntoStages(const Program& program,
                                         const CutOptions& options,
                                         const OpRegistry& registry);

// About how long an op takes: the numbers that it reads and writes or, where it
// isn't elementwise, the root of the product of its result's and its two
// largest operands' numbers, which of a matrix product are its multiplications.
double EstimateCost(const Program& program, const Op& op);

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_CUT_H_
