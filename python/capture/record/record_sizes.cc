#include "python/capture/record/record_sizes.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/numeric/bits.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/extreme_gradients.h"
#include "analysis/lower/lstm_layers.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "ops/all.h"
#include "python/capture/record/hit_times.h"
#include "python/capture/record/record.h"

namespace mica {
namespace {

// Sizes that a record is kept for: so many in any case, more as long as all
// together take no more memory.
constexpr size_t kFewestRuns = 64;
constexpr size_t kMaxRuns = 1024;
constexpr int64_t kMaxBytes = int64_t{256} << 20;
// Those of them that keep their memory between runs.
constexpr size_t kMaxWithMemory = 8;
constexpr size_t kMaxRefused = 4096;

TensorSizes SizesOf(const TensorMeta& meta) {
  return {.sizes = {meta.sizes.begin(), meta.sizes.end()},
          .strides = {meta.strides.begin(), meta.strides.end()}};
}

// The numbers, and the sizes and strides of tensors, one after another.
std::vector<int64_t> KeyOf(absl::Span<const int> open,
                           absl::Span<PyObject* const> inputs,
                           absl::Span<const double> given) {
  std::vector<int64_t> key;
  for (const double number : given) {
    key.push_back(absl::bit_cast<int64_t>(number));
  }
  for (const int input : open) {
    const TensorMeta meta = TensorMeta::Of(inputs[input]);
    key.insert(key.end(), meta.sizes.begin(), meta.sizes.end());
    key.insert(key.end(), meta.strides.begin(), meta.strides.end());
  }
  return key;
}

void LayOut(const TapeTensor& tensor, TensorMeta* meta) {
  meta->sizes.assign(tensor.sizes.begin(), tensor.sizes.end());
  meta->strides.assign(tensor.strides.begin(), tensor.strides.end());
}

}  // namespace

std::vector<int64_t> WritesOf(const Tape& tape) {
  absl::flat_hash_map<int32_t, int64_t> writes;  // By storage.
  for (const TapeCall& call : tape.calls) {
    for (const int32_t arg : call.mutated_args) {
      if (absl::c_linear_search(call.concealed_args, arg)) continue;
      ForEachTensor(call.args[arg], [&](TapeTensorId id) {
        ++writes[tape.tensors[id].storage];
      });
    }
  }
  std::vector<int64_t> of_results;
  for (const TapeTensorId id : tape.results) {
    of_results.push_back(writes[tape.tensors[id].storage]);
  }
  return of_results;
}

GraphOptions OptionsOfPass(GraphOptions options) {
  options.frozen = false;  // Who goes back trains.
  options.precision = Precision::kAsWritten;
  options.offload_folder.clear();
  return options;
}

TensorMeta KindOf(const TapeTensor& tensor, const TensorMeta& like) {
  TensorMeta kind = like;
  kind.dtype = TorchDtype(tensor.dtype);
  kind.requires_grad = false;
  LayOut(tensor, &kind);
  return kind;
}

static size_t NumNumbers(const Graph& graph) {
  return graph.program().inputs().size() - graph.tape().inputs.size();
}

RecordSizes::RecordSizes(std::shared_ptr<const SizeTemplate> made,
                         SizeRecipe recipe, std::shared_ptr<SizedRun> recorded)
    : made_(std::move(made)),
      recipe_(std::move(recipe)),
      recorded_(std::move(recorded)) {
  for (int i = 0; i < recipe_.num_args; ++i) {
    if (made_->IsOpen(i)) open_.push_back(i);
  }
  runs_.push_back(recorded_);
  bytes_ = recorded_->kept_bytes = recorded_->graph->kept_bytes();
}

absl::StatusOr<std::shared_ptr<SizedRun>> RecordSizes::Find(
    absl::Span<PyObject* const> inputs, absl::Span<PyObject* const> states,
    absl::Span<const double> given, OperatorKernels* kernels) {
  for (size_t i = 0; i < runs_.size(); ++i) {
    bool fits = runs_[i]->given == given;
    for (size_t k = 0; fits && k < open_.size(); ++k) {
      fits = runs_[i]->inputs[k].Matches(inputs[open_[k]]);
    }
    if (!fits) continue;
    std::rotate(runs_.begin(), runs_.begin() + i, runs_.begin() + i + 1);
    return runs_[0];
  }
  std::vector<int64_t> key = KeyOf(open_, inputs, given);
  if (refused_.contains(key)) {
    return absl::FailedPreconditionError("these sizes don't follow");
  }
  auto made = Make(inputs, states, given, kernels);
  if (!made.ok()) {
    if (refused_.size() >= kMaxRefused) refused_.clear();
    refused_.insert(std::move(key));
    return made.status();
  }
  Add(*made);
  return *std::move(made);
}

void RecordSizes::Add(std::shared_ptr<SizedRun> run) {
  bytes_ += run->kept_bytes = run->graph->kept_bytes();
  runs_.insert(runs_.begin(), std::move(run));
  while (runs_.size() > kMaxRuns ||
         (runs_.size() > kFewestRuns && bytes_ > kMaxBytes)) {
    bytes_ -= runs_.back()->kept_bytes;
    runs_.pop_back();
  }
  if (runs_.size() > kMaxWithMemory) {
    runs_[kMaxWithMemory]->graph->ReleaseMemory();
  }
}

GraphOptions RecordSizes::OptionsNow() const {
  GraphOptions options = recipe_.options;
  options.checks_accuracy &= !recorded_->graph->is_checked();
  options.exact |= !recorded_->graph->inaccuracy().empty();
  options.like = recorded_->graph->binding();
  options.holds_like = [recorded = recorded_, like = options.like](
                           absl::Span<PyObject* const> states) {
    return recorded->graph->binding() == like &&
           !recorded->graph->IsStale(states);
  };
  return options;
}

absl::StatusOr<std::shared_ptr<SizedRun>> RecordSizes::Make(
    absl::Span<PyObject* const> inputs, absl::Span<PyObject* const> states,
    absl::Span<const double> given, OperatorKernels* kernels) const {
  const TraceSpan span("capture", "other sizes");
  const Invested invested;
  // Where the program counts from there, all have to lie where they lay.
  const Tape& own = *recipe_.tape;
  const bool keeps_offsets =
      recipe_.reads_offsets || absl::c_any_of(own.calls, CountsFromStorage);
  std::vector<TensorSizes> sizes;
  for (int i = 0; i < recipe_.num_args; ++i) {
    sizes.push_back(SizesOf(TensorMeta::Of(inputs[i])));
    sizes.back().offset = keeps_offsets ? own.tensors[own.inputs[i]].offset
                                        : StorageOffsetOf(inputs[i]);
  }
  MICA_ASSIGN_OR_RETURN(Tape tape, TapeAt(sizes, given));
  auto run = std::make_shared<SizedRun>();
  run->given.assign(given.begin(), given.end());
  for (const int input : open_) {
    run->inputs.push_back(TensorMeta::Of(inputs[input]));
  }
  if (recorded_->backward != nullptr) {
    FindExtremesWithoutReads(tape);
    MICA_ASSIGN_OR_RETURN(SplitTape split,
                          SplitAtBackward(tape, recipe_.num_args,
                                          recipe_.num_results, recipe_.parts));
    MICA_ASSIGN_OR_RETURN(run->backward, MakePass(&split, states));
    tape = std::move(split.first);
  }
  MICA_ASSIGN_OR_RETURN(const std::vector<TensorMeta> kinds, KindsOf(tape));
  run->memory = MemoryGuards(tape, recipe_.reads_offsets);
  for (const StateGuards::ArrayMemory& array : recipe_.arrays) {
    run->memory.AddArray(array.path, array.low, array.high);
  }
  MICA_ASSIGN_OR_RETURN(run->graph,
                        Graph::Build(tape, kinds, states, OptionsNow()));
  // Each hit feeds it as many numbers as the recorded run took.
  if (NumNumbers(*run->graph) != NumNumbers(*recorded_->graph)) {
    return absl::FailedPreconditionError("it takes other numbers");
  }
  // All others are known, and asked for before each hit.
  const std::string name =
      kernels->AddRuns(run->graph->program()) ? kernels->FindReplaced() : "";
  if (!name.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("calls ", name, ", whose kernel was replaced"));
  }
  run->more_writes = MoreWritesIn(tape);
  std::vector<int64_t> versions = recipe_.versions;
  for (size_t i = 0; i < versions.size(); ++i) {
    if (versions[i] >= 0) versions[i] += run->more_writes[i];
  }
  run->graph->SetVersions(versions);
  run->graph->SetNodes(recipe_.nodes);
  run->graph->CountWrites(recipe_.input_writes, recipe_.state_writes);
  return run;
}

// Of the program's own results, then of what it keeps for a later pass: as much
// more as its loops go more often.
absl::StatusOr<std::vector<TensorMeta>> RecordSizes::KindsOf(
    const Tape& tape) const {
  const BackwardPass* pass = recorded_->backward.get();
  const size_t num_own = pass == nullptr
                             ? recipe_.kinds.size()
                             : static_cast<size_t>(pass->num_results());
  if (tape.results.size() < num_own ||
      (pass == nullptr && tape.results.size() > num_own)) {
    return absl::FailedPreconditionError("the run has other results");
  }
  std::vector<TensorMeta> kinds;
  for (size_t i = 0; i < tape.results.size(); ++i) {
    const TapeTensor& tensor = tape.tensors[tape.results[i]];
    if (i < num_own) {
      kinds.push_back(recipe_.kinds[i]);
      LayOut(tensor, &kinds.back());
    } else {
      kinds.push_back(KindOf(tensor, pass->parts()[0].entries[0].meta));
    }
  }
  return kinds;
}

std::vector<int64_t> RecordSizes::MoreWritesIn(const Tape& tape) const {
  const std::vector<int64_t> then = WritesOf(*recipe_.tape);
  const std::vector<int64_t> now = WritesOf(tape);
  std::vector<int64_t> more(recipe_.versions.size());
  for (size_t i = 0; i < std::min(then.size(), now.size()); ++i) {
    if (i < more.size()) more[i] = now[i] - then[i];
  }
  return more;
}

absl::StatusOr<std::shared_ptr<BackwardPass>> RecordSizes::MakePass(
    SplitTape* split, absl::Span<PyObject* const> states) const {
  const BackwardPass& like = *recorded_->backward;
  if (split->later.size() != like.parts().size()) {
    return absl::FailedPreconditionError("the pass has other parts");
  }
  GraphOptions options = OptionsOfPass(recipe_.options);
  options.checks_accuracy = false;
  std::vector<BackwardPass::Part> parts;
  for (size_t i = 0; i < split->later.size(); ++i) {
    SplitTape::Later& made = split->later[i];
    const BackwardPass::Part& own = like.parts()[i];
    BackwardPass::Part part{.entries = own.entries,
                            .outputs = own.outputs,
                            .kinds = own.kinds,
                            .kept = std::move(made.kept),
                            .states = own.states,
                            .numbers = own.numbers,
                            .is_used_up = own.is_used_up};
    if (!std::equal(made.states.begin(), made.states.end(), own.states.begin(),
                    own.states.end()) ||
        !std::equal(made.numbers.begin(), made.numbers.end(),
                    own.numbers.begin(), own.numbers.end()) ||
        made.tape.results.size() != own.kinds.size()) {
      return absl::FailedPreconditionError("the pass reads other state");
    }
    for (size_t k = 0; k < part.entries.size(); ++k) {
      const TapeTensor& root = made.tape.tensors[made.tape.inputs[k]];
      LayOut(root, &part.entries[k].meta);
    }
    for (size_t k = 0; k < part.kinds.size(); ++k) {
      const TapeTensor& gradient = made.tape.tensors[made.tape.results[k]];
      LayOut(gradient, &part.kinds[k]);
    }
    std::vector<PyObject*> read;
    for (const int state : part.states) read.push_back(states[state]);
    MICA_ASSIGN_OR_RETURN(part.graph,
                          Graph::Build(made.tape, part.kinds, read, options));
    parts.push_back(std::move(part));
  }
  return std::make_shared<BackwardPass>(like, std::move(parts));
}

absl::StatusOr<Tape> RecordSizes::TapeAt(absl::Span<const TensorSizes> inputs,
                                         absl::Span<const double> given) const {
  MICA_ASSIGN_OR_RETURN(Tape tape, made_->At(inputs, given));
  if (!recipe_.options.exact) UseOwnLstmLayers(tape);
  return tape;
}

absl::StatusOr<LoweredTape> RecordSizes::LowerAt(
    absl::Span<const TensorSizes> inputs, Tape* tape) const {
  if (recorded_->backward != nullptr) {
    return absl::FailedPreconditionError("its results require grad");
  }
  MICA_ASSIGN_OR_RETURN(*tape, TapeAt(inputs, recipe_.given));
  return LowerTape(
      *tape, AllOps(),
      {.keep_calls = recipe_.options.exact, .keep_discrete_results = true});
}

}  // namespace mica
