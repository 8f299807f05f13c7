#include "python/capture/record/record.h"

#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hit_code.h"
#include "framework/trace/recorder.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/gc_pause.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {
void Record::FindPromoted(PromotedScalars* promoted,
                          std::vector<StatePlace>* slots) const {
  guards_.FindPromoted(promoted, slots);
  for (const std::string& path : inputs_.promoted_paths()) {
    promoted->AddInput(path);
  }
}

std::vector<PyRef> Record::states() const {
  std::vector<PyRef> tensors;
  const StateGuards::Alive alive = guards_.FindAlive();
  for (const State& state : states_) {
    tensors.push_back(state.cast.has_value() || state.drawn >= 0
                          ? PyRef()
                          : alive.Share(state.tensor));
    if (state.leaf < 0) continue;
    const Gradients::Leaf& leaf = gradients_.leaves()[state.leaf];
    if (leaf.tensor && alive.Has(leaf.tensor.get())) {
      tensors.back() = GradOf(leaf.tensor.get());
    }
  }
  return tensors;
}

Draws::Outcome Record::MakeDraws(BoundCall* bound, Draws::Made* made,
                                 Miss* miss) const {
  if (!draws_.empty()) {
    const Draws::Outcome outcome =
        draws_.Make(absl::MakeSpan(bound->numbers),
                    bound->run->graph->tape().host_values, made, miss);
    if (outcome != Draws::Outcome::kMade) return outcome;
    for (const size_t i : found_anew_) {
      const int drawn = states_[i].drawn;
      if (drawn >= 0) bound->states[i] = made->tensors[drawn].get();
    }
    bound->inputs.drawn = made->arrays;
  }
  if (outcomes_.Check(bound->numbers, bound->run->graph->tape().host_values,
                      miss)) {
    return Draws::Outcome::kMade;
  }
  made->Undo();
  return Draws::Outcome::kMiss;
}

bool Record::MakeFirstCalls(absl::Span<const PyRef> tensors,
                            absl::Span<const double> numbers,
                            const BoundInputs& inputs, size_t* made,
                            Rehearsal* rehearsal) const {
  std::vector<PyObject*> objects;
  objects.reserve(tensors.size());
  for (const PyRef& tensor : tensors) objects.push_back(tensor.get());
  std::vector<PyRef> arguments;
  const PyRef nothing = PyRef::Steal(first_arguments_.Make(
      objects, numbers.subspan(result_.numbers().size()), inputs, &arguments));
  return nothing && effects_.MakeFirstCalls(
                        arguments, made,
                        rehearsal == nullptr ? nullptr : &rehearsal->calls);
}

MICA_HIT_CODE Record::Outcome Record::Serve(const CallArgs& args,
                                            const TorchState& now,
                                            PyRef* result, Miss* miss,
                                            RaisedCall* raised,
                                            Rehearsal* rehearsal) {
  BoundCall bound = std::move(bound_);
  const absl::Cleanup keep = [&] {
    bound.found.clear();
    bound.run.reset();
    bound.inputs.of_arrays.clear();
    bound.inputs.drawn.clear();
    bound_ = std::move(bound);
  };
  {
    TraceSpan span("guards", "check guards");
    // What was found to be alive is so until it is held.
    const GcPause pause;
    const bool matches = Matches(args, now, &bound, miss);
    if (span.is_on()) span.Add("hold", int64_t{matches});
    if (!matches) return Outcome::kMiss;
    // Another thread may change what holds them.
    for (PyObject* object : bound.inputs.objects) Py_INCREF(object);
    for (PyObject* object : run_objects_) Py_INCREF(object);
  }
  const absl::Cleanup drop = [&] {
    for (PyObject* object : bound.inputs.objects) Py_DECREF(object);
    for (PyObject* object : run_objects_) Py_DECREF(object);
  };
  if (ways_ != nullptr) return ServeWays(bound, result, miss, raised);
  Draws::Made made;
  switch (MakeDraws(&bound, &made, miss)) {
    case Draws::Outcome::kMade:
      break;
    case Draws::Outcome::kMiss:
      return Outcome::kMiss;
    case Draws::Outcome::kFailed:
      return Outcome::kFailed;
    case Draws::Outcome::kRaised:
      return Outcome::kHit;
  }
  std::shared_ptr<Graph::Computed> done;
  if (!bound.run->graph->is_checked()) done = CheckAccuracy(bound);
  std::vector<PyRef> tensors;
  std::vector<double> numbers;
  const absl::Status status =
      RunGraph(bound, std::move(done), raised, rehearsal, &tensors, &numbers);
  // What comes next draws the same numbers. For DataLoss all else was done.
  if (!status.ok() && !absl::IsDataLoss(status)) made.Undo();
  if (!status.ok()) return Failed(status, miss, raised);
  if (!MakeResults(bound, numbers, &tensors)) return Outcome::kHit;
  *result = Leave(bound, tensors, numbers, rehearsal);
  if (rehearsal != nullptr) rehearsal->readings = std::move(made.readings);
  ++hits;
  return Outcome::kHit;
}

MICA_HIT_CODE bool Record::MakeResults(const BoundCall& bound,
                                       absl::Span<const double> numbers,
                                       std::vector<PyRef>* tensors,
                                       bool is_of_ways) const {
  gradients_.Apply(bound.inputs, *tensors);
  // Of several ways another one may have made them.
  result_views_.SetWrites(*tensors, bound.run->more_writes,
                          is_of_ways ? ResultViews::Counts::kKnown
                                     : ResultViews::Counts::kRecorded);
  const std::shared_ptr<BackwardPass>& backward = bound.run->backward;
  if (backward != nullptr &&
      !BackwardPass::Attach(backward, bound.inputs.tensors, bound.states,
                            numbers, tensors)) {
    return false;
  }
  return result_views_.MakeViews(bound.inputs.tensors, tensors) &&
         gradients_.ApplyData(bound.inputs, *tensors);
}

std::shared_ptr<Graph::Computed> Record::CheckAccuracy(const BoundCall& bound) {
  SizedRun& run = *bound.run;
  const int num_results = run.backward == nullptr
                              ? std::numeric_limits<int>::max()
                              : run.backward->num_results();
  std::shared_ptr<Graph::Computed> done;
  std::shared_ptr<Graph> exact = run.graph->CheckAccuracy(
      bound.inputs.tensors, bound.states, bound.numbers, num_results, &done);
  if (exact != nullptr) {
    run.graph = std::move(exact);
  } else if (sizes_ != nullptr && run.graph->is_checked()) {
    sizes_->SkipChecks();
  }
  return done;
}

absl::Status Record::RunGraph(const BoundCall& bound,
                              std::shared_ptr<Graph::Computed> done,
                              RaisedCall* raised, Rehearsal* rehearsal,
                              std::vector<PyRef>* tensors,
                              std::vector<double>* numbers) const {
  Graph::BeforeCommit first_calls;
  std::vector<PyObject*> replaced;
  if (effects_.has_first_calls()) {
    first_calls = [&](absl::Span<const PyRef> results,
                      absl::Span<const double> host_results) {
      return MakeFirstCalls(results, host_results, bound.inputs,
                            &raised->num_made, rehearsal);
    };
  } else {
    replaced = gradients_.Replaced(bound.inputs);
  }
  // Meanwhile another thread may give the record another one.
  const std::shared_ptr<Graph> graph = bound.run->graph;
  return graph->Run(bound.inputs.tensors, bound.states, bound.numbers, replaced,
                    first_calls, tensors, numbers, std::move(done));
}

bool Record::IsForSize(const Miss& miss) const {
  return miss.kind == "data size" ||
         (miss.kind == "host read" &&
          absl::c_any_of(size_reads_, [&](const std::string& line) {
            return absl::EndsWith(miss.note.path, line);
          }));
}

Record::Outcome Record::Failed(const absl::Status& status, Miss* miss,
                               RaisedCall* raised) {
  if (absl::IsAborted(status)) {
    if (miss != nullptr) {
      *miss = {.kind = Graph::FailedForSize(status) ? "data size" : "host read",
               .note = {.path = std::string(status.message())},
               .expected = "the recorded one",
               .got = "another"};
    }
    return Outcome::kDiscarded;
  }
  if (absl::IsUnavailable(status) && PyErr_Occurred() != nullptr) {
    raised->error = TakePyError();
    if (IsLogsAnError(raised->error.get())) raised->error = PyRef();
    return Outcome::kRaised;
  }
  // A signal's handler has raised.
  if (absl::IsCancelled(status) && PyErr_Occurred() != nullptr) {
    return Outcome::kHit;
  }
  if (absl::IsDataLoss(status)) {
    PyErr_NoMemory();
    return Outcome::kHit;
  }
  if (miss != nullptr) {
    *miss = {.kind = "failure",
             .note = {.path = std::string(status.message())},
             .expected = "a run without error",
             .got = "an error"};
  }
  return Outcome::kFailed;
}

PyRef Record::Leave(const BoundCall& bound, absl::Span<const PyRef> tensors,
                    absl::Span<const double> numbers,
                    Rehearsal* rehearsal) const {
  std::vector<PyObject*> objects;
  objects.reserve(tensors.size());
  for (const PyRef& tensor : tensors) objects.push_back(tensor.get());
  std::vector<PyRef> left;
  PyRef result =
      PyRef::Steal(result_.Make(objects, numbers, bound.inputs, &left));
  std::vector<HostCall>* withheld =
      rehearsal == nullptr ? nullptr : &rehearsal->calls;
  if (result &&
      !(effects_.Apply(left) && argument_changes_.Apply(bound.inputs, left) &&
        effects_.MakeLastCalls(left, withheld))) {
    result = PyRef();
  }
  return result;
}

int Record::Traverse(visitproc visit, void* arg) const {
  if (const int stop = inputs_.Traverse(visit, arg)) return stop;
  if (const int stop = guards_.Traverse(visit, arg)) return stop;
  if (const int stop = result_.Traverse(visit, arg)) return stop;
  if (const int stop = first_arguments_.Traverse(visit, arg)) return stop;
  if (const int stop = effects_.Traverse(visit, arg)) return stop;
  if (const int stop = argument_changes_.Traverse(visit, arg)) return stop;
  if (const int stop = slots_.Traverse(visit, arg)) return stop;
  if (const int stop = host_inputs_.Traverse(visit, arg)) return stop;
  if (const int stop = size_inputs_.Traverse(visit, arg)) return stop;
  if (const int stop = draws_.Traverse(visit, arg)) return stop;
  if (run_->graph != nullptr) {
    if (const int stop = run_->graph->Traverse(visit, arg)) return stop;
  }
  // Those in autograd's graphs, which the collector can't see, hold it, too.
  if (run_->backward.use_count() == 1 && sizes_ == nullptr) {
    if (const int stop = run_->backward->Traverse(visit, arg)) return stop;
  }
  for (const std::shared_ptr<Record>& member : members_) {
    if (member.use_count() > 1) continue;
    if (const int stop = member->Traverse(visit, arg)) return stop;
  }
  Py_VISIT(callable_.get());
  return 0;
}

std::vector<std::string> Record::EffectsToText() const {
  std::vector<std::string> lines = draws_.ToText();
  for (std::string& line : effects_.ToText()) lines.push_back(std::move(line));
  for (std::string& line : argument_changes_.ToText()) {
    lines.push_back(std::move(line));
  }
  for (std::string& line : gradients_.ChangesToText()) {
    lines.push_back(std::move(line));
  }
  for (const StatePlace& place : slots_.places()) {
    lines.push_back(absl::StrCat("reads ", place.note.path, " at each run"));
  }
  return lines;
}

std::vector<Record::GuardText> Record::Guards() const {
  std::vector<GuardText> guards;
  if (std::string path; IsGone(&path)) {
    return {{"state", absl::StrCat(path, " is gone")}};
  }
  const auto add = [&guards](const char* kind,
                             const std::vector<std::string>& lines) {
    for (const std::string& line : lines) guards.emplace_back(kind, line);
  };
  add("argument", inputs_.ToText());
  add("state", guards_.ToText());
  std::vector<std::string> numbers, gradients, memory;
  host_inputs_.AppendText(&numbers);
  if (sizes_ != nullptr) {
    size_inputs_.AppendText(&numbers);
  } else {
    for (const NumberSource& source : size_inputs_.sources()) {
      numbers.push_back(
          absl::StrCat(source.note.path, " is ",
                       NumberOf(source.recorded.get()).value_or(0)));
    }
  }
  gradients_.AppendText(&gradients);
  run_->memory.AppendText(&memory);
  add("number", numbers);
  add("gradient", gradients);
  add("memory", memory);
  add("state", {"which warnings are errors or always shown is the same"});
  add("torch", {"torch's modes (grad, inference, autocast, determinism) and "
                "default dtype are the same"});
  return guards;
}

std::vector<std::string> Record::GuardsToText(
    std::vector<std::string>* kinds) const {
  std::vector<std::string> lines;
  for (auto& [kind, line] : Guards()) {
    lines.push_back(std::move(line));
    if (kinds != nullptr) kinds->push_back(kind);
  }
  return lines;
}

}  // namespace mica
