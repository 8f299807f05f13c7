#include "python/capture/watch/object_names.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"

namespace mica {

std::string ObjectNames::PathOf(PyObject* object) const {
  if (const auto it = names_.find(object); it != names_.end()) {
    return it->second;
  }
  if (const auto it = paths_.find(object); it != paths_.end()) {
    return it->second;
  }
  return absl::StrCat("<", DescribeValue(object), ">");
}

std::string ObjectNames::ItemPath(const std::string& owner,
                                  PyObject* key) const {
  // A module's "_parameters['weight']" reads better as ".weight".
  for (const char* suffix : {"._parameters", "._buffers", "._modules"}) {
    if (absl::EndsWith(owner, suffix) && PyUnicode_Check(key)) {
      const std::string base(absl::StripSuffix(owner, suffix));
      return base.empty() ? PyText(key) : absl::StrCat(base, ".", PyText(key));
    }
  }
  if (absl::EndsWith(owner, ".__dict__") && PyUnicode_Check(key)) {
    const std::string base(absl::StripSuffix(owner, ".__dict__"));
    return base.empty() ? PyText(key) : absl::StrCat(base, ".", PyText(key));
  }
  const std::string text = IsConstant(key) ? DescribeValue(key) : PathOf(key);
  return absl::StrCat(owner, "[", text, "]");
}

void ObjectNames::AddName(PyObject* object, std::string name) {
  names_.try_emplace(object, std::move(name));
}

void ObjectNames::NameModule(PyObject* object, const std::string& prefix,
                             int depth) {
  constexpr int kMaxModuleDepth = 64;
  if (depth > kMaxModuleDepth || !IsPythonClass(Py_TYPE(object))) return;
  PyObject* dict = InstanceDict(object);
  if (dict == nullptr) return;
  PyObject* groups[] = {PyDict_GetItemString(dict, "_parameters"),
                        PyDict_GetItemString(dict, "_buffers"),
                        PyDict_GetItemString(dict, "_modules")};
  for (PyObject* group : groups) {
    if (group == nullptr || !PyDict_Check(group)) return;
  }
  if (!named_modules_.insert(object).second) return;
  pins_[object] = PyRef::Share(object);
  for (PyObject* group : groups) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(group, &position, &key, &value)) {
      if (value == Py_None) continue;
      const std::string name =
          prefix.empty() ? PyText(key) : absl::StrCat(prefix, ".", PyText(key));
      AddName(value, name);
      if (group == groups[2]) NameModule(value, name, depth + 1);
    }
  }
}

}  // namespace mica
