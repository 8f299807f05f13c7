// Tensors whose numbers leave torch: tolist(), numpy() and their like.

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/state_watch.h"

namespace mica {

bool StateWatch::ReadNumbers(PyObject* tensor) {
  constexpr int64_t kMaxNumbers = 64;
  if (!IsTensor(tensor) || !IsPlainTensor(tensor) ||
      NumElements(tensor) > kMaxNumbers) {
    return false;
  }
  Touch(tensor);
  // The recorder sees these as the program's own.
  PyRef plain = PyRef::Steal(PyObject_CallMethod(tensor, "detach", nullptr));
  if (plain) {
    plain = PyRef::Steal(PyObject_CallMethod(plain.get(), "reshape", "i", -1));
  }
  for (Py_ssize_t i = 0; plain && i < NumElements(tensor); ++i) {
    PyRef item =
        PyRef::Steal(PyObject_CallMethod(plain.get(), "select", "in", 0, i));
    if (item) {
      item = PyRef::Steal(PyObject_CallMethod(item.get(), "item", nullptr));
    }
    if (!item) plain = PyRef();
  }
  if (plain) return true;
  PyErr_Clear();
  return false;
}

void StateWatch::ReadData(PyObject* reader, absl::Span<PyObject* const> args) {
  const std::string name = CallableName(reader);
  const bool is_numpy = absl::EndsWith(name, ".numpy");
  if ((is_numpy || absl::EndsWith(name, ".tolist")) && args.size() == 1 &&
      ReadNumbers(args[0])) {
    if (is_numpy) Expose(args[0]);
    return;
  }
  Refuse(absl::StrCat("calls ", name,
                      ", which reads a tensor's data on the "
                      "host"),
         "keep the computation in tensors, or use item()");
}

void StateWatch::Expose(PyObject* tensor) {
  const int64_t version = VersionOf(tensor);
  if (version < 0) {
    return Refuse("shares an inference tensor's memory with numpy");
  }
  exposed_.push_back({.tensor = PyRef::Share(tensor),
                      .version = version,
                      .bytes = ElementBytes(tensor)});
}

void StateWatch::CheckSharedMemory() {
  if (const std::string changed = ChangedExposed(); !changed.empty()) {
    return Refuse(
        absl::StrCat("changes ", changed, ", whose memory numpy shares"),
        "copy the array");
  }
  const std::string changed = guards_.ChangedArray();
  if (changed.empty()) return;
  Refuse(absl::StrCat("changes state: ", changed),
         "keep such changes out of the compiled function");
  refusal_.transient = true;
}

std::string StateWatch::ChangedExposed() const {
  for (const Exposed& exposed : exposed_) {
    PyObject* tensor = exposed.tensor.get();
    if (VersionOf(tensor) != exposed.version ||
        ElementBytes(tensor) != exposed.bytes) {
      return PathOf(tensor);
    }
  }
  return "";
}

}  // namespace mica
