#include "python/capture/watch/text_watch.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/call_with_names.h"
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

}  // namespace

TextWatch::Arguments::Arguments(absl::Span<PyObject* const> args,
                                PyObject* names, PyObject* map)
    : keyword_names(names), map(map) {
  const size_t num_keywords = NumNames(names);
  const size_t num_positional = args.size() - num_keywords;
  positional = args.subspan(0, num_positional);
  keywords = args.subspan(num_positional);
}

void TextWatch::UseFields(PyObject* text, Arguments* arguments) {
  if (text == nullptr || !PyUnicode_Check(text)) return;
  const PyRef parts = CallStringModule("formatter_parser", text);
  while (parts && !refusal()) {
    const PyRef part = PyRef::Steal(PyIter_Next(parts.get()));
    if (!part) break;
    PyObject* field = PyTuple_GET_ITEM(part.get(), 1);
    if (field == Py_None) continue;
    UseField(field, arguments);
    UseFields(PyTuple_GET_ITEM(part.get(), 2), arguments);
  }
  PyErr_Clear();  // The program will raise.
}

void TextWatch::UseField(PyObject* name, Arguments* arguments) {
  const PyRef split = CallStringModule("formatter_field_name_split", name);
  if (!split) return;
  PyRef object = Find(PyTuple_GET_ITEM(split.get(), 0), arguments);
  while (object && !refusal()) {
    const PyRef step =
        PyRef::Steal(PyIter_Next(PyTuple_GET_ITEM(split.get(), 1)));
    if (!step) break;
    PyObject* word = PyTuple_GET_ITEM(step.get(), 1);
    object = PyTuple_GET_ITEM(step.get(), 0) == Py_True
                 ? Attribute(object.get(), word)
                 : Item(object.get(), word);
  }
  PyErr_Clear();
  if (object) objects_.Format(object.get());
}

PyRef TextWatch::Find(PyObject* name, Arguments* arguments) {
  if (arguments->map != nullptr) return Item(arguments->map, name);
  if (PyLong_Check(name) || PyUnicode_GET_LENGTH(name) == 0) {
    const auto at = PyLong_Check(name)
                        ? static_cast<size_t>(PyLong_AsLong(name))
                        : arguments->next++;
    return at < arguments->positional.size()
               ? PyRef::Share(arguments->positional[at])
               : PyRef();
  }
  for (size_t i = 0; i < arguments->keywords.size(); ++i) {
    PyObject* word =
        PyTuple_GET_ITEM(arguments->keyword_names, static_cast<Py_ssize_t>(i));
    if (PyUnicode_Compare(word, name) == 0) {
      return PyRef::Share(arguments->keywords[i]);
    }
  }
  return PyRef();
}

PyRef TextWatch::Item(PyObject* object, PyObject* key) {
  if (!PyDict_CheckExact(object) && !PyList_CheckExact(object) &&
      !PyTuple_CheckExact(object)) {
    return RefuseText("an item", object);
  }
  items_.Use(object, key);
  return PyRef::Steal(PyObject_GetItem(object, key));
}

PyRef TextWatch::Attribute(PyObject* object, PyObject* name) {
  attributes_.Read(object, name);
  if (refusal()) return PyRef();
  PyObject* held = _PyType_Lookup(Py_TYPE(object), name);
  PyObject* dict = InstanceDict(object);
  PyObject* own =
      dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
  const bool is_plain =
      Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr &&
      (held == nullptr || Py_TYPE(held)->tp_descr_get == nullptr);
  if (!is_plain || (own == nullptr && held == nullptr)) {
    return RefuseText(PyText(name), object);
  }
  return PyRef::Share(own != nullptr ? own : held);
}

PyRef TextWatch::RefuseText(const std::string& what, PyObject* object) {
  Refuse(absl::StrCat("makes text of ", what, " of a ",
                      TypeName(Py_TYPE(object)), " by str.format()"),
         "use an f-string");
  return PyRef();
}

void TextWatch::Make(PyObject* callable, absl::Span<PyObject* const> args,
                     PyObject* keyword_names) {
  const std::string name = CallableName(callable);
  const bool is_map = absl::EndsWith(name, "str.format_map");
  if (args.empty() || !(is_map || absl::EndsWith(name, "str.format"))) {
    for (PyObject* arg : args) objects_.Format(arg);
    return;
  }
  for (PyObject* arg : args) {
    if (arg != nullptr && !IsNumber(arg)) objects_.Touch(arg);
  }
  PyObject* map = is_map && args.size() == 2 ? args[1] : nullptr;
  Arguments arguments(args.subspan(1), is_map ? nullptr : keyword_names, map);
  UseFields(args[0], &arguments);
}

}  // namespace mica
