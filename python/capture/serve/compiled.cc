#include "python/capture/serve/compiled.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/text/text.h"
#include "framework/trace/recorder.h"
#include "python/capture/serve/splits.h"
#include "python/capture/serve/stance.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/stack_space.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {
namespace {

// Calls in a row by pieces of which none was a graph.
constexpr int kMaxIdleSplitCalls = 8;
// Times that a callable in pieces is tried as a whole again, after calls in
// which no graph broke; and the call after which it is anyway.
constexpr int kMaxRetries = 4;
constexpr int64_t kFirstRetry = 8;

// Records made in a row without a hit, and calls in pieces, of which the user
// is warned. What is made or changed once at the start is over by then.
constexpr int kManyCaptures = 4;
constexpr int kManySplitCalls = 2;
constexpr int kManyIdleSplitCalls = 3;

}  // namespace

std::string Compiled::title() const {
  PyRef name =
      PyRef::Steal(PyObject_GetAttrString(callable_.get(), "__qualname__"));
  if (name) return PyText(name.get());
  PyErr_Clear();
  return Py_TYPE(callable_.get())->tp_name;
}

void Compiled::Log(const std::string& text) {
  PySys_FormatStderr("%s\n", text.c_str());
}

PyObject* Compiled::CallEagerly(const CallArgs& args) {
  ++eager_calls_;
  const TraceSpan span("call", "run eagerly");
  return PyObject_Vectorcall(callable_.get(), args.args,
                             static_cast<size_t>(args.num_positional),
                             args.keyword_names);
}

std::string Compiled::BecauseOfMisses(absl::string_view why) const {
  const auto most =
      absl::c_max_element(misses_, [](const auto& a, const auto& b) {
        return a.second.count < b.second.count;
      });
  return absl::StrCat(why, "; most often because of ",
                      most == misses_.end() ? "arguments that differ each time"
                                            : most->second.text);
}

std::string Compiled::WhyEager() const {
  if (!given_up_.empty() || payoff_.why().empty()) return given_up_;
  return splits_ != nullptr ? payoff_.why() : BecauseOfMisses(payoff_.why());
}

PyObject* Compiled::RaiseRefusal(const std::string& text) const {
  PyErr_SetString(error_ ? error_.get() : PyExc_RuntimeError,
                  absl::StrCat(title(), " can't be one graph: ", text).c_str());
  return nullptr;
}

std::string Compiled::WhyUnserved(const Miss* miss) const {
  if (miss != nullptr) return miss->ToString();
  return given_up_.empty() ? "it has no record" : given_up_;
}

PyObject* Compiled::RaiseUnserved(const std::string& why) const {
  PyErr_SetString(
      error_ ? error_.get() : PyExc_RuntimeError,
      absl::StrCat(title(),
                   " isn't served, and the stance is fail_on_recompile: ", why)
          .c_str());
  return nullptr;
}

PyObject* Compiled::CallUnserved(const CallArgs& args, const Miss* miss) {
  // A program that calls itself for good ends as it does eagerly.
  if (IsStackLow()) return CallEagerly(args);
  const bool may_record = CurrentStance() != Stance::kFailOnRecompile;
  if (splits_ != nullptr &&
      (goes_by_pieces_ || !given_up_.empty() || !may_record)) {
    return CallInPieces(args);
  }
  if (!may_record) {
    const std::string why = WhyUnserved(miss);
    if (!options_.capture.is_piece) return RaiseUnserved(why);
    // The function that it is a piece of runs to its end first.
    if (given_up_.empty()) unserved_ = why;
    return CallEagerly(args);
  }
  if (!given_up_.empty()) {
    if (options_.fullgraph) return RaiseRefusal(given_up_);
    return CallEagerly(args);
  }
  // Sizes that are marked are expected to be many.
  if (!options_.fullgraph && !has_marks_ &&
      !payoff_.MayCapture(captures_without_hit_,
                          miss == nullptr ? "" : miss->Difference())) {
    return CallUncaptured(args);
  }
  std::optional<Invested> invested;
  if (options_.capture.is_piece) invested.emplace();
  return CaptureCall(args, miss);
}

PyObject* Compiled::CallInPieces(const CallArgs& args) {
  // A tracer wants to see the function itself.
  if (IsForeignTracerActive()) return CallEagerly(args);
  if (payoff_.WantsEager() && CurrentStance() == Stance::kDefault) {
    return CallUncaptured(args);
  }
  const Start start = StartNow(/*is_timed=*/true);
  const std::shared_ptr<Splits> splits = splits_;
  PyRef result = PyRef::Steal(splits->Call(callable_.get(), args));
  if (const PyRef error = splits->TakeCheckError()) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())),
                    error.get());
    return nullptr;
  }
  if (!result) return nullptr;
  ++split_calls_;
  NoteTime(start, 1);
  const SplitEvents& events = splits->events();
  if (!events.unserved.empty()) return RaiseUnserved(events.unserved);
  if (events.graphs == 0) {
    ++eager_calls_;
    // With nothing to compute, nothing may be in the way next time.
    if (split_calls_ == 1 && events.eager == 0) goes_by_pieces_ = false;
    if (++idle_split_calls_ >= kMaxIdleSplitCalls && splits == splits_) {
      splits_.reset();
      if (given_up_.empty()) GiveUp(last_refusal_.ToString(), last_refusal_);
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

void Compiled::GiveUp(const std::string& why, const Refusal& refusal) {
  given_up_ = why;
  ending_ = {.reason = refusal.reason, .mend = refusal.mend, .at = refusal.at};
}

PyObject* Compiled::Told(PyObject* result) {
  // Of a piece, the function that it is a part of tells.
  if (result == nullptr || options_.capture.is_piece) return result;
  AddNotices();
  notices_.Issue();
  return result;
}

void Compiled::AddNotice(Notices::Kind kind, absl::string_view what,
                         const Refusal& why) {
  std::string text = absl::StrCat(title(), " ", what, ": ", why.reason);
  if (why.at.line != 0) absl::StrAppend(&text, " (", why.at.ToString(), ")");
  if (!why.mend.empty()) absl::StrAppend(&text, "; ", why.mend);
  const UserLine at = why.at.line != 0 ? why.at : CurrentUserLine();
  if (!notices_.Add(kind, {.text = text, .at = at})) return;
  if (options_.log_recompiles) Log(absl::StrCat("mica warns: ", text));
}

std::string Compiled::MendOfMiss() const {
  if (last_miss_.kind != "input") return kMendVarying;
  if (!why_fixed_.empty()) {
    return absl::StrCat("its sizes are fixed: ", why_fixed_);
  }
  return options_.capture.vary_sizes
             ? "pass what varies as a tensor"
             : "pass what varies as a tensor; mica.mark_dynamic() says that a "
               "size will vary";
}

void Compiled::AddNotices() {
  if (captures_without_hit_ >= kManyCaptures) {
    AddNotice(Notices::Kind::kNotServed,
              absl::StrCat("was recorded anew at each of its last ",
                           captures_without_hit_, " calls"),
              {.reason = last_miss_.kind.empty() ? "no two calls were alike"
                                                 : last_miss_.Difference(),
               .mend = MendOfMiss(),
               .at = last_miss_.note.at});
  }
  if (options_.fullgraph) return;  // That raises.
  if (notices_.IsTold(Notices::Kind::kNotWhole)) return;
  if (given_up_.empty() && !payoff_.why().empty()) {
    AddNotice(
        Notices::Kind::kNotWhole, "runs eagerly for now",
        {.reason = WhyEager(), .mend = MendOfMiss(), .at = last_miss_.note.at});
  }
  if (splits_ == nullptr) {
    if (given_up_.empty()) return;
    return AddNotice(Notices::Kind::kNotWhole, "runs eagerly from now on",
                     ending_);
  }
  const SplitEvents& events = splits_->events();
  if (idle_split_calls_ >= kManyIdleSplitCalls) {
    AddNotice(Notices::Kind::kNotWhole,
              "runs eagerly, no part of it is a graph", last_refusal_);
  } else if (split_calls_ >= kManySplitCalls && events.graphs > 0 &&
             events.steps + events.eager > 0) {
    AddNotice(Notices::Kind::kNotWhole,
              "runs in pieces, with eager code between them", last_refusal_);
  }
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

int Compiled::Traverse(visitproc visit, void* arg) const {
  Py_VISIT(callable_.get());
  Py_VISIT(error_.get());
  Py_VISIT(options_.capture.make_runner.get());
  if (const int stop = attempt_.guards.Traverse(visit, arg)) return stop;
  for (const StatePlace& place : attempt_.slots) {
    Py_VISIT(place.holder.held());
    Py_VISIT(place.key.get());
  }
  for (const FrameSites& place : last_refusal_.places) {
    for (const FrameSite& site : place) {
      Py_VISIT(site.code.get());
      Py_VISIT(site.module.get());
    }
  }
  if (const int stop = options_.capture.slots.Traverse(visit, arg)) {
    return stop;
  }
  if (const int stop = options_.capture.promoted.Traverse(visit, arg)) {
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
  has_marks_ = false;
  dropped_ = 0;
  drops_.clear();
  refusals_.clear();
  given_up_.clear();
  ending_ = Refusal();
  notices_ = Notices();
  last_miss_ = Miss();
  hits_ = eager_calls_ = captures_ = 0;
  refusals_in_a_row_ = captures_without_hit_ = 0;
  payoff_ = Payoff(options_.capture_budget);
  hits_in_account_ = 0;
  attempt_ = Attempt();
  options_.capture.slots = Slots();
  options_.capture.backward_use = std::make_shared<BackwardUse>();
  splits_.reset();
  last_refusal_ = Refusal();
  goes_by_pieces_ = false;
  split_calls_ = 0;
  num_retries_ = idle_split_calls_ = 0;
  options_.capture.promoted = PromotedScalars();
  options_.capture.follow_numbers = true;
  options_.capture.follow_draws = true;
  options_.capture.keep_data_sizes = true;
  captures_by_draws_ = captures_by_data_sizes_ = 0;
  captures_by_items_.clear();
  joins_ways_ = true;
}

}  // namespace mica
