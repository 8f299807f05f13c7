// How a callable is run once, watched.

#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/trace/recorder.h"
#include "python/capture/known/loud_warnings.h"
#include "python/capture/known/purity.h"
#include "python/capture/record/record.h"
#include "python/capture/record/record_maker.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/own_numbers.h"
#include "python/capture/values/unread.h"
#include "python/capture/watch/observation.h"
#include "python/interpreter/interpreter.h"
#include "python/process/progress.h"

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
  int skip = 0;
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
  for (int i = skip; i < code->co_argcount; ++i) {
    names.push_back(PyText(PyTuple_GET_ITEM(variables.get(), i)));
  }
  return names;
}

void AddRoots(Observation& run, PyObject* callable, const InputGuards& inputs) {
  for (const InputGuards::Tensor& tensor : inputs.tensors()) {
    run.recorder.AddInput(tensor.recorded, tensor.path);
    if (tensor.meta.requires_grad)
      run.watch.tensors().gradients().See(tensor.recorded);
  }
  for (PyObject* object : inputs.covered()) run.watch.ages().AddInput(object);
  HostValues& values = run.watch.values();
  inputs.ForEachArray(
      [&](PyObject* array, PyObject* own) { values.AddArray(array, own); });
  inputs.ForEachOwn([&values](PyObject* own, PyObject* original) {
    if (PyTuple_Check(own)) values.AddTuple(own, original);
  });
  PyObject* self =
      PyMethod_Check(callable) ? PyMethod_GET_SELF(callable) : callable;
  if (!PyFunction_Check(self)) run.watch.names().NameModule(self, "");
  run.watch.ages().MarkOld(
      callable, PyFunction_Check(callable) ? CallableTitle(callable) : "");
  if (self != callable) run.watch.ages().MarkOld(self, "");
  for (size_t i = 0; i < inputs.pinned().size(); ++i) {
    PyObject* object = inputs.pinned()[i].get();
    run.watch.names().NameModule(object, inputs.pinned_paths()[i]);
    run.watch.ages().MarkOld(object, inputs.pinned_paths()[i]);
    run.watch.guards().HoldPinned(object);
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
    ObjectAges& ages = run_.watch.ages();
    own_.SetIsNew([&ages](PyObject* held) {
      return !ages.IsInput(held) && !ages.IsOld(held);
    });
    PutBackInPlaces(slots_);
    PutBackInPlaces(run_.watch.values().places());
    PutBackInPlaces(run_.watch.written().places());
    for (const PyRef& argument : arguments_) own_.PutBackIn(argument.get());
    for (const auto& [container, before] : run_.watch.containers().changed()) {
      own_.PutBackIn(container);
    }
    // Where it was stored in ways that no record repeats.
    for (PyObject* object : ages.OldObjects()) own_.PutBackInOld(object);
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

// Why a run can't be watched; empty if it can.
Refusal WhyUnwatched(const TorchState& state, const CallArgs& args,
                     const CaptureOptions& options) {
  if (const auto why = state.Unsupported()) return {.reason = *why};
  if (IsForeignTracerActive()) {
    return {.reason = "a debugger or a coverage tool traces this thread",
            .transient = true};
  }
  for (Py_ssize_t i = 0; options.is_piece && i < args.size(); ++i) {
    PyObject* arg = args.args[i];
    if (PyObject* own = FindOfOneRun(arg)) {
      return {.reason = absl::StrCat("goes on with a ", TypeName(Py_TYPE(own)),
                                     ", which each run makes anew"),
              .transient = !PyCell_Check(own)};
    }
    if (IsTorchModule(arg) || !(IsGenerator(arg) || RunsPythonAtDeath(arg))) {
      continue;
    }
    return {.reason = absl::StrCat("goes on with a ", TypeName(Py_TYPE(arg)),
                                   ", which may tell when it dies")};
  }
  return {};
}

// The numbers that are followed as inputs.
const PromotedScalars& PromotedOf(const CaptureOptions& options) {
  static const PromotedScalars& none = *new PromotedScalars;
  return options.follow_numbers ? options.promoted : none;
}

// Calls `callable` with `values` in place of `args`, watched from its first
// step to its last. Null, with a Python error set, if it raises.
PyRef CallWatched(Observation& run, PyObject* callable, const CallArgs& args,
                  absl::Span<PyObject* const> values, int64_t* watched_ns) {
  run.stream = MakeInterpreterStream(&run.watch);
  run.watch.Touch(callable);
  run.watch.Call(callable, values);
  PyRef result;
  is_capturing = true;
  run.Start();
  {
    const TraceSpan span("capture", "watched run");
    Progress::SetPhase("watching the run");
    const int64_t start = HitTimes::Now();
    result = PyRef::Steal(PyObject_Vectorcall(
        callable, values.data(), static_cast<size_t>(args.num_positional),
        args.keyword_names));
    *watched_ns = HitTimes::Now() - start;
  }
  run.stream->Stop();
  run.recorder.Stop();
  run.watch.EndStep(nullptr, /*entered=*/false);
  run.recorder.Stop();  // A call into the world outside may have raised.
  run.watch.modes().End();
  is_capturing = false;
  return result;
}

// The run's calls into the world outside, with their arguments if it made them.
void TellOfCalls(Observation& run, bool are_made, Rehearsal* rehearsal) {
  const HostCallWatch& calls = run.watch.host_calls();
  rehearsal->calls = calls.calls();
  if (are_made && !CompleteCalls(calls.arguments(), 0, &rehearsal->calls)) {
    PyErr_Clear();
  }
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

Refusal Record::GuardArguments(const CallArgs& args,
                               const CaptureOptions& options,
                               std::vector<PyObject*>* values,
                               std::vector<PyRef>* alive) {
  const absl::Span<const StatePlace> slots = options.slots.places();
  std::vector<PyObject*> slot_values = options.slots.Values();
  std::vector<std::string> slot_names;
  for (size_t i = 0; i < slot_values.size(); ++i) {
    slot_names.push_back(slots[i].note.path);
    alive->push_back(PyRef::Share(slot_values[i]));
  }
  CallArgs all = args;
  all.slots = slot_values.data();
  all.num_slots = slot_values.size();
  auto [inputs, why] = [&] {
    const TraceSpan span("capture", "guards of arguments");
    return InputGuards::Build(all, ParameterNames(callable_.get()), slot_names,
                              options.apart, PromotedOf(options).inputs());
  }();
  if (why) {
    OwnNumbers own;
    inputs.ForEachOwn([&own](PyObject* number, PyObject* original) {
      own.Add(number, original);
    });
    for (PyObject* object : inputs.covered()) own.PutBackIn(object);
    return std::move(why);
  }
  inputs_ = std::move(inputs);
  values->assign(args.args, args.args + args.size());
  for (size_t i = 0; i < values->size() + slot_values.size(); ++i) {
    PyObject* own = inputs_.InPlaceOf(i);
    if (own == nullptr) continue;
    if (i < values->size()) {
      (*values)[i] = own;
    } else if (!slots[i - values->size()].Set(own)) {
      PyErr_Clear();
    }
  }
  for (PyObject* object : inputs_.covered()) {
    alive->push_back(PyRef::Share(object));
  }
  return {};
}

void Record::SetUp(const CaptureOptions& options, Observation& run) const {
  StateWatch& watch = run.watch;
  AddRoots(run, callable_.get(), inputs_);
  run.follows_numbers = options.follow_numbers;
  run.watch.values().SetExact(options.graph.exact);
  run.follows_places = !options.make_runner;
  if (options.follow_sizes) run.FollowSizes();
  if (!options.keep_data_sizes) run.RefuseSizesOfData();
  watch.written().SetPromoted(&PromotedOf(options));
  watch.written().SetSlots(&slots_);
  watch.refusals().SetLooksOn(options.looks_on);
  watch.draws().SetFollows(options.follow_numbers, options.follow_draws);
  watch.host_calls().SetInputs(&inputs_);
  watch.host_calls().SetFindsChanged([this, &watch] {
    const auto [changes, why] = inputs_.FindChanges(watch.values());
    return changes.empty() ? why.reason : changes[0].path;
  });
  for (const int node : inputs_.numbers()) {
    watch.values().AddInput(inputs_.recorded_number(node),
                            inputs_.original_number(node), node,
                            inputs_.path(node));
    if (PromotedOf(options).IsSizeInput(inputs_.path(node)) &&
        PyLong_CheckExact(inputs_.recorded_number(node))) {
      watch.values().TakeForSize(inputs_.recorded_number(node));
    }
  }
}

std::unique_ptr<Record> Record::Run(PyObject* callable, const CallArgs& args,
                                    const CaptureOptions& options,
                                    PyRef* result, Refusal* refusal,
                                    Attempt* attempt, Rehearsal* rehearsal,
                                    const RaisedCall* raised) {
  NoteImports();
  std::unique_ptr<Record> record(new Record);
  record->callable_ = PyRef::Share(callable);
  record->torch_state_ = TorchState::Current();
  record->loud_warnings_ = LoudWarnings();
  record->slots_ = options.slots;
  std::vector<PyObject*> values;
  std::vector<PyRef> alive;
  *refusal = WhyUnwatched(record->torch_state_, args, options);
  if (!*refusal) {
    *refusal = record->GuardArguments(args, options, &values, &alive);
  }
  if (*refusal) {
    *result = PyRef::Steal(PyObject_Vectorcall(
        callable, args.args, static_cast<size_t>(args.num_positional),
        args.keyword_names));
    return nullptr;
  }
  const AskedStates asked;
  Observation run(CallableTitle(callable));
  run.watch.builtins().SetAsked(&asked);
  record->SetUp(options, run);
  if (rehearsal != nullptr) {
    run.watch.draws().SetReadings(rehearsal->readings);
  }
  if (raised != nullptr) {
    run.watch.host_calls().SetMuted(raised->num_made, raised->error);
  }
  const NumbersPutBack put_back(run, record->inputs_, options.slots.places(),
                                *result);
  *result = CallWatched(run, callable, args, values, &record->watched_ns);
  if (!*result) {
    *refusal = {.reason = "the run raised an exception", .transient = true};
    return nullptr;
  }
  if (rehearsal != nullptr) {
    TellOfCalls(run, raised == nullptr, rehearsal);
    *refusal = run.watch.refusal();
    return nullptr;
  }
  const PyErrorKeeper keeper;
  RecordMaker maker(*record, run, options, refusal, attempt);
  const bool is_made = maker.Make(result->get());
  if (is_made && run.watch.ages().is_disturbed()) {
    *attempt = Attempt();
    *refusal = {.reason = "the garbage collector ran in the midst of the run",
                .transient = true};
    return nullptr;
  }
  if (is_made) return record;
  maker.FindWanted();
  attempt->guards = std::move(run.watch.guards());
  return nullptr;
}

}  // namespace mica
