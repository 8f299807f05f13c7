// What a compiled callable makes of its calls: records, and what it learns of
// those that it can't record.

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/text/text.h"
#include "framework/trace/recorder.h"
#include "python/capture/serve/compiled.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"
#include "python/process/progress.h"

namespace mica {
namespace {

// Refused runs in a row after which a callable isn't tried any more.
constexpr int kMaxRefusals = 4;
// Captures for what was drawn after which that is asked: has each of them been
// worth so many hits?
constexpr int64_t kMaxOutcomes = 12;
constexpr int64_t kHitsOfOutcome = 16;
// The same for sizes that data decide.
constexpr int64_t kMaxDataSizes = 4;
constexpr int64_t kMaxSizeReads = 8;
constexpr int64_t kHitsOfDataSize = 8;
// The same for items of a list or deque.
constexpr int64_t kMaxItems = 4;
constexpr int64_t kHitsOfItem = 8;
// Earlier runs that a run at another size is compared with.
constexpr size_t kMaxAlike = 4;

}  // namespace

void Compiled::Promote(const CallArgs& args) {
  std::vector<StatePlace> slots;
  if (!records_.empty()) {
    records_[0]->CompareNumbers(args);
    records_[0]->FindPromoted(&options_.capture.promoted, &slots);
    records_[0]->FindSlots(&slots);
  }
  attempt_.guards.FindPromoted(&options_.capture.promoted, &slots);
  AddSlots(slots);
}

PyObject* Compiled::CaptureCall(const CallArgs& args, const Miss* miss) {
  ++captures_;
  const int64_t start = HitTimes::Now();
  const Progress progress(absl::StrCat("capture of ", title()));
  TraceSpan span("capture", "capture ", IsTracing() ? title() : "");
  if (miss != nullptr) LogMiss(*miss);
  PyRef result;
  Refusal refusal;
  Promote(args);
  attempt_ = Attempt();
  const bool had_slots_of_gone = DropUnused();
  if (miss != nullptr) NoteOutcomeOf(*miss);
  options_.capture.looks_on = !options_.fullgraph;
  const std::vector<std::shared_ptr<Record>> alike = FindButForSizes(args);
  const std::vector<std::shared_ptr<Record>> forked = FindButForWays(args);
  options_.capture.follow_sizes =
      !alike.empty() || options_.capture.promoted.has_sizes();
  std::unique_ptr<Record> record = Record::Capture(
      callable_.get(), args, options_.capture, &result, &refusal, &attempt_);
  options_.capture.promoted.NoteExact(std::exchange(attempt_.exact, {}));
  if (record != nullptr) {
    if (attempt_.adds_results) KeepWhole(record->inputs().plain_types());
    attempt_ = Attempt();
    payoff_.NoteCapture(HitTimes::Now() - start);
    AddRecord(std::move(record));
    VarySizes(alike);
    JoinWays(forked);
    return result.release();
  }
  payoff_.NoteCapture(HitTimes::Now() - start);
  attempt_.guards.LetGo();
  ++eager_calls_;
  span.Add("refused", refusal.reason);
  if (!result) return nullptr;  // It raised.
  if (refusal.by_numbers) options_.capture.follow_numbers = false;
  // State of objects that don't stay is no carried state. If they are
  // arguments, what is set in them is known as a change of arguments.
  const bool is_carried =
      !had_slots_of_gone && !options_.capture.slots.DropUnreachable();
  const bool is_taken_apart =
      TakeApart(args, is_carried ? absl::Span<const StatePlace>()
                                 : absl::MakeConstSpan(attempt_.slots));
  const bool is_hopeful =
      (is_carried && AddSlots(attempt_.slots)) || is_taken_apart;
  attempt_.changed.clear();
  attempt_.slots.clear();
  NoteRefusal(refusal, is_hopeful);
  if (!is_hopeful) {
    ConsiderPieces(refusal);
    ++num_refusals_;
    last_refusal_ = refusal;
    if (!options_.capture.is_piece) last_refusal_.places.clear();
  }
  if (options_.fullgraph && !refusal.transient) {
    return RaiseRefusal(refusal.ToString());
  }
  return result.release();
}

void Compiled::KeepWhole(const absl::flat_hash_set<PyTypeObject*>& types) {
  options_.capture.apart.whole.insert(types.begin(), types.end());
}

std::vector<std::shared_ptr<Record>> Compiled::FindButForSizes(
    const CallArgs& args) const {
  std::vector<std::shared_ptr<Record>> found;
  if (!options_.capture.vary_sizes || records_.empty()) return found;
  const TorchState now = TorchState::Current();
  const auto see = [&](const std::shared_ptr<Record>& record) {
    if (record->FitsButForSizes(args, now, options_.capture.promoted)) {
      found.push_back(record);
    }
  };
  for (const std::shared_ptr<Record>& record : records_) {
    see(record);
    for (const auto& member : record->members()) see(member);
  }
  return found;
}

void Compiled::VarySizes(absl::Span<const std::shared_ptr<Record>> alike) {
  why_fixed_.clear();
  for (const std::shared_ptr<Record>& other :
       alike.subspan(0, std::min(alike.size(), kMaxAlike))) {
    const absl::Status status = records_[0]->VarySizes(*other);
    if (status.ok()) {
      KeepWaysApart();
      // All that it served the new one does.
      records_.erase(std::remove(records_.begin(), records_.end(), other),
                     records_.end());
      captures_without_hit_ = 0;
      payoff_.NoteHit(/*is_of_last=*/true);  // It will serve calls of any size.
      why_fixed_.clear();
      return;
    }
    if (why_fixed_.empty()) why_fixed_ = std::string(status.message());
    records_[0]->inputs().FindOtherSizes(other->inputs(), &dynamic_);
  }
  if (!why_fixed_.empty() && records_[0]->graph().has_data_sizes()) {
    NoteDataSize(/*is_of_result=*/true);
  }
  if (!why_fixed_.empty() && options_.log_recompiles) {
    Log(absl::StrCat("mica keeps sizes of ", title(), " fixed: ", why_fixed_));
  }
}

std::vector<std::shared_ptr<Record>> Compiled::FindButForWays(
    const CallArgs& args) const {
  std::vector<std::shared_ptr<Record>> found;
  if (!joins_ways_ || records_.empty()) return found;
  const TorchState now = TorchState::Current();
  for (const std::shared_ptr<Record>& record : records_) {
    if (record->FitsButForWays(args, now)) found.push_back(record);
  }
  return found;
}

void Compiled::KeepWaysApart() {
  joins_ways_ = false;
  std::vector<std::shared_ptr<Record>> all;
  for (const std::shared_ptr<Record>& record : records_) {
    all.push_back(record);
    for (std::shared_ptr<Record>& member : record->LeaveWays()) {
      all.push_back(std::move(member));
    }
  }
  records_ = std::move(all);
}

void Compiled::JoinWays(absl::Span<const std::shared_ptr<Record>> forked) {
  for (const std::shared_ptr<Record>& other : forked) {
    const absl::Status status = records_[0]->JoinWays(other);
    if (status.ok()) {
      records_.erase(std::remove(records_.begin(), records_.end(), other),
                     records_.end());
      captures_without_hit_ = 0;
      payoff_.NoteHit(/*is_of_last=*/true);  // It will serve calls of any way.
      return;
    }
    if (options_.log_recompiles) {
      Log(absl::StrCat("mica keeps ways of ", title(),
                       " apart: ", status.message()));
    }
  }
}

bool Compiled::AreWorthIt(int64_t captures, int64_t most,
                          int64_t hits_of_each) const {
  return captures < most || hits_ >= hits_of_each * captures ||
         options_.fullgraph;
}

void Compiled::LogMiss(const Miss& miss) const {
  if (!options_.log_recompiles) return;
  Log(absl::StrCat("mica recompiles ", title(), ", record ",
                   records_.size() + 1, ": ", miss.ToString()));
}

void Compiled::NoteOutcomeOf(const Miss& miss) {
  if (miss.kind == "draw") NoteOutcome();
  const bool is_for_size = !records_.empty() && records_[0]->IsForSize(miss);
  if (is_for_size) NoteDataSize(miss.kind == "data size");
  if (miss.kind == "input") NoteItem(miss.note.path);
}

void Compiled::NoteOutcome() {
  if (AreWorthIt(++captures_by_draws_, kMaxOutcomes, kHitsOfOutcome)) return;
  options_.capture.follow_draws = false;
  DropRecordsThat([](const Record& record) { return !record.draws().empty(); });
}

void Compiled::NoteItem(absl::string_view path) {
  const StatePlace* place = options_.capture.slots.FindSequence(path);
  if (place == nullptr || AreWorthIt(++captures_by_items_[place->note.path],
                                     kMaxItems, kHitsOfItem)) {
    return;
  }
  const PyRef holder = PyRef::Share(place->holder.get());
  options_.capture.slots.Bar(holder.get(), StatePlace::Itself());
  DropRecordsThat([&](const Record& record) {
    return record.slots().Has(holder.get(), StatePlace::Itself());
  });
}

void Compiled::NoteDataSize(bool is_of_result) {
  if (AreWorthIt(++captures_by_data_sizes_,
                 is_of_result ? kMaxDataSizes : kMaxSizeReads,
                 kHitsOfDataSize)) {
    return;
  }
  options_.capture.keep_data_sizes = false;
  DropRecordsThat([](const Record& record) { return record.has_data_sizes(); });
}

void Compiled::DropRecordsThat(absl::FunctionRef<bool(const Record&)> is_one) {
  records_.erase(std::remove_if(records_.begin(), records_.end(),
                                [&](const std::shared_ptr<Record>& record) {
                                  return is_one(*record);
                                }),
                 records_.end());
  captures_without_hit_ = 0;
}

void Compiled::AddRecord(std::shared_ptr<Record> record) {
  refusals_in_a_row_ = 0;
  goes_by_pieces_ = false;
  if (options_.log_guards) {
    for (const std::string& line : record->GuardsToText()) {
      Log(absl::StrCat("mica guard ", title(), ": ", line));
    }
  }
  if (options_.log_graph) Log(ToText(record->graph().program()));
  records_.insert(records_.begin(), std::move(record));
  records_[0]->NoteShared(CountOwn());
  for (const auto& mark : records_[0]->dynamic()) {
    dynamic_.insert(mark);
    has_marks_ = true;
  }
  if (!KeepBound()) ++captures_without_hit_;
  if (options_.fullgraph && captures_without_hit_ >= Payoff::kMaxIdle) {
    const std::string why = BecauseOfMisses(Payoff::WhyIdle(Payoff::kMaxIdle));
    const Refusal refusal = {
        .reason = why, .mend = kMendVarying, .at = last_miss_.note.at};
    GiveUp(why, refusal);
    NoteRefusal(refusal);
  }
}

void Compiled::NoteMiss(PyTypeObject* misplaced, const Miss& miss) {
  last_miss_ = miss;
  Counted& counted = misses_[absl::StrCat(miss.kind, " ", miss.note.path)];
  counted.text = miss.ToString();
  ++counted.count;
  ++misses_by_kind_[miss.kind];
  if (misplaced != nullptr) options_.capture.apart.structural.insert(misplaced);
}

bool Compiled::TakeApart(const CallArgs& args,
                         absl::Span<const StatePlace> places) {
  bool is_new = false;
  for (PyObject* arg : absl::MakeConstSpan(args.args, args.size())) {
    PyObject* dict = InstanceDict(arg);
    const bool is_changed =
        absl::c_any_of(
            attempt_.changed,
            [&](const PyRef& container) { return container.get() == arg; }) ||
        absl::c_any_of(places, [&](const StatePlace& place) {
          return dict != nullptr && place.holder.get() == dict;
        });
    if (!is_changed) continue;
    is_new |= options_.capture.apart.structural.insert(Py_TYPE(arg)).second;
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
      options_.capture.promoted.AddInput(std::move(path));
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
    Log(absl::StrCat("mica runs ", title(), " eagerly: ", refusal.ToString()));
  }
  if (is_hopeful) return;
  if (++refusals_in_a_row_ >= kMaxRefusals && given_up_.empty()) {
    GiveUp(refusal.ToString(), refusal);
  }
}

}  // namespace mica
