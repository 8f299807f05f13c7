#include "python/capture/watch/texts.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// A function of the module `_string`, of one argument. Null with no error set.
PyRef CallStringModule(const char* name, PyObject* argument) {
  const PyRef module = PyRef::Steal(PyImport_ImportModule("_string"));
  PyRef result;
  if (module) {
    result =
        PyRef::Steal(PyObject_CallMethod(module.get(), name, "O", argument));
  }
  if (!result) PyErr_Clear();
  return result;
}

// One call of str.format() or str.format_map().
class Formatting {
 public:
  Formatting(absl::Span<PyObject* const> args, PyObject* keyword_names,
             PyObject* map, StateWatch& watch)
      : keyword_names_(keyword_names), map_(map), watch_(watch) {
    const size_t num_keywords =
        keyword_names == nullptr
            ? 0
            : static_cast<size_t>(PyTuple_GET_SIZE(keyword_names));
    const size_t num_positional = args.size() - num_keywords;
    positional_ = args.subspan(0, num_positional);
    keywords_ = args.subspan(num_positional);
  }

  // "{0.a[b]:{width}}", and again for what says how it is shown.
  void UseFields(PyObject* text) {
    if (text == nullptr || !PyUnicode_Check(text)) return;
    const PyRef parts = CallStringModule("formatter_parser", text);
    while (parts && !watch_.is_stopped()) {
      const PyRef part = PyRef::Steal(PyIter_Next(parts.get()));
      if (!part) break;
      PyObject* field = PyTuple_GET_ITEM(part.get(), 1);
      if (field == Py_None) continue;
      UseField(field);
      UseFields(PyTuple_GET_ITEM(part.get(), 2));
    }
    PyErr_Clear();  // The program will raise.
  }

 private:
  void UseField(PyObject* name) {
    const PyRef split = CallStringModule("formatter_field_name_split", name);
    if (!split) return;
    PyRef object = Argument(PyTuple_GET_ITEM(split.get(), 0));
    while (object && !watch_.is_stopped()) {
      const PyRef step =
          PyRef::Steal(PyIter_Next(PyTuple_GET_ITEM(split.get(), 1)));
      if (!step) break;
      PyObject* word = PyTuple_GET_ITEM(step.get(), 1);
      object = PyTuple_GET_ITEM(step.get(), 0) == Py_True
                   ? Attribute(object.get(), word)
                   : Item(object.get(), word);
    }
    PyErr_Clear();
    if (object) watch_.Format(object.get());
  }

  // Null where there is none: the program will raise.
  PyRef Argument(PyObject* name) {
    if (map_ != nullptr) return Item(map_, name);
    if (PyLong_Check(name) || PyUnicode_GET_LENGTH(name) == 0) {
      const auto at = PyLong_Check(name)
                          ? static_cast<size_t>(PyLong_AsLong(name))
                          : next_++;
      return at < positional_.size() ? PyRef::Share(positional_[at]) : PyRef();
    }
    for (size_t i = 0; i < keywords_.size(); ++i) {
      PyObject* word =
          PyTuple_GET_ITEM(keyword_names_, static_cast<Py_ssize_t>(i));
      if (PyUnicode_Compare(word, name) == 0) return PyRef::Share(keywords_[i]);
    }
    return PyRef();
  }

  PyRef Item(PyObject* object, PyObject* key) {
    if (!PyDict_CheckExact(object) && !PyList_CheckExact(object) &&
        !PyTuple_CheckExact(object)) {
      return Refuse("an item", object);
    }
    watch_.UseItem(object, key);
    return PyRef::Steal(PyObject_GetItem(object, key));
  }

  PyRef Attribute(PyObject* object, PyObject* name) {
    watch_.ReadAttribute(object, name);
    if (watch_.is_stopped()) return PyRef();
    PyObject* held = _PyType_Lookup(Py_TYPE(object), name);
    PyObject* dict = InstanceDict(object);
    PyObject* own =
        dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
    const bool is_plain =
        Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr &&
        (held == nullptr || Py_TYPE(held)->tp_descr_get == nullptr);
    if (!is_plain || (own == nullptr && held == nullptr)) {
      return Refuse(PyText(name), object);
    }
    return PyRef::Share(own != nullptr ? own : held);
  }

  PyRef Refuse(const std::string& what, PyObject* object) {
    watch_.Refuse(absl::StrCat("makes text of ", what, " of a ",
                               TypeName(Py_TYPE(object)), " by str.format()"),
                  "use an f-string");
    return PyRef();
  }

  absl::Span<PyObject* const> positional_;
  absl::Span<PyObject* const> keywords_;
  PyObject* keyword_names_;
  PyObject* map_;
  StateWatch& watch_;
  size_t next_ = 0;  // Of "{}".
};

}  // namespace

void MakeText(PyObject* callable, absl::Span<PyObject* const> args,
              PyObject* keyword_names, StateWatch& watch) {
  const std::string name = CallableName(callable);
  const bool is_map = absl::EndsWith(name, "str.format_map");
  if (args.empty() || !(is_map || absl::EndsWith(name, "str.format"))) {
    for (PyObject* arg : args) watch.Format(arg);
    return;
  }
  for (PyObject* arg : args) {
    if (arg != nullptr && !IsNumber(arg)) watch.Touch(arg);
  }
  PyObject* map = is_map && args.size() == 2 ? args[1] : nullptr;
  Formatting formatting(args.subspan(1), is_map ? nullptr : keyword_names, map,
                        watch);
  formatting.UseFields(args[0]);
}

}  // namespace mica
