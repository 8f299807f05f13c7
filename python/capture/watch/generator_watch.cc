#include "python/capture/watch/generator_watch.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

bool IsOfCpu(PyObject* device) {
  const PyRef text = PyRef::Steal(PyObject_Str(device));
  if (!text) PyErr_Clear();
  return text && PyUnicode_Check(text.get()) && PyText(text.get()) == "cpu";
}

}  // namespace

void GeneratorWatch::Call(PyObject* callable, absl::Span<PyObject* const> args,
                          PyObject* keyword_names) {
  const bool is_function = PyFunction_Check(callable);
  const std::string name = CallableName(callable);
  const std::string word =
      is_function ? "torch.manual_seed" : name.substr(name.rfind('.') + 1);
  const bool takes_value = word != "get_state" && word != "initial_seed";
  const size_t count = (is_function ? 0 : 1) + (takes_value ? 1 : 0);
  // A pass back that draws anew each time isn't one that is made again.
  const bool has_keywords =
      keyword_names != nullptr && PyTuple_GET_SIZE(keyword_names) > 0;
  if (has_keywords || is_in_later_pass() || args.size() != count) {
    return RefuseCall(callable);
  }
  if (!is_function && !IsTorchGenerator(args[0])) return RefuseCall(callable);
  if (takes_value && !Pass(word, args.back())) {
    return RefuseCall(callable);
  }
  if (!is_function) objects_.Touch(args[0]);
  step_.in_place_of_call =
      GeneratorCall(word, PyCFunction_Check(callable) ? args[0] : nullptr);
  if (step_.in_place_of_call) {
    step_.annotated =
        nullptr;  // What takes its place is followed as others are.
    return;
  }
  PyErr_Clear();
  RefuseCall(callable);
}

bool GeneratorWatch::Pass(absl::string_view word, PyObject* value) {
  if (word == "set_state") {
    if (!IsPlainTensor(value)) return false;
    objects_.Touch(value, kDeep);
    return true;
  }
  if (!PyLong_CheckExact(value)) return false;
  if (values_.Find(value) >= 0) {
    numbers_.Pass(value);
    return true;
  }
  // Larger ones, which nobody follows, are rarely the same twice.
  constexpr int64_t kMaxSeed = int64_t{1} << 53;
  int overflow = 0;
  const int64_t seed = PyLong_AsLongLongAndOverflow(value, &overflow);
  objects_.Touch(value, kDeep);
  return overflow == 0 && seed < kMaxSeed;
}

void GeneratorWatch::Make(PyTypeObject* type,
                          absl::Span<PyObject* const> args) {
  const bool is_plain = args.empty() || (args.size() == 1 && IsOfCpu(args[0]));
  if (is_plain) step_.in_place_of_call = GeneratorCall("Generator", nullptr);
  PyErr_Clear();
  if (!step_.in_place_of_call) {
    return RefuseCall(reinterpret_cast<PyObject*>(type));
  }
  step_.makes_new = true;
}

}  // namespace mica
