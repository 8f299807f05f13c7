// How a Record is made of one run.

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/lstm_layers.h"
#include "framework/trace/recorder.h"
#include "python/capture/effects/unread.h"
#include "python/capture/guards/dynamic_sizes.h"
#include "python/capture/progress.h"
#include "python/capture/record/record.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/own_numbers.h"
#include "python/capture/watch/observation.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/autograd/autograd_access.h"

namespace mica {
namespace {

thread_local bool is_capturing = false;

std::string CallableTitle(PyObject* callable) {
  PyObject* function =
      PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable;
  std::string title =
      PyFunction_Check(function)
          ? PyText(reinterpret_cast<PyFunctionObject*>(function)->func_name)
          : TypeName(Py_TYPE(function));
  title = title.substr(title.rfind('.') + 1);
  for (char& c : title) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
  }
  if (title.empty() || std::isdigit(static_cast<unsigned char>(title[0]))) {
    title.insert(0, "f");
  }
  return title;
}

// The names of the parameters that positional arguments go to.
std::vector<std::string> ParameterNames(PyObject* callable) {
  PyRef function = PyRef::Share(callable);
  size_t skip = 0;
  if (PyMethod_Check(callable)) {
    function = PyRef::Share(PyMethod_GET_FUNCTION(callable));
    skip = 1;
  } else if (!PyFunction_Check(callable)) {
    static PyObject* forward = PyUnicode_InternFromString("forward");
    function = PyRef::Share(_PyType_Lookup(Py_TYPE(callable), forward));
    skip = 1;
  }
  std::vector<std::string> names;
  if (!function || !PyFunction_Check(function.get())) return names;
  auto* code = reinterpret_cast<PyCodeObject*>(
      reinterpret_cast<PyFunctionObject*>(function.get())->func_code);
  PyRef variables = PyRef::Steal(PyCode_GetVarnames(code));
  if (!variables) {
    PyErr_Clear();
    return names;
  }
  const auto count = static_cast<size_t>(code->co_argcount);
  for (size_t i = skip; i < count; ++i) {
    names.push_back(
        PyText(PyTuple_GET_ITEM(variables.get(), static_cast<int>(i))));
  }
  return names;
}

void AddRoots(Observation& run, PyObject* callable, const InputGuards& inputs) {
  for (const InputGuards::Tensor& tensor : inputs.tensors()) {
    run.recorder.AddInput(tensor.recorded, tensor.path);
    if (tensor.meta.requires_grad) run.watch.gradients().See(tensor.recorded);
  }
  for (PyObject* object : inputs.covered()) run.watch.AddInput(object);
  PyObject* self =
      PyMethod_Check(callable) ? PyMethod_GET_SELF(callable) : callable;
  if (!PyFunction_Check(self)) run.watch.NameModule(self, "");
  run.watch.AddRoot(callable,
                    PyFunction_Check(callable) ? CallableTitle(callable) : "");
  if (self != callable) run.watch.AddRoot(self, "");
  for (size_t i = 0; i < inputs.pinned().size(); ++i) {
    PyObject* object = inputs.pinned()[i].get();
    run.watch.NameModule(object, inputs.pinned_paths()[i]);
    run.watch.AddRoot(object, inputs.pinned_paths()[i]);
  }
}

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

// Puts what is set of a dict of which something was removed and then set in
// the order of that dict.
void PutInOrder(std::vector<Written>* written) {
  absl::flat_hash_set<PyObject*> dicts;
  for (const Written& one : *written) {
    if (one.is_moved) dicts.insert(one.place.holder.get());
  }
  for (PyObject* dict : dicts) {
    absl::flat_hash_map<PyObject*, size_t> index;  // By key.
    std::vector<size_t> places;
    for (size_t i = 0; i < written->size(); ++i) {
      const Written& one = (*written)[i];
      if (one.place.holder.get() != dict || one.is_removed) continue;
      index[one.place.key.get()] = i;
      places.push_back(i);
    }
    std::vector<Written> ordered;
    for (const PyRef& key : KeysOf(dict)) {
      for (const auto& [own, i] : index) {
        if (!SameValue(own, key.get())) continue;
        ordered.push_back((*written)[i]);
        break;
      }
    }
    if (ordered.size() != places.size()) continue;
    for (size_t i = 0; i < places.size(); ++i) {
      (*written)[places[i]] = std::move(ordered[i]);
    }
  }
}
// Once a run is over, the program has its own numbers again, wherever it left
// those that stood for them.
class NumbersPutBack {
 public:
  // All outlive this.
  NumbersPutBack(Observation& run, const InputGuards& inputs,
                 absl::Span<const StatePlace> slots, PyRef& result)
      : run_(run), slots_(slots), result_(result) {
    inputs.ForEachOwn(
        [this](PyObject* own, PyObject* original) { own_.Add(own, original); });
    for (PyObject* object : inputs.covered()) {
      arguments_.push_back(PyRef::Share(object));
    }
  }
  ~NumbersPutBack() {
    run_.watch.values().ForEachOwn(
        [this](PyObject* own, PyObject* original) { own_.Add(own, original); });
    if (own_.empty()) return;
    PutBackInPlaces(slots_);
    PutBackInPlaces(run_.watch.values().places());
    PutBackInPlaces(run_.watch.written());
    for (const PyRef& argument : arguments_) own_.PutBackIn(argument.get());
    for (const auto& [container, before] : run_.watch.changed_containers()) {
      own_.PutBackIn(container);
    }
    // Where it was stored in ways that no record repeats.
    for (PyObject* object : run_.watch.OldObjects()) {
      own_.PutBackInOld(object, [this](PyObject* held) {
        return !run_.watch.IsInput(held) && !run_.watch.IsOld(held);
      });
    }
    PutBackInResult();
  }

 private:
  void PutBackInPlaces(absl::Span<const StatePlace> places) {
    const PyErrorKeeper keeper;
    for (const StatePlace& place : places) {
      const PyRef value = PyRef::Share(place.Find());
      if (!value) continue;
      PyObject* original = own_.OriginalOf(value.get());
      if (original != value.get() && !place.Set(original)) PyErr_Clear();
      if (original == value.get()) own_.PutBackIn(value.get());
    }
  }
  // Or in the exception that it raised.
  void PutBackInResult() {
    if (result_) result_ = PyRef::Share(own_.OriginalOf(result_.get()));
    own_.PutBackIn(result_.get());
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    own_.PutBackIn(value);
    PyErr_Restore(type, value, trace);
  }

  Observation& run_;
  const absl::Span<const StatePlace> slots_;
  PyRef& result_;
  OwnNumbers own_;
  std::vector<PyRef> arguments_;
};

Refusal FromStatus(const absl::Status& status, const Recorder& recorder) {
  Refusal refusal{.reason = std::string(status.message())};
  FrameSites place = recorder.PlaceOf(status);
  if (!place.empty()) refusal.places.push_back(std::move(place));
  return refusal;
}

}  // namespace

bool IsCapturing() { return is_capturing; }
void SetCapturing(bool is_on) { is_capturing = is_on; }

std::unique_ptr<Record> Record::Capture(PyObject* callable,
                                        const CallArgs& args,
                                        const CaptureOptions& options,
                                        PyRef* result, Refusal* refusal,
                                        Attempt* attempt) {
  std::unique_ptr<Record> record =
      Run(callable, args, options, result, refusal, attempt, nullptr);
  if (record != nullptr) record->LetGo();
  return record;
}

Refusal Record::Watch(PyObject* callable, const CallArgs& args,
                      const CaptureOptions& options, PyRef* result,
                      Rehearsal* rehearsal) {
  Refusal refusal;
  Attempt attempt;
  Run(callable, args, options, result, &refusal, &attempt, rehearsal);
  return refusal;
}

PyRef Record::Replay(PyObject* callable, const CallArgs& args,
                     const CaptureOptions& options, const RaisedCall& raised) {
  PyRef result;
  // Nothing could mute the calls.
  if (raised.error && IsForeignTracerActive()) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.error.get())),
                    raised.error.get());
    return result;
  }
  Refusal refusal;
  Attempt attempt;
  Rehearsal rehearsal;
  CaptureOptions own = options;
  own.looks_on = false;
  Run(callable, args, own, &result, &refusal, &attempt, &rehearsal, &raised);
  return result;
}

std::unique_ptr<Record> Record::Run(PyObject* callable, const CallArgs& args,
                                    const CaptureOptions& options,
                                    PyRef* result, Refusal* refusal,
                                    Attempt* attempt, Rehearsal* rehearsal,
                                    const RaisedCall* raised) {
  const auto run_eagerly = [&](Refusal why) -> std::unique_ptr<Record> {
    *refusal = std::move(why);
    *result = PyRef::Steal(PyObject_Vectorcall(
        callable, args.args, static_cast<size_t>(args.num_positional),
        args.keyword_names));
    return nullptr;
  };
  std::unique_ptr<Record> record(new Record);
  record->callable_ = PyRef::Share(callable);
  record->torch_state_ = TorchState::Current();
  if (const auto why = record->torch_state_.Unsupported()) {
    return run_eagerly({.reason = *why});
  }
  if (IsForeignTracerActive()) {
    return run_eagerly({.reason = "a debugger or a coverage tool traces this "
                                  "thread",
                        .transient = true});
  }
  if (options.is_piece) {
    for (Py_ssize_t i = 0; i < args.size(); ++i) {
      PyObject* arg = args.args[i];
      if (IsTorchModule(arg) || !(IsGenerator(arg) || RunsPythonAtDeath(arg))) {
        continue;
      }
      return run_eagerly(
          {.reason = absl::StrCat("goes on with a ", TypeName(Py_TYPE(arg)),
                                  ", which may tell when it dies")});
    }
  }
  static const VaryingNumbers& none = *new VaryingNumbers;
  const VaryingNumbers& varying =
      options.follow_numbers ? options.varying : none;
  record->slots_ = options.slots;
  CallArgs all = args;
  std::vector<PyRef> pins;
  std::vector<std::string> slot_names;
  std::vector<PyObject*> slot_values = options.slots.Values();
  for (size_t i = 0; i < slot_values.size(); ++i) {
    const StatePlace& place = options.slots.places()[i];
    slot_names.push_back(place.note.path);
    pins.push_back(PyRef::Share(slot_values[i]));
  }
  all.slots = slot_values.data();
  all.num_slots = slot_values.size();
  auto [inputs, input_refusal] = [&] {
    const TraceSpan span("capture", "guards of arguments");
    return InputGuards::Build(all, ParameterNames(callable), slot_names,
                              options.structural, varying.inputs());
  }();
  if (input_refusal) {
    OwnNumbers own;
    inputs.ForEachOwn([&own](PyObject* number, PyObject* original) {
      own.Add(number, original);
    });
    for (PyObject* object : inputs.covered()) own.PutBackIn(object);
    return run_eagerly(std::move(input_refusal));
  }
  record->inputs_ = std::move(inputs);
  std::vector<PyObject*> values(args.args, args.args + args.size());
  for (size_t i = 0; i < values.size() + slot_values.size(); ++i) {
    PyObject* own = record->inputs_.InPlaceOf(i);
    if (own == nullptr) continue;
    if (i < values.size()) {
      values[i] = own;
    } else if (!options.slots.places()[i - values.size()].Set(own)) {
      PyErr_Clear();
    }
  }
  // What the run takes out of an argument stays: no other object is to have
  // its address.
  std::vector<PyRef> alive;
  for (PyObject* object : record->inputs_.covered()) {
    alive.push_back(PyRef::Share(object));
  }

  const AskedStates asked;
  Observation run(CallableTitle(callable));
  run.watch.SetAsked(&asked);
  AddRoots(run, callable, record->inputs_);
  run.follows_numbers = options.follow_numbers;
  run.watch.SetVarying(&varying);
  run.watch.SetSlots(&record->slots_);
  run.watch.SetLooksOn(options.looks_on);
  run.watch.SetFollows(options.follow_numbers, options.follow_draws);
  if (rehearsal != nullptr) run.watch.SetReadings(rehearsal->readings);
  if (raised != nullptr) run.watch.SetMuted(raised->num_made, raised->error);
  for (const int node : record->inputs_.numbers()) {
    run.watch.values().AddInput(record->inputs_.recorded_number(node),
                                record->inputs_.original_number(node), node,
                                record->inputs_.path(node));
  }
  const NumbersPutBack put_back(run, record->inputs_, options.slots.places(),
                                *result);
  run.stream = MakeInterpreterStream(&run.watch);
  run.watch.Touch(callable);
  run.watch.Call(callable, values);
  is_capturing = true;
  run.recorder.Start();
  run.stream->Start();
  {
    const TraceSpan span("capture", "watched run");
    Progress::SetPhase("watching the run");
    const int64_t start = HitTimes::Now();
    *result = PyRef::Steal(PyObject_Vectorcall(
        callable, values.data(), static_cast<size_t>(args.num_positional),
        args.keyword_names));
    record->watched_ns = HitTimes::Now() - start;
  }
  run.stream->Stop();
  run.recorder.Stop();
  run.watch.EndStep(nullptr, /*entered=*/false);
  run.recorder.Stop();  // A call into the world outside may have raised.
  is_capturing = false;
  if (!*result) {
    *refusal = {.reason = "the run raised an exception", .transient = true};
    return nullptr;
  }
  if (rehearsal != nullptr) {
    rehearsal->calls = run.watch.host_calls();
    if (raised == nullptr &&
        !CompleteCalls(run.watch.host_arguments(), 0, &rehearsal->calls)) {
      PyErr_Clear();
    }
    *refusal = run.watch.refusal();
    return nullptr;
  }
  const PyErrorKeeper keeper;
  const bool is_made =
      record->Finish(run, result->get(), options, refusal, attempt);
  if (is_made && run.watch.is_disturbed()) {
    *attempt = Attempt();
    *refusal = {.reason = "the garbage collector ran in the midst of the run",
                .transient = true};
    return nullptr;
  }
  if (!is_made) {
    const auto wanted = run.watch.wanted_slots();
    attempt->slots.insert(attempt->slots.end(), wanted.begin(), wanted.end());
    attempt->guards = std::move(run.watch.guards());
    return nullptr;
  }
  return record;
}

bool Record::Finish(Observation& run, PyObject* result,
                    const CaptureOptions& options, Refusal* refusal,
                    Attempt* attempt) {
  const TraceSpan span("capture", "make record");
  Progress::SetPhase("making guards and effects");
  const auto refuse = [&](Refusal why) {
    *refusal = std::move(why);
    return false;
  };
  if (run.watch.refusal() || run.recorder.refusal()) {
    Refusal why =
        run.watch.refusal() ? run.watch.refusal() : run.recorder.refusal();
    why.places = run.watch.RefusedPlaces();
    const auto& more = run.recorder.refusal().places;
    why.places.insert(why.places.end(), more.begin(), more.end());
    return refuse(std::move(why));
  }
  const TorchState after = TorchState::Current();
  if (after != torch_state_) {
    return refuse({.reason = absl::StrCat("changes torch's state: ",
                                          torch_state_.Difference(after))});
  }
  if (const std::string replaced = run.recorder.kernels().FindReplaced();
      !replaced.empty()) {
    return refuse({.reason = absl::StrCat("calls ", replaced,
                                          ", whose kernel torch.library has "
                                          "replaced")});
  }
  if (const std::string changed = run.watch.asked()->FindChanged();
      !changed.empty()) {
    return refuse({.reason = absl::StrCat("changes what ", changed, " gives")});
  }
  if (const std::string written = TrackedWrite(run, inputs_);
      !written.empty()) {
    return refuse(
        {.reason = absl::StrCat("writes ", written,
                                " in place, which autograd tracks: who goes "
                                "back through it later is to find that"),
         .mend = "compile the backward pass with it, or write a clone"});
  }
  Miss miss;
  BoundCall bound;
  bound.inputs = inputs_.Recorded();
  std::vector<PyObject*> left;
  if (!FindEffects(run, &left, refusal, attempt)) return false;
  if (const std::string changed = run.watch.ChangedExposed();
      !changed.empty()) {
    return refuse({.reason = absl::StrCat("changes ", changed,
                                          ", whose memory numpy shares"),
                   .mend = "copy the array"});
  }
  for (PyObject* object : run.watch.state_inputs()) inputs_.Pin(object);
  for (const auto& [a, b] : run.watch.compared_constants()) {
    run.watch.guards().DemandSame(a.get());
    run.watch.guards().DemandSame(b.get());
    if (a.get() == b.get()) {
      inputs_.PinConstant(a.get());
    } else {
      inputs_.KeepConstantApart(a.get(), b.get());
      inputs_.KeepConstantApart(b.get(), a.get());
    }
  }
  if (const auto& objects = run.watch.identified(); !objects.empty()) {
    inputs_.Distinguish(objects, run.watch.OthersThan(objects));
  }
  inputs_.Forbid(run.watch.state_tensors());
  std::vector<PyObject*> tensors;
  if (const std::string changed = run.watch.ChangedArgument();
      !changed.empty()) {
    return refuse({.reason = absl::StrCat("writes ", changed,
                                          " after a call into the world "
                                          "outside was given it"),
                   .mend = "pass a clone"});
  }
  for (const PyRef& argument :
       run.watch.host_arguments().subspan(run.watch.num_first_arguments())) {
    left.push_back(argument.get());
  }
  if (!FindArgumentChanges(run, &left, refusal)) return false;
  if (run.watch.has_last_calls() && !argument_changes_.empty()) {
    run.watch.RefuseUserCall("and changes containers of arguments");
  }
  run.watch.CheckShown();
  run.watch.CheckCaches();
  const PyRef told =
      options.is_piece ? WithoutUnread(result) : PyRef::Share(result);
  if (!told) {
    PyErr_Clear();
    return refuse({.reason = "no memory is left", .transient = true});
  }
  auto [tree, tree_refusal] =
      ResultTree::Build(told.get(), left, run.watch, inputs_, &tensors);
  if (tree_refusal) return refuse(std::move(tree_refusal));
  run.watch.CheckAddresses();
  if (run.watch.refusal()) return refuse(run.watch.refusal());
  result_ = std::move(tree);
  if (!FindFirstArguments(run, &tensors, refusal)) return false;
  LaterPass later;
  if (!TraceLater(run, options, &tensors, &later, refusal)) return false;
  if (!FindNumbers(run, refusal, attempt)) return false;
  const size_t num_results = tensors.size();
  std::vector<PyRef> pins;
  if (!FindGradients(run, &tensors, &pins, refusal)) return false;
  const size_t num_made = tensors.size();
  tensors.insert(tensors.end(), later.gradients.begin(), later.gradients.end());

  std::vector<StateTensor> states;
  for (const Gradients::Leaf& leaf : gradients_.leaves()) {
    if (!leaf.had_grad) continue;
    states.push_back({.tensor = leaf.before.get(),
                      .name = absl::StrCat(leaf.name, ".grad")});
  }
  for (const StateGuards::Tensor& tensor : run.watch.guards().tensors()) {
    states.push_back({.tensor = tensor.tensor.get(),
                      .name = run.watch.TensorName(tensor.tensor.get())});
  }
  absl::flat_hash_set<std::string> names;
  for (StateTensor& state : states) {
    const std::string name = state.name;
    for (int i = 2; !names.insert(state.name).second; ++i) {
      state.name = absl::StrCat(name, "#", i);
    }
  }
  absl::StatusOr<Recorder::Result> recorded = [&] {
    const TraceSpan finish("capture", "make tape");
    return run.recorder.Finish(states, tensors);
  }();
  if (!recorded.ok())
    return refuse(FromStatus(recorded.status(), run.recorder));
  if (!run.watch.CheckLastCalls(recorded->tape, tensors, recorded->results)) {
    return refuse(run.watch.refusal());
  }
  if (options.make_runner && effects_.has_first_calls() &&
      !recorded->tape.mutated.empty()) {
    return refuse({.reason = "calls into the world outside and writes in "
                             "place, which another compiler does first"});
  }
  for (PyObject* state : recorded->states) {
    const int leaf = gradients_.FindGradient(state);
    states_.push_back({.tensor = leaf < 0 ? state : nullptr, .leaf = leaf});
    Keep(run.watch.guards(), states_.back().tensor);
  }
  for (size_t i = num_results; i < num_made; ++i) {
    const TapeOrigin origin =
        recorded->tape.tensors[recorded->results[i]].origin;
    if (origin == TapeOrigin::kInput || origin == TapeOrigin::kState) {
      return refuse({.reason = "makes a tensor that was there before the call "
                               "a gradient"});
    }
  }
  recorded->tape.results = recorded->results;
  if (!options.graph.exact && !options.make_runner) {
    UseOwnLstmLayers(recorded->tape);
  }
  tensors.resize(num_made);
  std::vector<TensorMeta> kinds;
  for (PyObject* tensor : tensors) kinds.push_back(TensorMeta::Of(tensor));
  bound.states = recorded->states;
  if (!AddBackward(run.watch.guards(), std::move(later), bound, options,
                   &recorded->tape, &kinds, refusal)) {
    return false;
  }
  memory_ = MemoryGuards(recorded->tape, run.watch.reads_offsets());
  for (StateGuards::ArrayMemory& array : run.watch.guards().ArrayMemories()) {
    memory_.AddArray(std::move(array.path), array.low, array.high);
  }
  if (!memory_.Check(bound.inputs.tensors, bound.states, &miss)) {
    return refuse({.reason = absl::StrCat("writes memory that tensors share "
                                          "unseen: ",
                                          miss.ToString())});
  }
  GraphOptions graph_options = options.graph;
  // Nothing would tell that a tensor which counts no writes was written.
  graph_options.frozen &= absl::c_none_of(
      bound.states, [](PyObject* state) { return VersionOf(state) < 0; });
  auto graph = Graph::Build(recorded->tape, kinds, bound.states, graph_options);
  if (!graph.ok()) {
    Refusal why = FromStatus(graph.status(), run.recorder);
    why.by_numbers = why.transient = !recorded->tape.host_values.empty();
    return refuse(std::move(why));
  }
  graph_ = *std::move(graph);
  std::vector<int64_t> versions;
  for (PyObject* tensor : tensors) versions.push_back(VersionOf(tensor));
  graph_->SetVersions(versions);
  graph_->CountWrites(recorded->input_writes, recorded->state_writes);
  if (options.make_runner) {
    const absl::Status status =
        CompileOutside(options.make_runner.get(), bound);
    if (!status.ok()) return refuse(FromStatus(status, run.recorder));
  }
  guards_ = std::move(run.watch.guards());
  kernels_ = std::move(run.recorder.kernels());
  for (const InputGuards::Tensor& tensor : inputs_.tensors()) {
    for (const int dim : DynamicDims(tensor.recorded)) {
      dynamic_.emplace_back(tensor.path, dim);
    }
  }
  inputs_.EndRecording();
  gradients_.EndRecording();
  return true;
}

absl::Status Record::CompileOutside(PyObject* make_runner,
                                    const BoundCall& bound) {
  std::vector<int> fed;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].leaf >= 0) fed.push_back(static_cast<int>(i));
  }
  std::vector<double> numbers;
  for (const HostInputs::Source& source : host_inputs_.sources()) {
    numbers.push_back(NumberOf(source.recorded.get()).value_or(0));
  }
  return graph_->CompileOutside(make_runner, bound.inputs.tensors, bound.states,
                                numbers, fed);
}

bool Record::FindEffects(Observation& run, std::vector<PyObject*>* left,
                         Refusal* refusal, Attempt* attempt) {
  StateGuards& guards = run.watch.guards();
  const auto refuse = [&](std::string reason) {
    *refusal = {.reason = std::move(reason),
                .mend = "keep such changes out of the compiled function",
                .at = {},
                .transient = true,
                .places = run.watch.changes()};
    return false;
  };
  const auto is_number = [](PyObject* object) {
    return object != nullptr && IsNumber(object);
  };
  Rewritten rewritten;
  std::vector<Written> written;
  std::string reason;
  for (const StatePlace& place : run.watch.written()) {
    PyObject* after = place.Find();
    PyObject* noted = guards.Noted(place.holder.get(), place.key.get());
    const bool is_moved = after != nullptr && run.watch.HasRemoved(place);
    if (noted != nullptr) {
      PyObject* before = noted == Slots::Absent() ? nullptr : noted;
      // A number that may vary is only by chance what was there.
      const bool is_same =
          SameValue(before, after) && !run.watch.values().HasKnown(after);
      if (is_same && !is_moved) continue;
      const bool is_constant = before == nullptr || IsConstant(before);
      if (is_same) {
        // Only its place in the dict is another.
      } else if (!is_constant || (is_number(before) && is_number(after))) {
        reason = absl::StrCat("changes state: ",
                              Miss{.note = place.note,
                                   .expected = DescribeValue(before),
                                   .got = DescribeValue(after)}
                                  .ToString());
        attempt->slots.push_back(place);
      }
      rewritten.places.insert({place.holder.get(), place.key.get()});
    }
    written.push_back({.place = place,
                       .is_removed = after == nullptr,
                       .is_moved = is_moved,
                       .before = PyRef::Share(noted)});
  }
  PutInOrder(&written);
  for (const Written& one : written) left->push_back(one.place.Find());
  if (!reason.empty()) return refuse(std::move(reason));
  std::vector<Increment> increments;
  if (!run.watch.FinishIncrements(&increments, &reason) ||
      !run.watch.CheckContainers(&reason)) {
    guards.FindChangedLists(&attempt->slots);
    return refuse(std::move(reason));
  }
  for (const Increment& increment : increments) {
    rewritten.places.insert(
        {increment.place.holder.get(), increment.place.key.get()});
  }
  for (const auto& [container, before] : run.watch.changed_containers()) {
    rewritten.containers.insert(container);
  }
  for (const ContainerCall& call : run.watch.container_calls()) {
    for (const PyRef& arg : call.args) left->push_back(arg.get());
  }
  Miss miss;
  if (!guards.CheckBut(rewritten, &miss)) {
    guards.FindChangedInstances(&attempt->changed);
    guards.FindChangedLists(&attempt->slots);
    return refuse(absl::StrCat("changes state: ", miss.ToString()));
  }
  effects_ = Effects(run.watch.host_calls(), std::move(written),
                     std::move(increments), run.watch.container_calls());
  return true;
}

bool Record::FindArgumentChanges(Observation& run, std::vector<PyObject*>* left,
                                 Refusal* refusal) {
  auto [changes, why] = inputs_.FindChanges(run.watch.values());
  if (why) {
    *refusal = std::move(why);
    return false;
  }
  argument_changes_ = ArgumentChanges(std::move(changes), left);
  if (inputs_.has_mutable_containers() &&
      !(argument_changes_.empty() && effects_.empty())) {
    inputs_.KeepApart(run.watch.OldContainers());
  }
  return true;
}

bool Record::FindFirstArguments(Observation& run,
                                std::vector<PyObject*>* tensors,
                                Refusal* refusal) {
  std::vector<PyObject*> arguments;
  for (const PyRef& argument :
       run.watch.host_arguments().subspan(0, run.watch.num_first_arguments())) {
    arguments.push_back(argument.get());
  }
  auto [tree, why] =
      ResultTree::Build(Py_None, arguments, run.watch, inputs_, tensors);
  if (why) {
    *refusal = std::move(why);
    return false;
  }
  first_arguments_ = std::move(tree);
  return true;
}

bool Record::FindNumbers(Observation& run, Refusal* refusal, Attempt* attempt) {
  std::vector<HostInputs::Source> exact;
  std::vector<TapeHostValue> values =
      run.watch.values().Finish(&host_inputs_, &exact);
  for (const auto& sources :
       {absl::MakeConstSpan(exact), host_inputs_.sources()}) {
    for (const HostInputs::Source& source : sources) {
      if (source.node >= 0 || source.draw >= 0) continue;
      if (SameValue(source.recorded.get(), HostInputs::FindItem(source))) {
        continue;
      }
      *refusal = {.reason = absl::StrCat("changes state: ", source.note.path),
                  .mend = "keep such changes out of the compiled function",
                  .transient = true};
      attempt->slots.push_back({source.dict, source.key, source.note});
      return false;
    }
  }
  for (const HostInputs::Source& source : exact) {
    if (source.node >= 0) {
      inputs_.GuardNumber(source.node);
    } else if (source.draw < 0) {
      run.watch.guards().AddItem(source.dict.get(), source.key.get(),
                                 source.note);
    }
  }
  if (!FindDraws(run, exact, refusal)) return false;
  const auto comparisons = run.watch.values().Comparisons();
  outcomes_ = HostOutcomes(values, comparisons, host_inputs_);
  std::vector<int32_t> results = result_.numbers();
  results.insert(results.end(), first_arguments_.numbers().begin(),
                 first_arguments_.numbers().end());
  run.recorder.SetHostValues(std::move(values), std::move(results),
                             comparisons);
  return true;
}

bool Record::FindDraws(const Observation& run,
                       absl::Span<const HostInputs::Source> exact,
                       Refusal* refusal) {
  std::vector<Draw> draws = run.watch.draws();
  for (size_t i = 0; i < host_inputs_.sources().size(); ++i) {
    const int draw = host_inputs_.sources()[i].draw;
    if (draw >= 0) draws[draw].input = static_cast<int>(i);
  }
  for (const HostInputs::Source& source : exact) {
    if (source.draw < 0) continue;
    Draw& draw = draws[source.draw];
    draw.is_exact = true;
  }
  for (const Draw& draw : draws) {
    // A clock never tells the same, nor does a float come again.
    const bool comes_again = draw.kind != Draw::Kind::kClock &&
                             !PyFloat_CheckExact(draw.recorded.get());
    if (!draw.is_exact || comes_again) continue;
    if (!*refusal) {
      *refusal = {
          .reason = absl::StrCat("uses a number of ", draw.note.path,
                                 " for more than arithmetic and comparisons"),
          .mend = "draw with torch, or keep the number in a tensor",
          .at = draw.note.at};
    }
    refusal->places.push_back(draw.places);
  }
  if (*refusal) return false;
  draws_ = Draws(std::move(draws));
  return true;
}

// Which leaves' gradients the run read or changed. Appends to `tensors` those
// that it made.
bool Record::FindGradients(Observation& run, std::vector<PyObject*>* tensors,
                           std::vector<PyRef>* pins, Refusal* refusal) {
  GradientWatch& watch = run.watch.gradients();
  if (watch.all_touched() && watch.has_outer_graph()) {
    *refusal = {.reason =
                    "goes back through a tensor that came in with an "
                    "autograd graph of its own",
                .mend = "detach it, or compile what made it too"};
    return false;
  }
  for (const GradientWatch::Seen& seen : watch.seen()) {
    if (!seen.is_touched && !watch.all_touched()) continue;
    if (HasGradientHooks(seen.tensor.get())) {
      *refusal = {
          .reason = absl::StrCat("has a hook on the gradient of ",
                                 run.watch.TensorName(seen.tensor.get())),
          .mend = "change gradients after backward(), in the step"};
      return false;
    }
    Gradients::Leaf leaf{.tensor = Kept(seen.tensor.get()),
                         .name = run.watch.TensorName(seen.tensor.get()),
                         .had_grad = static_cast<bool>(seen.before),
                         .before = seen.before};
    leaf.input = inputs_.FindTensor(seen.tensor.get());
    if (leaf.input >= 0) {
      leaf.tensor = Kept();
      leaf.name = inputs_.tensors()[leaf.input].path;
    }
    Keep(run.watch.guards(), leaf.tensor.get());
    if (seen.before) leaf.meta = TensorMeta::Of(seen.before.get());
    PyRef after = GradOf(seen.tensor.get());
    leaf.is_kept = after.get() == seen.before.get();
    if (!leaf.is_kept && after) {
      if (RequiresGrad(after.get()) || !IsPlainTensor(after.get())) {
        *refusal = {.reason = absl::StrCat("leaves ", leaf.name,
                                           " with a gradient that requires "
                                           "grad itself")};
        return false;
      }
      if (HasOwnAttributes(after.get())) {
        *refusal = {.reason = absl::StrCat("leaves ", leaf.name,
                                           " with a gradient that has "
                                           "attributes of its own")};
        return false;
      }
      const auto known =
          std::find(tensors->begin(), tensors->end(), after.get());
      leaf.result = static_cast<int>(known - tensors->begin());
      if (known == tensors->end()) tensors->push_back(after.get());
      pins->push_back(std::move(after));
    }
    gradients_.Add(std::move(leaf));
  }
  return true;
}

}  // namespace mica
