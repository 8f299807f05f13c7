// The table behind purity.h, and how it is filled.

#ifndef MICA_PYTHON_CAPTURE_KNOWN_PURITY_TABLE_H_
#define MICA_PYTHON_CAPTURE_KNOWN_PURITY_TABLE_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"
#include "python/capture/known/purity.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// What is known of callables and types, by their identity. One a process;
// under the GIL.
struct Purity {
  absl::node_hash_map<const PyMethodDef*, CallAnnotation> functions;
  // pybind11's functions share no PyMethodDef, nor do slot wrappers; and all
  // that isn't a function in C.
  absl::node_hash_map<const void*, CallAnnotation> objects;
  absl::node_hash_map<const void*, CallAnnotation> users;
  absl::flat_hash_set<PyTypeObject*> pure_types;
  absl::flat_hash_set<PyTypeObject*> moving_types;
  absl::flat_hash_set<PyTypeObject*> immutable_types;
  absl::flat_hash_set<PyTypeObject*> callable_types;
  absl::flat_hash_set<PyTypeObject*> operator_types;
  absl::flat_hash_set<PyTypeObject*> contextual_types;
  absl::flat_hash_set<absl::string_view> tensor_attributes;
  absl::flat_hash_set<absl::string_view> grad_attributes;
  const PyMethodDef* tp_new = nullptr;
  PyObject* tensor = nullptr;  // torch.Tensor.
  PyObject* class_counter = nullptr;
  PyTypeObject* attribute_getter = nullptr;
  PyTypeObject* script_function = nullptr;
};

// Of the process; null before InitPurity(), which fills it.
extern Purity* purity;
// Parts of InitPurity().
void AddPython();
void AddTypes();
void AddTorch();

// What a function or a method in C is defined by; null for all else.
const PyMethodDef* MethodDefOf(PyObject* callable);
// Adds a callable, or what has this path, if that is there, as of a kind.
void AddKind(PyObject* callable, CallKind kind);
void AddKind(absl::string_view path, CallKind kind);

// Calls visit(name, value) for what a module or a type holds.
template <typename F>
void ForEachAttribute(PyObject* owner, F&& visit) {
  PyObject* dict =
      PyModule_Check(owner) ? PyModule_GetDict(owner) : TypeDict(AsType(owner));
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    visit(PyText(key), value);
  }
}

template <typename List>
bool HasWord(const List& list, absl::string_view word) {
  for (const absl::string_view item : list) {
    if (item == word) return true;
  }
  return false;
}

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_KNOWN_PURITY_TABLE_H_
