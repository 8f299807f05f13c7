// The frozen result of analysis.

#ifndef MICA_ANALYSIS_PLAN_PLAN_H_
#define MICA_ANALYSIS_PLAN_PLAN_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analysis/plan/plan_structure.h"
#include "analysis/precision/precision.h"
#include "analysis/streams/queue_plan.h"
#include "analysis/streams/stream_plan.h"
#include "framework/base/environment.h"
#include "framework/base/large_vector.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

using StepId = int32_t;
struct ControlPlan;

// Whose memory an address is counted from.
enum class Home : uint8_t {
  kNone,      // No address: a result that nobody reads.
  kArena,     // The Job's one allocation.
  kConstant,  // The Plan's copy of the Program's constants.
  kInput,     // Program::inputs()[index], bound at each run.
  kVariable,  // Program::variables()[index], bound by the Binding.
  kOutput,    // Program::outputs()[index], the caller's, bound at each run;
              // scratch until it is written.
  kPacked,    // The Binding's packed copy number `index`.
  kFolded,    // The Binding's folded value number `index`.
};

// Where a step finds an operand or puts a result.
struct Location {
  Home home = Home::kNone;
  int32_t index = 0;
  int64_t offset = 0;  // In bytes.
  friend bool operator==(const Location&, const Location&) = default;
};

// A call of a function whose steps were laid out among the Plan's own.
struct CallSite {
  // Whose ops those steps run: a body of program(), at any depth.
  const Program* function = nullptr;
  // The call: an op of the Program, or of the function that `caller` calls.
  OpId op = -1;
  int32_t caller = -1;  // In Plan::calls(); -1 for the Program.
  // What leads from its ops' origins to those of this call.
  OpId origin_shift = 0;
};

// One launch. Its operands, results and scratch are
// Plan::args()[first_arg, first_arg + num_args), in this order. Its names last
// as long as the Plan.
struct Step {
  absl::string_view name;    // "aten.addmm", "copy output 0".
  absl::string_view kernel;  // The Kernel's name.
  std::shared_ptr<const Prepared> prepared;
  // Of a branch or a loop, which has no launch of its own.
  std::shared_ptr<const ControlPlan> control;
  OpId op = -1;       // Of Plan::block(); -1 for a copy that the plan added.
  int32_t call = -1;  // In Plan::calls(); -1 for a step of program() itself.
  int32_t first_arg = 0;
  int32_t num_args = 0;
  int32_t num_operands = 0;
};

// A packed copy of a frozen variable or a folded value that a Binding makes
// for a step.
struct PackedOperand {
  Location from;
  int64_t from_bytes = 0;  // That there are.
  int64_t bytes = 0;
  std::string layout;  // As in a PackRequest.
  std::function<absl::Status(const void* from, void* to)> pack;
};

struct PlanOptions {
  int num_threads = 1;  // Of one step, or of a queue.
  // Steps that don't need each other run side by side on `num_threads` threads,
  // and wide ones are cut into pieces that those share; nothing but opaque
  // operators uses OpenMP's threads. Without effect if there are streams.
  bool queue = false;
  // What it costs to take a step from the queue.
  double take_nanoseconds = 300;
  // Steps that don't need each other run on so many threads at once.
  int num_streams = 1;
  // What it costs one of them to wait for another.
  double wait_nanoseconds = 2000;
  // Variables never change: kernels may pack them, passes may fold them.
  bool frozen = false;
  // Products with frozen weights in few bits; wants `frozen`.
  Precision precision = Precision::kAsWritten;
  // Merge ops into fused ones (mica.linear, mica.add_layer_norm).
  bool fuse = true;
  // Which kinds of that (pipeline/fusing.h); the variable MICA_FUSE says so.
  std::string fusing = EnvironmentVariable("MICA_FUSE");
  // Find repeated layers, and decide for each once: a Plan of many equal layers
  // is made in the time of few. It then runs as if they had been planned apart.
  bool share_layers = true;
  // Functions' steps are laid out where they are called, in their order, with
  // addresses of their own. Else a call is one step, and runs its function's
  // Plan on the thread that takes it: less memory for many calls.
  bool inline_calls = true;
  // Let a result take the bytes of an operand that dies.
  bool reuse_buffers = true;
  // Write a part of an input or a variable where it is, while the run goes on,
  // and take it back if that fails. For who knows that what is written shares
  // no memory with another input or variable, and runs no two Jobs on it at a
  // time. Needs `reuse_buffers`; not for devices.
  bool write_parts = false;
  // Where more than so many bytes are alive at once, outputs' memory serves as
  // scratch until the outputs are written.
  int64_t lend_above_bytes = 1 << 20;
  // Runs ATen's operators: opaque ones, which are NotFound without it, and
  // those of Mica's that no fast kernel takes.
  PrepareFn prepare_aten;
  // Writes the Program between passes, and the Plan, into this folder (see
  // pipeline/pass_dump.h); empty: where the variable MICA_DUMP says, if it
  // does. What can't be written is an error.
  std::string dump_folder;

  bool has_queue() const {
    return queue && num_streams == 1 && num_threads > 1;
  }
  bool has_functions() const {
    const bool runs_in_order = !frozen && !has_queue() && num_streams == 1;
    // A function's weights are its inputs.
    return share_layers && fuse && precision == Precision::kAsWritten &&
           (inline_calls || runs_in_order);
  }
};

// A value that depends on frozen variables alone: a Binding computes it once.
struct FoldedValue {
  int64_t bytes = 0;
  // False if only folds and packed copies are made from it.
  bool is_read = false;
};

// Bytes that serve one value, or as scratch, from the start of step `first` to
// the end of step `last`; then they may serve others.
struct PlanSlice {
  StepId first = 0;
  StepId last = 0;
  Location at;  // In the arena, or lent by an output.
  int64_t bytes = 0;
};

// A Plan is all that can be decided about a Program before it runs: the kernel
// of each step, their order, and where each value lives.
//
// Immutable and without tensors: Jobs on any number of threads may share one.
// The OpRegistry must outlive it.
class Plan {
 public:
  // Analyses a static Program. InvalidArgument if it has symbols; NotFound,
  // naming the op, the user's line and each kernel's reason, when none fits.
  static absl::StatusOr<std::shared_ptr<const Plan>> Build(
      const Program& program, const OpRegistry& ops,
      const KernelRegistry& kernels, const PlanOptions& options);
  // The same without a copy where the passes leave the Program as it is. Has a
  // structure() if `own` is the Program's (StructureOf).
  static absl::StatusOr<std::shared_ptr<const Plan>> Build(
      std::shared_ptr<const Program> program, const OpRegistry& ops,
      const KernelRegistry& kernels, const PlanOptions& options,
      const ProgramStructure* own = nullptr);
  // The same Plan by what was decided of a Program that has the same structure,
  // `own`, and other sizes: no pass runs that reads none. `structure` isn't
  // null. FailedPrecondition if it doesn't tell enough.
  static absl::StatusOr<std::shared_ptr<const Plan>> BuildBy(
      std::shared_ptr<const PlanStructure> structure, const Program& program,
      const ProgramStructure& own, const OpRegistry& ops,
      const KernelRegistry& kernels, const PlanOptions& options);

  // The Program as the passes left it. Inputs, variables and outputs are those
  // of the Program given.
  const Program& program() const { return *program_; }
  // What Plans of the same Program in other sizes may share with this one; null
  // if that is nothing, or wasn't asked for.
  const std::shared_ptr<const PlanStructure>& structure() const {
    return structure_;
  }
  // The functions' calls that stand among steps(), those in functions too.
  absl::Span<const CallSite> calls() const { return calls_; }
  // The Program, or function, whose op a step runs.
  const Program& block(const Step& step) const {
    return step.call < 0 ? *program_ : *calls_[step.call].function;
  }
  // Null for a copy that the plan added.
  const Op* op(const Step& step) const {
    return step.op < 0 ? nullptr : &block(step).ops()[step.op];
  }
  // The flat id (ForEachOp) of the op of the Program given that an op of
  // program() comes from; of ops that were merged, the one whose line it has;
  // -1 if it has none. A Plan that is shared by content has the labels of one
  // Program; this leads to those of the others.
  OpId origin(OpId op) const { return origins_[op]; }
  // The same of what a step runs; of one of a function, the op that it stands
  // for in this call.
  OpId origin(const Step& step) const;
  // By op of program().
  absl::Span<const OpId> origins() const { return origins_; }
  // The line of the op that one of its steps, or folds, runs; of a function
  // that was found, that of the first copy: origin() leads to the others'.
  const SourceLine& source(const Step& step) const;
  // In launch order: ops and copies to outputs, then from num_compute() on what
  // commits updates to inputs and variables: copies, and ops that can't fail
  // and are computed right there.
  absl::Span<const Step> steps() const { return steps_; }
  StepId num_compute() const { return num_compute_; }
  // Of the first num_compute() steps; no more streams than are of use.
  const StreamPlan& streams() const { return streams_; }
  // Of the same steps; one worker if a queue is of no use, or not asked for.
  const QueuePlan& queue() const { return queue_; }
  // What a step wrote of an input or a variable while the run goes on. Once
  // step `save` has run, `step` writes what was there before.
  struct Undo {
    StepId save = -1;
    Step step;
  };
  // In the order in which they have to run: the last write is taken back first.
  absl::Span<const Undo> undo() const { return undo_; }
  absl::Span<const Location> args() const { return args_; }
  // How many bytes from there on each of args() may touch.
  absl::Span<const int64_t> arg_bytes() const { return arg_bytes_; }
  // What of the arena and of lent memory is in use when.
  absl::Span<const PlanSlice> slices() const { return slices_; }
  absl::Span<const PackedOperand> packed() const { return packed_; }
  // What a Binding runs, in order, before it packs; args as those of steps(),
  // in fold_args().
  absl::Span<const Step> folds() const { return folds_; }
  absl::Span<const Location> fold_args() const { return fold_args_; }
  absl::Span<const FoldedValue> folded() const { return folded_; }

  // The type of the memory that the caller gives for an output: the value's
  // own, or row-major where that has gaps or overlaps.
  TensorType output_type(int index) const;
  // Address of constant `index`, which lies at an offset in all of them.
  const void* constant(int index) const;
  absl::Span<const uint64_t> constants() const { return constant_words_; }
  int64_t constant_offset(int index) const { return constant_offsets_[index]; }

  // That one step may use.
  int num_threads() const { return num_threads_; }
  // How many of them are OpenMP's: 1 where they are a queue's.
  int team_size() const { return team_size_; }
  int64_t arena_bytes() const { return arena_bytes_; }
  int64_t live_set_bytes() const { return live_set_bytes_; }
  // What the Plan itself takes, about: steps, addresses, Program, constants;
  // not what kernels have prepared.
  int64_t plan_bytes() const;
  int num_opaque() const;

  // One line a step: id, kernel, locations; the Plans of bodies below their
  // step. For dumps and tests.
  std::string ToText() const;

 private:
  friend class Planner;
  Plan() = default;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const PlanStructure> structure_;
  LargeVector<OpId> origins_;  // By op of program_.
  std::vector<CallSite> calls_;
  // That steps point to; none ever moves. Those of functions have the same.
  std::shared_ptr<std::deque<std::string>> names_;
  LargeVector<Step> steps_;
  StepId num_compute_ = 0;
  std::vector<Undo> undo_;
  StreamPlan streams_;
  QueuePlan queue_;
  int num_threads_ = 1;
  int team_size_ = 1;
  LargeVector<Location> args_;
  LargeVector<int64_t> arg_bytes_;
  LargeVector<PlanSlice> slices_;
  std::vector<PackedOperand> packed_;
  std::vector<Step> folds_;
  std::vector<Location> fold_args_;
  std::vector<FoldedValue> folded_;
  std::vector<uint64_t> constant_words_;
  std::vector<int64_t> constant_offsets_;  // In bytes.
  int64_t arena_bytes_ = 0;
  int64_t live_set_bytes_ = 0;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLAN_H_
