// How a compiled callable serves a call.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hit_code.h"
#include "framework/trace/recorder.h"
#include "python/capture/serve/compiled.h"
#include "python/capture/serve/stance.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {
namespace {

// Runs that were discarded for one call, after which it is asked whether that
// pays.
constexpr int kManyDiscarded = 2;

}  // namespace

PyObject* Compiled::CallUncaptured(const CallArgs& args) {
  const int64_t start = HitTimes::Now();
  PyObject* result = CallEagerly(args);
  payoff_.NoteEager(HitTimes::Now() - start);
  return result;
}

MICA_HIT_CODE void Compiled::NoteTime(const Start& start, int64_t num_calls) {
  const int64_t invested = Invested::total_ns() - start.invested_ns;
  if (invested > 0) payoff_.NoteInvested(invested);
  if (start.ns == 0) return;
  payoff_.NoteServed(HitTimes::Now() - start.ns - invested, num_calls);
}

MICA_HIT_CODE void Compiled::NoteServed(const Start& start) {
  was_served_ = true;
  NoteTime(start, hits_ - hits_in_account_);
  if (start.ns != 0) hits_in_account_ = hits_;
}

MICA_HIT_CODE void Compiled::NoteHit(const std::shared_ptr<Record>& record) {
  ++hits_;
  captures_without_hit_ = 0;
  const bool is_first = !records_.empty() && records_[0] == record;
  payoff_.NoteHit(/*is_of_last=*/is_first && record->hits <= 1);
  if (is_first) return;
  const auto at = std::find(records_.begin(), records_.end(), record);
  if (at != records_.end()) std::rotate(records_.begin(), at, at + 1);
}

void Compiled::LogInaccuracy(const Record& record) const {
  const std::string& what = record.graph().inaccuracy();
  if (what.empty() || !options_.log_recompiles) return;
  Log(absl::StrCat("mica runs ", title(), " by ATen's kernels: by Mica's, ",
                   what));
}

void Compiled::NoteNotOffloaded(const Record& record) {
  const std::string& error = record.graph().weights().error;
  if (error.empty()) return;
  AddNotice(Notices::Kind::kNotOffloaded, "keeps its weights twice in memory",
            {.reason = error,
             .mend = "mica.options.set(offload_dir=…) says where there is a "
                     "disk"});
  notices_.Issue();
}

MICA_HIT_CODE bool Compiled::IsResting() {
  if (options_.fullgraph || CurrentStance() != Stance::kDefault) return false;
  const bool wants_eager = std::exchange(wants_eager_, false);
  return !payoff_.MayServe() || (wants_eager && payoff_.WantsEager());
}

MICA_HIT_CODE PyObject* Compiled::Call(const CallArgs& args) {
  unserved_.clear();
  // Inside another capture: that one sees what happens here. A tracer is to be
  // told of each call.
  if (options_.disabled || IsCapturing() || IsDisabled() ||
      IsForeignTracerActive()) {
    return CallEagerly(args);
  }
  const TraceSpan span("call", "call ", IsTracing() ? title() : "");
  if (IsResting()) {
    return notices_.Raise() ? nullptr : Told(CallUncaptured(args));
  }
  // Where all goes well, two looks at the clock cost as much as a guard.
  const bool is_timed =
      HitTimes::Wants(hits_) || !was_served_ || records_.size() > 1;
  const Start start = StartNow(is_timed);
  Miss miss;
  PyTypeObject* misplaced = nullptr;
  if (HeldObjects::num_over() != num_over_) misplaced = DropGone(args, &miss);
  PyObject* result = nullptr;
  if (CallServed(args, start, &miss, &misplaced, &result)) return result;
  const bool has_miss = !miss.kind.empty();
  was_served_ = false;
  if (has_miss && is_timed) payoff_.NoteMissed(HitTimes::Now() - start.ns);
  // Arguments have no line; the call has.
  if (has_miss && miss.note.at.line == 0) miss.note.at = CurrentUserLine();
  if (has_miss) NoteMiss(misplaced, miss);
  if (notices_.Raise()) return nullptr;
  return Told(CallUnserved(args, has_miss ? &miss : nullptr));
}

MICA_HIT_CODE bool Compiled::CallServed(const CallArgs& args,
                                        const Start& start, Miss* miss,
                                        PyTypeObject** misplaced,
                                        PyObject** result) {
  if (records_.empty()) return false;
  records_[0]->Prefetch();
  const TorchState now = TorchState::Current();
  int num_discarded = 0;
  for (size_t i = 0; i < records_.size(); ++i) {
    const std::shared_ptr<Record> record = records_[i];
    PyRef given;
    const bool is_measured = HitTimes::Wants(record->hits);
    const int64_t began = is_measured ? HitTimes::Now() : 0;
    const bool was_checked = record->graph().is_checked();
    const bool was_settled = record->graph().is_settled();
    Record::RaisedCall raised;
    // A message is made for the most recent record only.
    switch (
        record->Serve(args, now, &given, i == 0 ? miss : nullptr, &raised)) {
      case Record::Outcome::kHit:
        if (is_measured) record->hit_times.Add(HitTimes::Now() - began);
        NoteHit(record);
        NoteServed(start);
        wants_eager_ = num_discarded >= kManyDiscarded;
        if (!was_checked) LogInaccuracy(*record);
        if (!was_settled) NoteNotOffloaded(*record);
        *result = given.release();
        return true;
      case Record::Outcome::kDiscarded:
        ++num_discarded;
        [[fallthrough]];
      case Record::Outcome::kMiss:
        if (*misplaced == nullptr) *misplaced = record->misplaced_type();
        continue;
      case Record::Outcome::kFailed:
        *result = CallAfterFailure(args, *miss);
        return true;
      case Record::Outcome::kRaised:
        NoteHit(record);
        // What raises once may do so at each call: the next one is watched.
        records_.erase(std::remove(records_.begin(), records_.end(), record),
                       records_.end());
        *result =
            Record::Replay(callable_.get(), args, options_.capture, raised)
                .release();
        return true;
    }
  }
  return false;
}

PyObject* Compiled::CallAfterFailure(const CallArgs& args, const Miss& miss) {
  // Eager raises its own exception, with its own traceback.
  PyObject* result = CallEagerly(args);
  if (result == nullptr) return nullptr;
  if (!miss.kind.empty()) NoteMiss(nullptr, miss);
  if (!options_.capture.is_piece) {
    AddNotice(Notices::Kind::kFailed,
              "runs eagerly where its record's run fails and eager's doesn't",
              {.reason = miss.kind.empty() ? "an older record's run failed"
                                           : miss.note.path,
               .mend = "exact=True has ATen run all, as eager does"});
  }
  return Told(result);
}

}  // namespace mica
