#include "python/capture/known/asked_states.h"

#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/known/state_getters.h"
#include "python/capture/values/constants.h"

namespace mica {
namespace {

struct Question {
  PyObject* function = nullptr;
  PyObject* argument = nullptr;
  bool is_registry_token = false;
};

std::vector<Question>* MakeQuestions() {
  auto* questions = new std::vector<Question>;
  for (const StateGetter& getter : kStateGetters) {
    if (getter.guard != kAskedAgain) continue;
    PyObject* function = ResolveName(getter.name).release();
    if (function == nullptr || !PyCFunction_Check(function)) continue;
    questions->push_back(
        {.function = function,
         .is_registry_token = getter.name == "_abc.get_cache_token"});
  }
  for (const StateGetter& getter : kStateGettersOfDevices) {
    PyObject* function = ResolveName(getter.name).release();
    if (function == nullptr || !PyCFunction_Check(function)) continue;
    questions->push_back({.function = function});
    for (const char* device : kDevices) {
      questions->push_back({.function = function,
                            .argument = PyUnicode_InternFromString(device)});
    }
  }
  return questions;
}

const std::vector<Question>& Questions() {
  static const auto* questions = MakeQuestions();
  return *questions;
}

bool SameAnswer(const PyRef& was, const PyRef& now) {
  if (!was || !now) return !was && !now;
  return SameValue(was.get(), now.get());
}

}  // namespace

PyRef Ask(PyObject* function, PyObject* argument) {
  return PyRef::Steal(PyObject_Vectorcall(
      function, &argument, argument == nullptr ? 0 : 1, nullptr));
}

AskedStates::AskedStates() {
  for (const Question& question : Questions()) {
    answers_.push_back({.function = question.function,
                        .argument = question.argument,
                        .value = Ask(question.function, question.argument)});
    PyErr_Clear();  // Of a device that autocast doesn't know.
  }
}

const AskedStates::Answer* AskedStates::Find(
    PyObject* function, absl::Span<PyObject* const> args) const {
  const auto* method = reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  for (const Answer& answer : answers_) {
    if (reinterpret_cast<PyCFunctionObject*>(answer.function)->m_ml != method) {
      continue;
    }
    if (args.size() != (answer.argument == nullptr ? 0U : 1U)) continue;
    if (args.empty() || SameValue(args[0], answer.argument)) return &answer;
  }
  return nullptr;
}

const AskedStates::Answer* AskedStates::RegistryToken() const {
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (Questions()[i].is_registry_token) return &answers_[i];
  }
  return nullptr;
}

std::string AskedStates::FindChanged() const {
  for (const Answer& answer : answers_) {
    const PyRef now = Ask(answer.function, answer.argument);
    PyErr_Clear();
    if (!SameAnswer(answer.value, now)) return CallableName(answer.function);
  }
  return "";
}

}  // namespace mica
