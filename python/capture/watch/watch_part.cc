#include "python/capture/watch/watch_part.h"

#include "absl/strings/str_cat.h"
#include "python/interpreter/interpreter.h"

namespace mica {

void WatchPart::RefuseCall(PyObject* callable) {
  Refuse(absl::StrCat("calls ", CallableName(callable),
                      ", a function in C that isn't known to be free of "
                      "effects"),
         "call it outside the compiled function");
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
