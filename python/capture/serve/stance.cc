#include "python/capture/serve/stance.h"

#include <utility>

namespace mica {
namespace {

Stance current = Stance::kDefault;
thread_local int disabled = 0;
PyObject* checker = nullptr;

constexpr std::pair<absl::string_view, Stance> kWords[] = {
    {"default", Stance::kDefault},
    {"force_eager", Stance::kForceEager},
    {"fail_on_recompile", Stance::kFailOnRecompile},
    {"check", Stance::kCheck}};

}  // namespace

Stance CurrentStance() { return current; }
void SetStance(Stance stance) { current = stance; }

bool ParseStance(absl::string_view word, Stance* stance) {
  for (const auto& [name, value] : kWords) {
    if (word != name) continue;
    *stance = value;
    return true;
  }
  return false;
}

absl::string_view StanceName(Stance stance) {
  for (const auto& [name, value] : kWords) {
    if (stance == value) return name;
  }
  return "";
}

void EnterDisabled() { ++disabled; }
void LeaveDisabled() { --disabled; }
bool IsDisabled() { return disabled > 0; }

void SetChecker(PyRef function) {
  Py_XDECREF(std::exchange(checker, function.release()));
}
PyObject* Checker() { return checker; }

}  // namespace mica
