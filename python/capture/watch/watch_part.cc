#include "python/capture/watch/watch_part.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/interpreter/collector.h"
#include "python/interpreter/interpreter.h"

namespace mica {

void WatchPart::RefuseCall(PyObject* callable) {
  const std::string name = CallableName(callable);
  Refuse(absl::StrCat("calls ", name,
                      ", a function in C that isn't known to be free of "
                      "effects"),
         "call it outside the compiled function");
  if (absl::EndsWith(name, "_threshold") && absl::StartsWith(name, "gc.")) {
    GiveThresholdsBack();
  }
}

GuardNote WatchPart::NoteOf(std::string path) const {
  return {.path = std::move(path), .at = CurrentUserLine()};
}

bool WatchPart::RefusesLaterChange(PyObject* object) {
  if (!is_in_later_pass() || refusal() || object == nullptr) return false;
  const AgeMark::Age age = later_pass_->Of(object);
  if (age == AgeMark::Age::kYounger ||
      (age == AgeMark::Age::kUnknown && !IsOld(object))) {
    return false;
  }
  Refuse(absl::StrCat("changes ", PathOf(object),
                      ", which was there before the backward pass"));
  return true;
}

}  // namespace mica
