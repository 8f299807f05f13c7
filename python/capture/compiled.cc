#include "python/capture/compiled.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/text/text.h"
#include "framework/trace/recorder.h"
#include "python/capture/autograd_access.h"
#include "python/capture/describe.h"
#include "python/capture/numbers.h"
#include "python/capture/splits.h"
#include "python/capture/stance.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// Refused runs in a row after which a callable isn't tried any more.
constexpr int kMaxRefusals = 4;
// Records made in a row, none of which ever served a call.
constexpr int kMaxIdleCaptures = 24;
// Records that differ in sizes only that are expected to vary.
constexpr int kMaxSizes = 64;
// Captures for what was drawn after which that is asked: has each of them been
// worth so many hits?
constexpr int64_t kMaxOutcomes = 12;
constexpr int64_t kHitsOfOutcome = 16;
// Calls in a row by pieces of which none was a graph.
constexpr int kMaxIdleSplitCalls = 8;
// Times that a callable in pieces is tried as a whole again, after calls in
// which nothing was cut; and the call after which it is anyway.
constexpr int kMaxRetries = 4;
constexpr int64_t kFirstRetry = 8;

void Log(const std::string& text) { PySys_FormatStderr("%s\n", text.c_str()); }

std::string Title(PyObject* callable) {
  PyRef name = PyRef::Steal(PyObject_GetAttrString(callable, "__qualname__"));
  if (name) return PyText(name.get());
  PyErr_Clear();
  return Py_TYPE(callable)->tp_name;
}

bool Put(PyObject* dict, const char* key, PyRef value) {
  return value && PyDict_SetItemString(dict, key, value.get()) == 0;
}

PyRef Text(const std::string& text) {
  return PyRef::Steal(PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

PyRef Number(int64_t number) {
  return PyRef::Steal(PyLong_FromLongLong(number));
}

PyRef Texts(const std::vector<std::string>& texts) {
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const std::string& text : texts) {
    PyRef item = Text(text);
    if (!list || !item || PyList_Append(list.get(), item.get()) != 0) {
      return PyRef();
    }
  }
  return list;
}

// The state's tensors by their names in the Program.
PyRef Variables(const Record& record) {
  PyRef dict = PyRef::Steal(PyDict_New());
  const auto variables = record.graph().program().variables();
  const std::vector<PyRef> states = record.states();
  for (size_t i = 0; i < states.size(); ++i) {
    if (!states[i]) continue;
    if (!dict || !Put(dict.get(), variables[i].name.c_str(), states[i])) {
      return PyRef();
    }
  }
  return dict;
}

PyRef ReportRecord(const Record& record) {
  const Graph& graph = record.graph();
  std::vector<std::string> ops;
  std::map<std::string, int64_t> opaque;
  for (const Op& op : graph.plan().program().ops()) {
    ops.push_back(op.def->name());
    if (op.def->is_opaque()) ++opaque[op.def->name()];
  }
  std::vector<std::string> calls;
  for (const TapeCall& call : graph.tape().calls) calls.push_back(call.op);
  PyRef counts = PyRef::Steal(PyDict_New());
  PyRef dict = PyRef::Steal(PyDict_New());
  if (!counts || !dict) return PyRef();
  for (const auto& [name, count] : opaque) {
    if (!Put(counts.get(), name.c_str(), Number(count))) return PyRef();
  }
  PyObject* d = dict.get();
  std::vector<std::string> backward;
  int64_t num_kept = 0;
  if (record.backward() != nullptr) {
    num_kept = record.backward()->num_kept();
    for (const Op& op : record.backward()->graph().plan().program().ops()) {
      backward.push_back(op.def->name());
    }
  }
  const bool ok =
      Put(d, "calls", Texts(calls)) &&
      Put(d, "backward_ops", Texts(backward)) &&
      Put(d, "num_kept", Number(num_kept)) && Put(d, "ops", Texts(ops)) &&
      Put(d, "opaque", counts) && Put(d, "variables", Variables(record)) &&
      Put(d, "guards", Texts(record.GuardsToText())) &&
      Put(d, "guard_kinds", Texts(record.GuardKinds())) &&
      Put(d, "effects", Texts(record.EffectsToText())) &&
      Put(d, "hits", Number(record.hits)) &&
      Put(d, "program", Text(ToText(graph.program()))) &&
      Put(d, "plan", Text(graph.plan().ToText())) &&
      Put(d, "arena_bytes", Number(graph.plan().arena_bytes())) &&
      Put(d, "live_set_bytes", Number(graph.plan().live_set_bytes()));
  return ok ? dict : PyRef();
}

}  // namespace

PyObject* Compiled::CallEagerly(const CallArgs& args) {
  ++eager_calls_;
  const TraceSpan span("call", "run eagerly");
  return PyObject_Vectorcall(callable_.get(), args.args,
                             static_cast<size_t>(args.num_positional),
                             args.keyword_names);
}

PyObject* Compiled::RaiseRefusal(const std::string& text) const {
  PyErr_SetString(
      error_ ? error_.get() : PyExc_RuntimeError,
      absl::StrCat(Title(callable_.get()), " can't be one graph: ", text)
          .c_str());
  return nullptr;
}

void Compiled::NoteHit(const std::shared_ptr<Record>& record) {
  ++hits_;
  captures_without_hit_ = 0;
  if (!records_.empty() && records_[0] == record) return;
  const auto at = std::find(records_.begin(), records_.end(), record);
  if (at != records_.end()) std::rotate(records_.begin(), at, at + 1);
}

std::string Compiled::WhyUnserved(const Miss* miss) const {
  if (miss != nullptr) return miss->ToString();
  return given_up_.empty() ? "it has no record" : given_up_;
}

PyObject* Compiled::RaiseUnserved(const std::string& why) const {
  PyErr_SetString(
      error_ ? error_.get() : PyExc_RuntimeError,
      absl::StrCat(Title(callable_.get()),
                   " isn't served, and the stance is fail_on_recompile: ", why)
          .c_str());
  return nullptr;
}

PyObject* Compiled::Call(const CallArgs& args) {
  unserved_.clear();
  // Inside another capture: that one sees what happens here.
  if (options_.disabled || IsCapturing() || IsDisabled()) {
    return CallEagerly(args);
  }
  const TraceSpan span("call", "call ",
                       IsTracing() ? Title(callable_.get()) : "");
  Miss miss;
  PyTypeObject* misplaced = nullptr;
  bool has_miss = false;
  if (!records_.empty()) {
    const TorchState now = TorchState::Current();
    for (size_t i = 0; i < records_.size(); ++i) {
      const std::shared_ptr<Record> record = records_[i];
      PyRef result;
      // A message is made for the most recent record only.
      switch (record->Serve(args, now, &result, i == 0 ? &miss : nullptr)) {
        case Record::Outcome::kHit:
          NoteHit(record);
          return result.release();
        case Record::Outcome::kMiss:
          if (misplaced == nullptr) misplaced = record->misplaced_type();
          continue;
        case Record::Outcome::kFailed:
          // Eager raises its own exception, with its own traceback.
          return CallEagerly(args);
      }
    }
    has_miss = !miss.kind.empty();
    // Arguments have no line; the call has.
    if (has_miss && miss.note.at.line == 0) miss.note.at = CurrentUserLine();
    if (has_miss) NoteMiss(misplaced, miss);
  }
  const bool may_record = CurrentStance() != Stance::kFailOnRecompile;
  if (splits_ != nullptr &&
      (goes_by_pieces_ || !given_up_.empty() || !may_record)) {
    return CallInPieces(args);
  }
  if (!may_record) {
    const std::string why = WhyUnserved(has_miss ? &miss : nullptr);
    if (!options_.capture.is_piece) return RaiseUnserved(why);
    // The function that it is a piece of runs to its end first.
    if (given_up_.empty()) unserved_ = why;
    return CallEagerly(args);
  }
  if (!given_up_.empty()) {
    if (options_.fullgraph) return RaiseRefusal(given_up_);
    return CallEagerly(args);
  }
  return CaptureCall(args, has_miss ? &miss : nullptr);
}

PyObject* Compiled::CallInPieces(const CallArgs& args) {
  // A tracer wants to see the function itself.
  if (IsForeignTracerActive()) return CallEagerly(args);
  const std::shared_ptr<Splits> splits = splits_;
  PyRef result = PyRef::Steal(splits->Call(callable_.get(), args));
  if (const PyRef error = splits->TakeCheckError()) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())),
                    error.get());
    return nullptr;
  }
  if (!result) return nullptr;
  ++split_calls_;
  const SplitEvents& events = splits->events();
  if (!events.unserved.empty()) return RaiseUnserved(events.unserved);
  if (events.graphs == 0) {
    ++eager_calls_;
    // With nothing to compute, nothing may be in the way next time.
    if (split_calls_ == 1 && events.eager == 0) goes_by_pieces_ = false;
    if (++idle_split_calls_ >= kMaxIdleSplitCalls && splits == splits_) {
      splits_.reset();
      if (given_up_.empty()) given_up_ = last_refusal_.ToString();
    }
    return result.release();
  }
  idle_split_calls_ = 0;
  if (events.steps == 0 && events.eager == 0 && num_retries_ < kMaxRetries) {
    // Nothing was in the way this time.
    ++num_retries_;
    goes_by_pieces_ = false;
  }
  // What was in the way may have been something that is done once.
  if (split_calls_ == kFirstRetry) goes_by_pieces_ = false;
  return result.release();
}

void Compiled::ConsiderPieces(const Refusal& refusal) {
  if (options_.capture.is_piece || options_.fullgraph) return;
  // What changes state may do so once only, a training step a few times.
  const auto kind = [](const Refusal& r) {
    return r.reason.substr(
        0, std::min(r.reason.find(": recorded"), r.reason.find('[')));
  };
  const bool is_lasting =
      !refusal.transient || !given_up_.empty() ||
      (!IsGradModeOn() && kind(refusal) == kind(last_refusal_));
  if (!is_lasting) return;
  if (splits_ == nullptr) splits_ = std::make_shared<Splits>(options_);
  splits_->LearnFrom(refusal);
  goes_by_pieces_ = true;
}

int64_t Compiled::LastNumOps() const {
  return records_.empty()
             ? 0
             : static_cast<int64_t>(records_[0]->graph().plan().steps().size());
}

PyObject* Compiled::CaptureCall(const CallArgs& args, const Miss* miss) {
  ++captures_;
  TraceSpan span("capture", "capture ",
                 IsTracing() ? Title(callable_.get()) : "");
  if (miss != nullptr && options_.log_recompiles) {
    Log(absl::StrCat("mica recompiles ", Title(callable_.get()), ", record ",
                     records_.size() + 1, ": ", miss->ToString()));
  }
  PyRef result;
  Refusal refusal;
  {
    std::vector<StatePlace> slots;
    if (!records_.empty()) {
      records_[0]->FindVarying(&options_.capture.varying, &slots);
      records_[0]->FindSlots(&slots);
    }
    attempt_.guards.FindVarying(&options_.capture.varying, &slots);
    AddSlots(slots);
  }
  attempt_ = Attempt();
  if (miss != nullptr && miss->kind == "draw") NoteOutcome();
  options_.capture.looks_on = !options_.fullgraph;
  std::unique_ptr<Record> record = Record::Capture(
      callable_.get(), args, options_.capture, &result, &refusal, &attempt_);
  if (record != nullptr) {
    attempt_ = Attempt();
    AddRecord(std::move(record));
    return result.release();
  }
  ++eager_calls_;
  span.Add("refused", refusal.reason);
  if (!result) return nullptr;  // It raised.
  if (refusal.by_numbers) options_.capture.follow_numbers = false;
  // State of objects that don't stay is no carried state. If they are
  // arguments, what is set in them is known as a change of arguments.
  const bool is_carried = !options_.capture.slots.DropUnreachable();
  const bool is_hopeful =
      is_carried ? AddSlots(attempt_.slots) : TakeApart(args, attempt_.slots);
  NoteRefusal(refusal, is_hopeful);
  if (!is_hopeful) {
    ConsiderPieces(refusal);
    ++num_refusals_;
    last_refusal_ = refusal;
  }
  if (options_.fullgraph && !refusal.transient) {
    return RaiseRefusal(refusal.ToString());
  }
  return result.release();
}

void Compiled::NoteOutcome() {
  ++captures_by_draws_;
  const bool is_worth_it = captures_by_draws_ < kMaxOutcomes ||
                           hits_ >= kHitsOfOutcome * captures_by_draws_;
  if (is_worth_it || options_.fullgraph) return;
  options_.capture.follow_draws = false;
  records_.erase(std::remove_if(records_.begin(), records_.end(),
                                [](const std::shared_ptr<Record>& record) {
                                  return !record->draws().empty();
                                }),
                 records_.end());
  captures_without_hit_ = 0;
}

bool Compiled::KeepBound() {
  std::map<std::string, int> sizes;
  int num_families = 0;
  std::vector<std::shared_ptr<Record>> kept;
  std::string first;
  bool is_further_size = false;
  for (size_t i = 0; i < records_.size(); ++i) {
    const std::string family = records_[i]->inputs().Family(dynamic_);
    if (i == 0) first = family;
    is_further_size |= i > 0 && !family.empty() && family == first;
    const bool is_new = family.empty() || sizes[family] == 0;
    if (is_new ? num_families == options_.max_records
               : sizes[family] == kMaxSizes) {
      continue;
    }
    num_families += is_new ? 1 : 0;
    if (!family.empty()) ++sizes[family];
    kept.push_back(records_[i]);
  }
  const auto num_dropped = static_cast<int64_t>(records_.size() - kept.size());
  dropped_ += num_dropped;
  if (num_dropped > 0 && options_.log_recompiles) {
    Log(absl::StrCat("mica drops the record of ", Title(callable_.get()),
                     " that was hit least recently: ", options_.max_records,
                     " are the bound"));
  }
  records_ = std::move(kept);
  return is_further_size;
}

void Compiled::AddRecord(std::shared_ptr<Record> record) {
  refusals_in_a_row_ = 0;
  goes_by_pieces_ = false;
  if (options_.log_guards) {
    for (const std::string& line : record->GuardsToText()) {
      Log(absl::StrCat("mica guard ", Title(callable_.get()), ": ", line));
    }
  }
  if (options_.log_graph) Log(ToText(record->graph().program()));
  records_.insert(records_.begin(), std::move(record));
  for (const auto& mark : records_[0]->dynamic()) dynamic_.insert(mark);
  if (!KeepBound()) ++captures_without_hit_;
  if (captures_without_hit_ >= kMaxIdleCaptures) {
    given_up_ = absl::StrCat(
        "its last ", kMaxIdleCaptures,
        " captures never fitted a later call; most often because of ",
        misses_.empty()
            ? "arguments that differ each time"
            : std::max_element(misses_.begin(), misses_.end(),
                               [](const auto& a, const auto& b) {
                                 return a.second.count < b.second.count;
                               })
                  ->second.text);
    NoteRefusal({.reason = given_up_,
                 .mend = "pass what varies as a tensor, or outside the "
                         "compiled function"});
  }
}

void Compiled::NoteMiss(PyTypeObject* misplaced, const Miss& miss) {
  Counted& counted = misses_[absl::StrCat(miss.kind, " ", miss.note.path)];
  counted.text = miss.ToString();
  ++counted.count;
  ++misses_by_kind_[miss.kind];
  if (misplaced != nullptr) options_.capture.structural.insert(misplaced);
}

bool Compiled::TakeApart(const CallArgs& args,
                         absl::Span<const StatePlace> places) {
  bool is_new = false;
  for (PyObject* arg : absl::MakeConstSpan(args.args, args.size())) {
    PyObject* dict = InstanceDict(arg);
    if (dict == nullptr) continue;
    const bool is_changed = absl::c_any_of(
        places,
        [&](const StatePlace& place) { return place.holder.get() == dict; });
    if (!is_changed) continue;
    is_new |= options_.capture.structural.insert(Py_TYPE(arg)).second;
  }
  return is_new;
}

bool Compiled::AddSlots(absl::Span<const StatePlace> places) {
  constexpr size_t kMaxSlots = 256;
  Slots& slots = options_.capture.slots;
  bool is_new = false;
  for (const StatePlace& place : places) {
    if (slots.places().size() >= kMaxSlots) break;
    if (!slots.Add(place)) continue;
    is_new = true;
    PyObject* now = place.Find();
    if (now == nullptr) continue;
    std::vector<std::string> paths;
    FindNumbers(now, place.note.path, &paths);
    for (std::string& path : paths) {
      options_.capture.varying.AddInput(std::move(path));
    }
  }
  return is_new;
}

void Compiled::NoteRefusal(const Refusal& refusal, bool is_hopeful) {
  const std::string where = refusal.at.ToString();
  Counted& counted = refusals_[refusal.reason];
  counted.text = where.empty() ? refusal.reason
                               : absl::StrCat(refusal.reason, " (", where, ")");
  counted.mend = refusal.mend;
  ++counted.count;
  if (options_.log_recompiles) {
    Log(absl::StrCat("mica runs ", Title(callable_.get()),
                     " eagerly: ", refusal.ToString()));
  }
  if (is_hopeful) return;
  if (++refusals_in_a_row_ >= kMaxRefusals && given_up_.empty()) {
    given_up_ = refusal.ToString();
  }
}

std::shared_ptr<Record> Compiled::Fitting(const CallArgs& args) const {
  const TorchState now = TorchState::Current();
  for (const auto& record : records_) {
    Record::BoundCall bound;
    if (record->Matches(args, now, &bound, nullptr)) return record;
  }
  return nullptr;
}

bool Compiled::Matches(const CallArgs& args) const {
  Record::BoundCall bound;
  return !records_.empty() &&
         records_[0]->Matches(args, TorchState::Current(), &bound, nullptr);
}

PyObject* Compiled::Describe(const CallArgs& args) const {
  const std::shared_ptr<Record> record = Fitting(args);
  if (record == nullptr) Py_RETURN_NONE;
  return DescribeRecord(*record).release();
}

int Compiled::Traverse(visitproc visit, void* arg) const {
  Py_VISIT(callable_.get());
  Py_VISIT(error_.get());
  Py_VISIT(options_.capture.make_runner.get());
  if (const int stop = attempt_.guards.Traverse(visit, arg)) return stop;
  if (const int stop = options_.capture.slots.Traverse(visit, arg)) {
    return stop;
  }
  if (const int stop = options_.capture.varying.Traverse(visit, arg)) {
    return stop;
  }
  // One in use by a call has holders that the collector doesn't know.
  if (splits_.use_count() == 1) {
    if (const int stop = splits_->Traverse(visit, arg)) return stop;
  }
  for (const auto& record : records_) {
    // One in use by a call has holders that the collector doesn't know.
    if (record.use_count() > 1) continue;
    if (const int stop = record->Traverse(visit, arg)) return stop;
  }
  return 0;
}

void Compiled::Reset() {
  BackwardPass::Allow(true);
  records_.clear();
  misses_.clear();
  misses_by_kind_.clear();
  dynamic_.clear();
  dropped_ = 0;
  refusals_.clear();
  given_up_.clear();
  hits_ = eager_calls_ = captures_ = 0;
  refusals_in_a_row_ = captures_without_hit_ = 0;
  attempt_ = Attempt();
  options_.capture.slots = Slots();
  options_.capture.backward_use = std::make_shared<BackwardUse>();
  splits_.reset();
  last_refusal_ = Refusal();
  goes_by_pieces_ = false;
  split_calls_ = 0;
  num_retries_ = idle_split_calls_ = 0;
  options_.capture.varying = VaryingNumbers();
  options_.capture.follow_numbers = true;
  options_.capture.follow_draws = true;
  captures_by_draws_ = 0;
}

PyObject* Compiled::Report() const {
  PyRef dict = PyRef::Steal(PyDict_New());
  PyRef records = PyRef::Steal(PyList_New(0));
  if (!dict || !records) return nullptr;
  for (const auto& record : records_) {
    PyRef item = ReportRecord(*record);
    if (!item || PyList_Append(records.get(), item.get()) != 0) return nullptr;
  }
  const auto counted = [](const std::map<std::string, Counted>& items) {
    PyRef list = PyRef::Steal(PyList_New(0));
    for (const auto& [key, item] : items) {
      PyRef tuple = PyRef::Steal(Py_BuildValue(
          "(NNL)", Text(item.text).release(), Text(item.mend).release(),
          static_cast<long long>(item.count)));
      if (!list || !tuple || PyList_Append(list.get(), tuple.get()) != 0) {
        return PyRef();
      }
    }
    return list;
  };
  PyRef kinds = PyRef::Steal(PyDict_New());
  for (const auto& [kind, count] : misses_by_kind_) {
    if (!kinds || !Put(kinds.get(), kind.c_str(), Number(count)))
      return nullptr;
  }
  PyObject* d = dict.get();
  const bool ok =
      Put(d, "miss_kinds", kinds) && Put(d, "dropped", Number(dropped_)) &&
      Put(d, "name", Text(Title(callable_.get()))) &&
      Put(d, "records", records) && Put(d, "refusals", counted(refusals_)) &&
      Put(d, "misses", counted(misses_)) &&
      Put(d, "given_up", Text(given_up_)) && Put(d, "hits", Number(hits_)) &&
      Put(d, "captures", Number(captures_)) &&
      Put(d, "eager_calls", Number(eager_calls_)) &&
      Put(d, "split_calls", Number(split_calls_)) &&
      Put(d, "last_graphs",
          Number(splits_ == nullptr ? 0 : splits_->events().graphs)) &&
      (splits_ != nullptr
           ? splits_->Report(d)
           : Put(d, "pieces", Texts({})) && Put(d, "cuts", Texts({})));
  return ok ? dict.release() : nullptr;
}

}  // namespace mica
