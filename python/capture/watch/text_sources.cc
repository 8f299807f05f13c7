#include "python/capture/watch/text_sources.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/call_with_names.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// Longer chains of texts are no recipe.
constexpr int kMaxTextDepth = 16;

PyObject* Function(const char* path) { return ResolveName(path).release(); }

// The same text in an object that is in no other place; null if there is none.
PyRef NewText(PyObject* text) {
  const Py_ssize_t length = PyUnicode_GET_LENGTH(text);
  if (length == 0) return {};  // There is but one.
  PyRef made =
      PyRef::Steal(PyUnicode_New(length, PyUnicode_MAX_CHAR_VALUE(text)));
  if (!made ||
      PyUnicode_CopyCharacters(made.get(), 0, text, 0, length) != length) {
    PyErr_Clear();
    return {};
  }
  return made;
}

// Whether a format may say that a number stands for a character, which some
// numbers don't.
bool FormatsCharacter(absl::string_view text, char begin) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != begin) continue;
    size_t end = i + 1;
    if (begin == '{') {
      while (end < text.size() && text[end] != '}') ++end;
      if (text[end - 1] == 'c') return true;
    } else {
      while (end < text.size() &&
             !absl::ascii_isalpha(static_cast<unsigned char>(text[end]))) {
        ++end;
      }
      if (end < text.size() && text[end] == 'c') return true;
    }
  }
  return false;
}

// The letters of a format's conversions, `%5.2f` and its like, in order; none
// if it has other ones: by name, or of a width that is a value, too.
std::optional<std::string> ConversionsOf(absl::string_view text) {
  std::string letters;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') continue;
    const size_t end = text.find_first_not_of("-+ #0123456789.", i + 1);
    if (end == absl::string_view::npos || text[end] == '(' ||
        text[end] == '*') {
      return std::nullopt;
    }
    if (text[end] != '%') letters.push_back(text[end]);
    i = end;
  }
  return letters;
}

// Whether `%` with this letter makes the same of a tensor as of its number;
// `is_any` is set for a tensor.
bool ShowsNumber(char letter, PyObject* value, bool* is_any) {
  static PyObject* tensor = Function("torch.Tensor");
  if (!IsTensor(value)) return true;
  *is_any = true;
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != tensor ||
      !IsPlainTensor(value) || StorageOf(value) == nullptr ||
      !TensorMeta::Of(value).sizes.empty()) {
    return false;
  }
  const int8_t dtype = TensorMeta::Of(value).dtype;
  const bool is_float =
      dtype == TorchDtype("f32") || dtype == TorchDtype("f64");
  const bool is_int = dtype == TorchDtype("i64") || dtype == TorchDtype("i32");
  if (letter == 'd' || letter == 'i') return is_int;
  return (is_float || is_int) &&
         absl::string_view("eEfFgG").find(letter) != absl::string_view::npos;
}

// Whether a call of it gives a text that follows from its arguments, as long
// as these are constants.
bool MakesText(PyObject* callable) {
  static PyObject* functions[] = {
      Function("builtins.format"), Function("builtins.repr"),
      Function("builtins.ascii"), reinterpret_cast<PyObject*>(&PyUnicode_Type)};
  if (absl::c_linear_search(functions, callable)) return true;
  if (Py_TYPE(callable) != &PyMethodDescr_Type &&
      Py_TYPE(callable) != &PyWrapperDescr_Type) {
    return false;
  }
  const PyTypeObject* type = reinterpret_cast<PyDescrObject*>(callable)->d_type;
  return type == &PyUnicode_Type || type == &PyFloat_Type ||
         type == &PyLong_Type ||
         (type == &PyBaseObject_Type &&
          CallableName(callable) == "builtins.object.__format__");
}

}  // namespace

void TextSources::BeginStep() { Settle(); }

void TextSources::Settle() {
  if (!recipe_.function) return;
  recipe_ = TextRecipe();
  for (const HostValues::Id id : values_.TakeTextUses()) {
    values_.MarkExactId(id);
  }
}

void TextSources::Make(PyObject* function, absl::Span<PyObject* const> args,
                       PyObject* keyword_names) {
  if (values_.empty() || refusal() || function == nullptr) return;
  const bool are_constant = absl::c_all_of(
      args, [](PyObject* arg) { return arg != nullptr && IsConstant(arg); });
  const bool are_known = absl::c_any_of(args, [this](PyObject* arg) {
    return arg != nullptr && values_.HasKnown(arg);
  });
  if (!are_constant || !are_known) return;
  recipe_.function = PyRef::Share(function);
  for (PyObject* arg : args) recipe_.args.push_back(PyRef::Share(arg));
  recipe_.keyword_names = PyRef::Share(keyword_names);
  values_.BeginTextUses();
}

bool TextSources::IsSpecOfAll(PyObject* spec) const {
  return PyUnicode_Check(spec) && values_.FindText(spec) < 0 &&
         !absl::EndsWith(PyText(spec), "c");
}

void TextSources::Format(PyObject* value, int conversion, PyObject* spec) {
  static PyObject* functions[] = {
      Function("builtins.format"),
      reinterpret_cast<PyObject*>(&PyUnicode_Type),
      Function("builtins.repr"),
      Function("builtins.ascii"),
  };
  static PyObject* format = Function("builtins.str.format");
  if (spec == nullptr) return Make(functions[conversion], {value});
  if (!IsSpecOfAll(spec)) return;
  const std::string text = PyText(spec);
  if (conversion == 0) {
    Make(functions[0], {value, spec});
  } else if (text.find_first_of("{}") == std::string::npos) {
    const std::string both =
        absl::StrCat("{!", absl::string_view("sra").substr(conversion - 1, 1),
                     ":", text, "}");
    const PyRef form = PyRef::Steal(PyUnicode_FromString(both.c_str()));
    if (!form) return PyErr_Clear();
    Make(format, {form.get(), value});
  }
}

void TextSources::FormatBy(PyObject* text, PyObject* value) {
  static PyObject* mod = Function("operator.mod");
  if (!PyUnicode_CheckExact(text) || values_.FindText(text) >= 0 ||
      FormatsCharacter(PyText(text), '%')) {
    return;
  }
  Make(mod, {text, value});
}

bool TextSources::ShowsTensors(PyObject* text, PyObject* value) {
  const bool is_tuple = PyTuple_CheckExact(value);
  if (!PyUnicode_CheckExact(text) || (!is_tuple && !IsTensor(value))) {
    return false;
  }
  const auto letters = ConversionsOf(PyText(text));
  const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(value) : 1;
  if (!letters.has_value() ||
      static_cast<Py_ssize_t>(letters->size()) != count) {
    return false;
  }
  bool is_any = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = is_tuple ? PyTuple_GET_ITEM(value, i) : value;
    if (!ShowsNumber((*letters)[static_cast<size_t>(i)], item, &is_any)) {
      return false;
    }
  }
  return is_any;
}

void TextSources::Join(absl::Span<PyObject* const> texts) {
  static PyObject* join = Function("builtins.str.join");
  static PyObject* empty = PyUnicode_InternFromString("");
  if (absl::c_none_of(texts, [this](PyObject* text) {
        return values_.FindText(text) >= 0;
      })) {
    return;
  }
  const PyRef tuple =
      PyRef::Steal(PyTuple_New(static_cast<Py_ssize_t>(texts.size())));
  if (!tuple) return PyErr_Clear();
  for (size_t i = 0; i < texts.size(); ++i) {
    Py_INCREF(texts[i]);
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), texts[i]);
  }
  Make(join, {empty, tuple.get()});
}

void TextSources::Binary(const char* op, PyObject* a, PyObject* b) {
  static PyObject* add = Function("operator.add");
  if (op == nullptr || absl::string_view(op) != "add") return;
  if (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b)) Make(add, {a, b});
}

void TextSources::Call(PyObject* callable, absl::Span<PyObject* const> args,
                       PyObject* keyword_names) {
  if (values_.empty()) return;
  std::vector<PyObject*> all(args.begin(), args.end());
  PyObject* self =
      PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  PyRef bound;
  if (Py_TYPE(callable) == MethodWrapperType()) {
    bound = PyRef::Steal(PyObject_GetAttrString(callable, "__self__"));
    if (!bound) PyErr_Clear();
    self = bound.get();
  }
  PyObject* function = callable;
  if (self != nullptr && (PyUnicode_CheckExact(self) || IsScalar(self))) {
    const PyRef name =
        PyRef::Steal(PyObject_GetAttrString(callable, "__name__"));
    if (!name) return PyErr_Clear();
    function = _PyType_Lookup(Py_TYPE(self), name.get());
    all.insert(all.begin(), self);
  }
  if (function == nullptr || all.empty() || !MakesText(function)) return;
  const std::string name = CallableName(function);
  const bool is_format = absl::EndsWith(name, "str.format");
  if (is_format && (values_.FindText(all[0]) >= 0 ||
                    FormatsCharacter(PyText(all[0]), '{'))) {
    return;
  }
  const bool takes_spec =
      name == "builtins.format" || absl::EndsWith(name, ".__format__");
  if (takes_spec && all.size() > 1 && !IsSpecOfAll(all[1])) return;
  // "sep".join(list): as a tuple, that it holds now.
  PyRef items;
  if (absl::EndsWith(name, "str.join") && all.size() == 2 &&
      PyList_CheckExact(all[1])) {
    items = PyRef::Steal(PyList_AsTuple(all[1]));
    if (!items) return PyErr_Clear();
    all[1] = items.get();
  }
  Make(function, all, keyword_names);
}

bool TextSources::IsMethodOf(PyObject* owner, PyObject* name) const {
  if (values_.FindAny(owner) < 0 || !PyUnicode_CheckExact(name)) return false;
  const std::string word = PyText(name);
  if (IsScalar(owner) && word != "__format__" && word != "__str__" &&
      word != "__repr__") {
    return false;
  }
  PyObject* found = _PyType_Lookup(Py_TYPE(owner), name);
  return found != nullptr && (Py_TYPE(found) == &PyMethodDescr_Type ||
                              Py_TYPE(found) == &PyWrapperDescr_Type);
}

bool TextSources::HandsOn(PyObject* callable) {
  if (PyFunction_Check(callable) || PyMethod_Check(callable)) return true;
  // Python code makes the object, or is what it is called by.
  PyTypeObject* type =
      PyType_Check(callable) ? AsType(callable) : Py_TYPE(callable);
  if (IsPythonClass(type)) return SolidBase(type) == &PyBaseObject_Type;
  switch (KindOfBuiltin(callable)) {
    case CallKind::kPrint:
    case CallKind::kLog:
    case CallKind::kHost:
    case CallKind::kTypes:
      return true;
    case CallKind::kMoves: {
      const std::string name = CallableName(callable);
      return absl::EndsWith(name, ".append") ||
             absl::EndsWith(name, ".appendleft") ||
             absl::EndsWith(name, ".insert");
    }
    default:
      return false;
  }
}

void TextSources::EndStep(PyObject** top, bool entered) {
  if (!recipe_.function) return;
  const std::vector<HostValues::Id> uses = values_.TakeTextUses();
  if (!uses.empty() && (entered || top == nullptr || !Follow(top, uses))) {
    for (const HostValues::Id id : uses) values_.MarkExactId(id);
  }
  recipe_ = TextRecipe();
}

bool TextSources::Follow(PyObject** top,
                         const std::vector<HostValues::Id>& uses) {
  PyObject* result = *top;
  if (result == nullptr || !PyUnicode_CheckExact(result)) return false;
  for (const HostValues::Id id : uses) {
    const TextRecipe* recipe = values_.recipe(id);
    const int depth = recipe == nullptr ? 0 : recipe->depth;
    recipe_.depth = std::max(recipe_.depth, depth + 1);
  }
  if (recipe_.depth > kMaxTextDepth) return false;
  const PyRef again = CallWithNames(recipe_.function.get(), recipe_.args,
                                    recipe_.keyword_names.get());
  if (!again || !SameValue(again.get(), result)) {
    PyErr_Clear();
    return false;
  }
  PyRef own = NewText(result);
  if (!own) return false;
  values_.AddText(own.get(), std::exchange(recipe_, {}), uses);
  Py_SETREF(*top, own.release());
  return true;
}

}  // namespace mica
