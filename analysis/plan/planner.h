// Builds a Plan, phase by phase.

#ifndef MICA_ANALYSIS_PLAN_PLANNER_H_
#define MICA_ANALYSIS_PLAN_PLANNER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/memory/arena.h"
#include "analysis/passes/rewrite.h"
#include "analysis/plan/commit.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/resolve.h"
#include "analysis/select/select.h"
#include "analysis/streams/queue_plan.h"
#include "framework/base/large_vector.h"

namespace mica {

// What was decided of a Plan before, elsewhere: a Planner takes it as it is,
// once it is found to be consistent.
struct PlanChoices {
  absl::flat_hash_set<std::string> kernels;  // All that occur.
  std::vector<Location> args;                // Plan::args().
  int64_t arena_bytes = 0;
  int64_t live_set_bytes = 0;
};

// One use: construct, then Run(). Behind Plan::Build().
class Planner {
 public:
  Planner(const OpRegistry& ops, const KernelRegistry& kernels,
          const PlanOptions& options)
      : ops_(ops),
        kernels_(kernels),
        options_(options),
        selector_(kernels, options.prepare_aten),
        plan_(new Plan) {
    plan_->names_ = std::make_shared<std::deque<std::string>>();
  }

  // Asks only the kernels that were chosen and packs no arena; Run() then
  // returns DataLoss if the choices don't fit. `choices` must outlive it.
  void set_choices(const PlanChoices& choices) {
    choices_ = &choices;
    selector_.set_only(choices.kernels);
  }

  // FindReads() of the Program to run, so that it isn't read once more.
  void set_reads(Reads reads) {
    reads_ = std::move(reads);
    has_reads_ = true;
  }

  void set_structure(std::shared_ptr<const PlanStructure> structure) {
    plan_->structure_ = std::move(structure);
  }

  absl::StatusOr<std::shared_ptr<const Plan>> Run(
      std::shared_ptr<const Program> program, LargeVector<OpId> origins);

 private:
  // A slice of the arena to be: a value, a scratch space, a copy.
  using SliceId = int32_t;

  // What the Program given is.
  enum class Role : uint8_t {
    kProgram,
    kBody,      // Of a branch or a loop: one step of the Plan around it.
    kFunction,  // Its steps are laid out where it is called.
  };

  // Where a function's step could put its result: in the memory of an input
  // that nobody else in the function reads then, if nobody behind the call
  // does. The result's location is that of arg `result`.
  struct Reuse {
    int32_t input = 0;
    int32_t result = 0;
    int64_t bytes = 0;
  };

  // A function with its steps, made once, to be put where it is called: its
  // Plan has addresses within slices, and none was packed.
  struct Draft {
    // An arg that isn't in a slice of the function, and its step.
    struct Border {
      int32_t arg = 0;
      StepId step = 0;
    };

    std::shared_ptr<const Plan> plan;
    LargeVector<SliceId> arg_slices;  // By arg, -1 for none.
    LargeVector<Lifetime> slices;
    LargeVector<Border> borders;  // In order.
    std::vector<Reuse> reuses;
    // By packed copy: the kernel and operand that it is for.
    std::vector<std::pair<const Prepared*, int>> packed_for;
    CallCommits commits;  // What steps from num_compute() on do.
  };

  // Whether what an input stands for may change between runs.
  enum class Change : uint8_t { kAlways, kFrozen, kConstant };

  // What Planners of one Program and its bodies share.
  struct Made {
    // By body, role, and what its inputs stand for.
    using Key = std::tuple<const Program*, Role, std::vector<Change>>;
    std::map<Key, std::shared_ptr<const Plan>> bodies;
    // Also by what is wanted of its results (CallCommits), and whether a branch
    // or a loop is around it, which runs on one thread.
    std::map<std::tuple<Key, std::vector<int>, bool>,
             std::shared_ptr<const Draft>>
        drafts;
  };

  // What a step reads or writes, until offsets are known.
  struct Place {
    Location location;  // Offset within the slice if that is >= 0.
    SliceId slice = -1;
    int64_t bytes = 0;
  };

  // How an op that writes a part in place is taken back.
  struct PartSteps {
    const OpDef* reader = nullptr;
    const OpDef* writer = nullptr;
    Arguments read_arguments, write_arguments;
    TensorType old_type;
    Selected read, write;            // No `read` if the reader is a view.
    Place old;                       // Where the part is kept,
    int32_t first_arg_of_save = -1;  // by which step.
  };

  // A Planner of what stands in this one's Program.
  Planner(const Planner& outer, const PlanOptions& options, Role role,
          std::vector<Change> inputs);

  // Selects and places all, but where slices lie.
  absl::Status MakeSteps();
  absl::StatusOr<std::shared_ptr<const Draft>> RunDraft(
      std::shared_ptr<const Program> program);

  void NoteLastOps();
  void PlaceExternals();
  // Adds constants to the Plan's; returns the first one's number.
  int32_t AddConstants(absl::Span<const Constant> constants);
  // The number that a function's first constant has here.
  int32_t FirstConstantOf(const Program& function);
  void PlaceOutputs();
  // Whether a view shows all bytes of its base, which has no gaps.
  bool IsWhole(ValueId view) const;
  // Marks the values that depend on frozen variables alone.
  void MarkFolded();
  absl::Status AddFold(OpId id);
  // Places what is computed in the memory of an input or a variable.
  void PlaceCommits();
  // The same of what runs among the other steps, and is taken back in a run
  // that fails.
  void PlaceParts();
  bool CanWritePart(const Op& op);
  absl::StatusOr<PartSteps> PreparePart(const Op& op);
  std::vector<Place> PlacesOf(const Arguments& arguments,
                              const Place& old_part) const;
  // Adds the step that keeps what an op overwrites.
  absl::Status AddSave(const Op& op, PartSteps& steps);
  // Adds what takes the ops back, behind all steps that compute.
  void AddUndo();
  // Has what that reads live until then.
  void KeepForUndo();
  void FindSaves();
  // Whether it runs with the updates; of a call, some of its function's ops do.
  bool IsCommitted(const Op& op) const;
  absl::Status AddCommits();
  absl::Status AddOpSteps();
  absl::Status AddOpStep(OpId id);
  // Adds a branch or a loop, its bodies planned by Planners of their own.
  absl::Status AddControlStep(OpId id);
  absl::StatusOr<std::vector<std::shared_ptr<const Plan>>> PlanBodies(OpId id);
  // What an op's bodies' inputs stand for.
  std::vector<Change> InputsOf(const Op& op) const;
  // Adds the steps of the function that an op calls.
  class CallLayout;
  absl::Status AddCallSteps(OpId id);
  // Makes room for the steps of all calls of a function, when the first comes.
  void ReserveForCalls(const Program* function, const Draft& draft);
  absl::StatusOr<std::shared_ptr<const Draft>> DraftOf(
      const Op& call, const std::vector<int>& wanted);
  // For FindCommitTargets(): notes the function's draft.
  CallCommits CommitsOf(const Op& call, const std::vector<int>& wanted);
  std::vector<Commit> WantedCommits() const;
  // Of a function, once its steps are made.
  CallCommits CommitsMade() const;
  // The packed copies that bodies want of frozen operands, as this Plan's own.
  std::vector<Place> PackForBodies(const Op& op, const ControlPlan& control);
  // The number of the packed copy that `kernel` wants of this operand, or
  // nobody else if it is null; a new one if there is none.
  int32_t AddPacked(const Prepared* kernel, int operand, PackedOperand packed);
  // Adds a step that copies elements, whatever the two types' strides.
  absl::Status AddCopy(std::string name, const Place& from,
                       const TensorType& from_type, const Place& to,
                       const TensorType& to_type);
  absl::Status AddOutputCopies();
  absl::Status AddUpdates();
  absl::Status AddUpdateCopies(const std::vector<Place>& saved);
  void NoteWrite(const Location& location, StepId step);
  // Takes what becomes an output in place out of the arena.
  void MoveToOutputs();
  // Takes slices out of the arena into the memory of outputs.
  void LendOutputs();
  // Keeps lifetimes for the Plan; -1 is the offset of what no step names.
  void NoteSlices(absl::Span<const int64_t> offsets);
  void SpreadOverCacheSets();
  void AssignOffsets();
  // Notes which folded values steps read.
  void MarkReadFolds();
  // As choices_ says; no two slices that are alive at once may overlap.
  absl::Status TakeOffsets();
  void PlaceOnStreams();
  // Launch order and lifetimes as a queue's workers would have them.
  void OrderForQueue();
  QueueOptions MakeQueueOptions() const;
  void PlaceInQueue();

  // Until the next call.
  const KernelRequest& MakeRequest(const Op& op);
  // What a step calls its kernel.
  absl::string_view NameOf(const Selected& selected);
  // Appends the step's operands, results and scratch.
  void AddArgs(Step& step, const std::vector<Place>& operands,
               const std::vector<Place>& results);
  std::vector<Place> PlaceResults(const Op& op, const Prepared& prepared,
                                  const std::vector<ValueId>& operands);
  // The operand whose slice result 0 may take; -1 if none.
  int FindInPlaceOperand(const Op& op, const Prepared& prepared,
                         const std::vector<ValueId>& operands) const;
  // Whether nothing but where it lies is against it that result 0 takes the
  // memory of operand `index`.
  bool MayTakeOperand(const Op& op, const Prepared& prepared,
                      const std::vector<ValueId>& operands, size_t index) const;
  // In a function: what a call may let the op's result take.
  void NoteReuse(const Op& op, const Step& step,
                 const std::vector<ValueId>& operands);
  Place PlaceOf(ValueId value) const;
  SliceId NewSlice(int64_t bytes) { return NewSlice(bytes, current_step()); }
  SliceId NewSlice(int64_t bytes, StepId step);
  void Touch(SliceId slice) { Touch(slice, current_step()); }
  void Touch(SliceId slice, StepId step);
  // How many pieces a kernel may cut the op into.
  int NumPieces(const Op& op) const;
  bool IsExternal(ValueId value) const {
    return program().value(value).kind != ValueKind::kResult;
  }
  bool IsFrozen(ValueId value) const;
  // Whether it is part of the Program, or of one around it.
  bool IsConstant(ValueId value) const;
  StepId current_step() const {
    return static_cast<StepId>(plan_->steps_.size());
  }
  const Program& program() const { return *plan_->program_; }

  const OpRegistry& ops_;
  const KernelRegistry& kernels_;
  const PlanOptions& options_;
  KernelSelector selector_;
  const PlanChoices* choices_ = nullptr;
  std::shared_ptr<Made> made_ = std::make_shared<Made>();
  const Role role_ = Role::kProgram;
  const bool is_in_body_ = false;     // Of a branch or a loop, at any depth.
  const std::vector<Change> inputs_;  // If it isn't a whole Program.
  // Of a function.
  std::vector<int> wanted_commits_;  // By output; see kNotCommitted.
  std::vector<Reuse> reuses_;
  // By call that runs with the updates in part.
  absl::flat_hash_map<const Op*, std::shared_ptr<const Draft>> commit_drafts_;
  size_t first_commit_arg_ = 0;  // Of steps from num_compute() on.
  // Calls whose functions have steps that run with the updates.
  std::vector<std::shared_ptr<CallLayout>> commit_calls_;
  absl::flat_hash_set<const Draft*> reserved_;
  // By function: the number that its first constant has in the Plan.
  absl::flat_hash_map<const Program*, int32_t> first_constants_;
  KernelRequest request_;
  absl::flat_hash_map<const Prepared*, absl::string_view> kernel_names_;
  std::shared_ptr<Plan> plan_;
  bool has_reads_ = false;
  Reads reads_;  // last_op of a base value: of its views too.
  LargeVector<Resolved> resolved_;
  std::vector<bool> is_escaping_;  // Base values that copies read at the end.
  std::vector<bool> is_updated_;   // Inputs and variables with an update.
  std::vector<bool> is_folded_;    // Of ops.
  bool has_commits_ = false;
  std::vector<ValueId> commit_targets_;  // By value; see FindCommitTargets().
  std::vector<ValueId> part_targets_;    // By value; see FindPartTargets().
  absl::flat_hash_map<const Op*, PartSteps> part_steps_;
  std::vector<const Op*> undone_;    // Of part_steps_, in order.
  std::vector<int32_t> undo_saves_;  // By Plan::undo(): the save's first arg.
  LargeVector<Place> places_;        // Of base values.
  LargeVector<Lifetime> slices_;
  // Slices whose last value becomes an output in place, and which output.
  std::vector<std::pair<SliceId, int32_t>> output_slices_;
  // What outputs lend, as the Plan has it; among slices_ it has no bytes then.
  std::vector<std::pair<SliceId, PlanSlice>> lent_;
  std::vector<StepId> first_writes_;  // By output: the first step, or -1.
  bool is_queue_of_use_ = false;
  // By arg: the slice that the Plan's location is an offset within, until
  // offsets are known; -1 for none.
  LargeVector<SliceId> arg_slices_;
  // The plan's packed copies, by kernel, operand and where that lies.
  std::map<std::tuple<const Prepared*, int, Home, int32_t, int64_t>, int32_t>
      packed_;
  std::vector<std::pair<const Prepared*, int>> packed_for_;  // See Draft.
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLANNER_H_
