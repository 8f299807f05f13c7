// Functions in Python that a backward pass calls, after the run.

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/watch/state_watch.h"
#include "python/interpreter/frame_hook.h"

namespace mica {

void StateWatch::BeginLaterPass() {
  later_ = std::make_unique<LaterPass>();
  std::swap(guards_, later_->guards);
  std::swap(seen_, later_->seen);
  later_->num_asked = NumAsked();
}

StateGuards StateWatch::EndLaterPass(Refusal* refusal) {
  static_cast<void>(TakeAbort());
  std::swap(guards_, later_->guards);
  std::swap(seen_, later_->seen);
  *refusal = std::move(later_->refusal);
  // It is no part of the program's own way.
  refusal->places.clear();
  absl::flat_hash_set<PyObject*> known;
  for (const StateGuards::Tensor& tensor : guards_.tensors()) {
    known.insert(tensor.tensor.get());
  }
  for (const StateGuards::Tensor& tensor : later_->guards.tensors()) {
    if (*refusal || known.contains(tensor.tensor.get())) continue;
    *refusal = {.reason = absl::StrCat("reads ", tensor.note.path,
                                       ", a tensor that its forward pass "
                                       "doesn't use"),
                .mend = "save it for the backward pass",
                .at = tensor.note.at};
  }
  if (!*refusal && NumAsked() != later_->num_asked) {
    *refusal = {.reason = "asks which object an argument is"};
  }
  StateGuards guards = std::move(later_->guards);
  later_ = nullptr;
  return guards;
}

bool StateWatch::TakeAbort() {
  if (later_ == nullptr || !refusal_) return false;
  if (!later_->refusal) later_->refusal = std::move(refusal_);
  refusal_ = Refusal();  // What handles the exception is looked at, too.
  return true;
}

void StateWatch::NoteSavedTensorHooks() {
  if (saved_tensor_hooks_) return;
  saved_tensor_hooks_ = {
      .reason =
          "returns a tensor that requires grad and is made where hooks "
          "see what autograd saves (torch.utils.checkpoint has such)",
      .mend = "compile the whole training step with its backward()",
      .at = CurrentUserLine(),
      .places = {SitesBelow(caller_)}};
}

bool StateWatch::RefusesLaterChange(PyObject* object) {
  if (later_ == nullptr || refusal_ || object == nullptr) return false;
  const AgeMark::Age age = later_->age.Of(object);
  if (age == AgeMark::Age::kYounger ||
      (age == AgeMark::Age::kUnknown && !IsOld(object))) {
    return false;
  }
  Refuse(absl::StrCat("changes ", PathOf(object),
                      ", which was there before the backward pass"));
  return true;
}

bool StateWatch::RefusesLaterUse(PyObject* holder, PyObject* key,
                                 const std::string& path, Use use) {
  if (later_ == nullptr || refusal_) return false;
  if (use != Use::kRead) {
    Refuse(absl::StrCat("sets ", path));
  } else if (IsWritten(holder, key) || counter_index_.contains({holder, key}) ||
             (slots_ != nullptr && slots_->Has(holder, key)) ||
             (varying_ != nullptr && key != nullptr &&
              varying_->HasItem(holder, key))) {
    Refuse(absl::StrCat("reads ", path, ", which varies"),
           "keep it in an attribute of ctx");
  } else {
    return false;
  }
  return true;
}

}  // namespace mica
