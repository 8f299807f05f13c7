#include "python/capture/record/record_maker.h"

#include <exception>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/trace/recorder.h"
#include "python/capture/guards/dynamic_sizes.h"
#include "python/capture/known/loud_warnings.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/unread.h"
#include "python/interpreter/contained.h"
#include "python/process/progress.h"
#include "python/torch_side/tensors/autograd_access.h"
#include "python/torch_side/tensors/kept_casts.h"

namespace mica {
namespace {

// A tensor that was there before the run and whose history this one wrote; ""
// if there is none.
std::string TrackedWrite(Observation& run, const InputGuards& inputs) {
  for (const InputGuards::Tensor& tensor : inputs.tensors()) {
    if (IsTrackedSince(tensor.recorded, run.first_node)) return tensor.path;
  }
  for (const StateGuards::Tensor& tensor : run.watch.guards().tensors()) {
    PyObject* object = tensor.tensor.get();
    if (IsTrackedSince(object, run.first_node)) {
      return run.watch.TensorName(object);
    }
  }
  return "";
}

GraphOptions OptionsFor(GraphOptions options,
                        absl::Span<PyObject* const> states, const Tape& tape,
                        bool has_first_calls) {
  // Nothing would tell that a tensor which counts no writes was written.
  options.frozen &= absl::c_none_of(
      states, [](PyObject* state) { return VersionOf(state) < 0; });
  // Gradients may be nothing but rounding, as that of a bias before a norm.
  options.checks_accuracy &= absl::c_none_of(
      tape.calls, [](const TapeCall& call) { return call.is_backward; });
  options.writes_parts = !has_first_calls;
  return options;
}

// Why products can't be in few bits here; no reason if they can, or shan't.
Refusal WhyNotInPrecision(const GraphOptions& options,
                          const std::shared_ptr<BackwardPass>& backward,
                          const Tape& tape) {
  if (options.precision == Precision::kAsWritten) return {};
  const std::string name(PrecisionName(options.precision));
  const bool trains = backward != nullptr ||
                      absl::c_any_of(tape.calls, [](const TapeCall& call) {
                        return call.is_backward;
                      });
  if (trains) {
    return {.reason = absl::StrCat("has precision=\"", name,
                                   "\", and is differentiated"),
            .mend = "call it under torch.no_grad()"};
  }
  if (options.frozen) return {};
  return {.reason = absl::StrCat("has precision=\"", name,
                                 "\", and tensors that count no writes")};
}

}  // namespace

bool RecordMaker::Refuse(Refusal why) {
  refusal_ = std::move(why);
  return false;
}

bool RecordMaker::Refuse(const absl::Status& status) {
  Refusal why{.reason = std::string(status.message())};
  FrameSites place = run_.recorder.PlaceOf(status);
  if (!place.empty()) why.places.push_back(std::move(place));
  return Refuse(std::move(why));
}

bool RecordMaker::Make(PyObject* result) {
  const TraceSpan span("capture", "make record");
  Progress::SetPhase("making guards and effects");
  try {
    return MakeParts(result);
  } catch (const std::exception& error) {
    return Refuse({.reason = absl::StrCat("leaves what can't be looked at: ",
                                          TextOf(error))});
  }
}

bool RecordMaker::MakeParts(PyObject* result) {
  if (!CheckRun() || !CheckTorch() || !FindLeft(result) || !FindKeptWeights() ||
      !FindTensors() || !MakeTape() || !MakeGraph()) {
    return false;
  }
  Settle();
  return true;
}

bool RecordMaker::CheckRun() {
  const Refusal& first = run_.watch.refusal();
  if (!first && !run_.recorder.refusal()) return true;
  Refusal why = first ? first : run_.recorder.refusal();
  why.places = run_.watch.refusals().Places();
  const auto& more = run_.recorder.refusal().places;
  why.places.insert(why.places.end(), more.begin(), more.end());
  return Refuse(std::move(why));
}

bool RecordMaker::CheckKernels() {
  const std::string replaced = run_.recorder.kernels().FindReplaced();
  return replaced.empty() ||
         Refuse({.reason = absl::StrCat("calls ", replaced,
                                        ", whose kernel torch.library has "
                                        "replaced")});
}

bool RecordMaker::CheckTorch() {
  const TorchState after = TorchState::Current();
  if (after != record_.torch_state_) {
    return Refuse(
        {.reason = absl::StrCat("changes torch's state: ",
                                record_.torch_state_.Difference(after))});
  }
  if (LoudWarnings() != record_.loud_warnings_) {
    return Refuse({.reason = "changes which warnings are errors or always "
                             "shown"});
  }
  if (!CheckKernels()) return false;
  if (const std::string changed = run_.watch.builtins().asked()->FindChanged();
      !changed.empty()) {
    return Refuse({.reason = absl::StrCat("changes what ", changed, " gives")});
  }
  const std::string written = TrackedWrite(run_, record_.inputs_);
  if (written.empty()) return true;
  return Refuse(
      {.reason = absl::StrCat("writes ", written,
                              " in place, which autograd tracks: who goes "
                              "back through it later is to find that"),
       .mend = "compile the backward pass with it, or write a clone"});
}

bool RecordMaker::FindLeft(PyObject* result) {
  bound_.inputs = record_.inputs_.Recorded();
  if (!FindEffects()) return false;
  if (const std::string changed = run_.watch.arrays().ChangedExposed();
      !changed.empty()) {
    return Refuse({.reason = absl::StrCat("changes ", changed,
                                          ", whose memory numpy shares"),
                   .mend = "copy the array"});
  }
  if (!GuardIdentity()) return false;
  HostCallWatch& calls = run_.watch.host_calls();
  if (const std::string changed = calls.ChangedArgument(); !changed.empty()) {
    return Refuse({.reason = absl::StrCat("writes ", changed,
                                          " after a call into the world "
                                          "outside was given it"),
                   .mend = "pass a clone"});
  }
  for (const PyRef& argument :
       calls.arguments().subspan(calls.num_first_arguments())) {
    left_.push_back(argument.get());
  }
  if (!FindArgumentChanges()) return false;
  if (run_.watch.last_calls().has_begun() &&
      !record_.argument_changes_.empty()) {
    run_.watch.last_calls().RefuseFirst("and changes containers of arguments");
  }
  calls.CheckShown();
  run_.watch.caches().Check();
  return FindResult(result);
}

bool RecordMaker::GuardIdentity() {
  InputGuards& inputs = record_.inputs_;
  for (PyObject* object : run_.watch.ages().state_inputs()) inputs.Pin(object);
  const IdentityWatch& identity = run_.watch.identity();
  for (const auto& [a, b] : identity.compared_constants()) {
    const bool is_of_key = inputs.IsKey(a.get()) || inputs.IsKey(b.get());
    if (is_of_key && a.get() == b.get()) inputs.PinKey(a.get());
    if (is_of_key && a.get() != b.get()) {
      return Refuse(
          {.reason = "asks by `is` which object a key of an argument is"});
    }
    run_.watch.guards().DemandSame(a.get());
    run_.watch.guards().DemandSame(b.get());
    if (a.get() == b.get()) {
      inputs.PinConstant(a.get());
    } else {
      inputs.KeepConstantsApart(a.get(), b.get());
    }
  }
  if (const auto& objects = identity.identified(); !objects.empty()) {
    inputs.Distinguish(objects, run_.watch.ages().OthersThan(objects));
  }
  inputs.Forbid(run_.watch.ages().state_tensors());
  return true;
}

bool RecordMaker::FindResult(PyObject* result) {
  const PyRef told =
      options_.is_piece ? WithoutUnread(result) : PyRef::Share(result);
  if (!told) {
    PyErr_Clear();
    return Refuse({.reason = "no memory is left", .transient = true});
  }
  auto [tree, why] = ResultTree::Build(told.get(), left_, run_.watch,
                                       record_.inputs_, &tensors_);
  if (why) return Refuse(std::move(why));
  run_.watch.identity().CheckAddresses();
  if (run_.watch.refusal()) return Refuse(run_.watch.refusal());
  record_.result_ = std::move(tree);
  return true;
}

bool RecordMaker::FindKeptWeights() {
  // Who says that weights keep their values can't tell one cast from another.
  if (options_.graph.frozen || !AreCastsKept()) return true;
  std::vector<StateTensor> states;
  for (const StateGuards::Tensor& tensor : run_.watch.guards().tensors()) {
    states.push_back({.tensor = tensor.tensor.get(),
                      .name = run_.watch.TensorName(tensor.tensor.get())});
  }
  const absl::Status status = run_.recorder.FindKeptWeights(states);
  return status.ok() || Refuse(status);
}

bool RecordMaker::FindTensors() {
  if (!FindFirstArguments() || !later_.Trace(&tensors_, &refusal_) ||
      !FindNumbers()) {
    return false;
  }
  num_results_ = tensors_.size();
  if (!FindGradients()) return false;
  num_made_ = tensors_.size();
  tensors_.insert(tensors_.end(), later_.gradients().begin(),
                  later_.gradients().end());
  return true;
}

bool RecordMaker::MakeGraph() {
  tensors_.resize(num_made_);
  std::vector<TensorMeta> kinds;
  for (PyObject* tensor : tensors_) kinds.push_back(TensorMeta::Of(tensor));
  bound_.states = recorded_.states;
  const Tape& tape = recorded_.tape;
  if (!later_.AddTo(bound_, &recorded_.tape, &kinds, &refusal_)) return false;
  MemoryGuards& memory = record_.run_->memory;
  memory = MemoryGuards(tape, run_.watch.tensors().reads_offsets());
  for (StateGuards::ArrayMemory& array : run_.watch.guards().ArrayMemories()) {
    record_.recipe_.arrays.push_back(array);
    memory.AddArray(std::move(array.path), array.low, array.high);
  }
  Miss miss;
  if (!memory.Check(bound_.inputs.tensors, bound_.states, &miss)) {
    return Refuse({.reason = absl::StrCat("writes memory that tensors share "
                                          "unseen: ",
                                          miss.ToString())});
  }
  GraphOptions options = OptionsFor(options_.graph, bound_.states, tape,
                                    record_.effects_.has_first_calls());
  // Nor of one that is another tensor at each run.
  options.frozen &= absl::c_none_of(
      record_.states_, [](const auto& state) { return state.drawn >= 0; });
  Refusal no = WhyNotInPrecision(options, record_.run_->backward, tape);
  if (!no.reason.empty()) return Refuse(std::move(no));
  auto graph = Graph::Build(tape, kinds, bound_.states, options);
  if (!graph.ok()) {
    Refuse(graph.status());
    refusal_.by_numbers = refusal_.transient = !tape.host_values.empty();
    return false;
  }
  record_.run_->graph = *std::move(graph);
  if (run_.recorder.kernels().AddRuns(record_.graph().program()) &&
      !CheckKernels()) {
    return false;
  }
  std::vector<int64_t> versions;
  std::vector<std::string> nodes;
  for (PyObject* tensor : tensors_) {
    versions.push_back(VersionOf(tensor));
    nodes.push_back(NodeNameOf(tensor));
  }
  KeepWay(kinds, options);
  if (options_.follow_sizes) {
    record_.recipe_.kinds = std::move(kinds);
    record_.recipe_.options = options;
    record_.recipe_.versions = versions;
    record_.recipe_.nodes = nodes;
  }
  record_.run_->graph->SetVersions(versions);
  record_.run_->graph->SetNodes(nodes);
  record_.run_->graph->CountWrites(recorded_.input_writes,
                                   recorded_.state_writes);
  if (!options_.make_runner) return true;
  const absl::Status status = CompileOutside();
  return status.ok() || Refuse(status);
}

absl::Status RecordMaker::CompileOutside() {
  std::vector<int> fed;
  for (size_t i = 0; i < record_.states_.size(); ++i) {
    if (record_.states_[i].is_found_anew()) fed.push_back(static_cast<int>(i));
  }
  std::vector<double> numbers;
  for (const NumberSource& source : record_.host_inputs_.sources()) {
    numbers.push_back(NumberOf(source.recorded.get()).value_or(0));
  }
  return record_.run_->graph->CompileOutside(options_.make_runner.get(),
                                             bound_.inputs.tensors,
                                             bound_.states, numbers, fed);
}

void RecordMaker::Settle() {
  record_.guards_ = std::move(run_.watch.guards());
  record_.kernels_ = std::move(run_.recorder.kernels());
  for (const InputGuards::Tensor& tensor : record_.inputs_.tensors()) {
    for (const int dim : DynamicDims(tensor.recorded)) {
      record_.dynamic_.emplace_back(tensor.path, dim);
    }
  }
  record_.inputs_.EndRecording();
  record_.gradients_.EndRecording();
}

}  // namespace mica
