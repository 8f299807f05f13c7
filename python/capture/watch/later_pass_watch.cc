#include "python/capture/watch/later_pass_watch.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace mica {

size_t LaterPassWatch::NumAsked() const {
  return ages_.state_inputs().size() + identity_.identified().size() +
         identity_.compared_constants().size();
}

void LaterPassWatch::Swap() {
  std::swap(guards_, noted_);
  ages_.SwapSeen(&seen_);
}

void LaterPassWatch::Begin() {
  ground_.later_pass = std::make_unique<AgeMark>();
  noted_ = StateGuards();
  seen_.clear();
  first_ = Refusal();
  Swap();
  num_asked_ = NumAsked();
}

StateGuards LaterPassWatch::End(Refusal* refusal) {
  static_cast<void>(TakeAbort());
  Swap();
  ground_.later_pass = nullptr;
  *refusal = std::move(first_);
  // It is no part of the program's own way.
  refusal->places.clear();
  absl::flat_hash_set<PyObject*> known;
  for (const StateGuards::Tensor& tensor : guards_.tensors()) {
    known.insert(tensor.tensor.get());
  }
  for (const StateGuards::Tensor& tensor : noted_.tensors()) {
    if (*refusal || known.contains(tensor.tensor.get())) continue;
    *refusal = {.reason = absl::StrCat("reads ", tensor.note.path,
                                       ", a tensor that its forward pass "
                                       "doesn't use"),
                .mend = "save it for the backward pass",
                .at = tensor.note.at};
  }
  if (!*refusal && NumAsked() != num_asked_) {
    *refusal = {.reason = "asks which object an argument is"};
  }
  return std::move(noted_);
}

bool LaterPassWatch::TakeAbort() {
  if (!is_in_later_pass() || !refusal()) return false;
  if (!first_) first_ = std::move(refusal());
  refusal() = Refusal();  // What handles the exception is looked at, too.
  return true;
}

}  // namespace mica
