#include "python/capture/watch/place_watch.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"

namespace mica {

void PlaceWatch::ReadGlobal(PyObject* globals, PyObject* builtins,
                            PyObject* name) {
  if (refusal()) return;
  last_calls_.NoteGlobal(globals, builtins, name);
  if (refusal() || IsKnown(globals, name)) return;
  const std::string text = PyText(name);
  for (PyObject* dict : {globals, builtins}) {
    if (dict == nullptr) continue;
    if (!PyDict_CheckExact(dict)) {
      return Refuse("runs code whose globals aren't a plain dict");
    }
    if (!IsOld(dict)) return;
    UseItem(dict, name, text, PlaceUse::kRead);
    if (PyDict_GetItemWithError(dict, name) != nullptr) return;
  }
}

void PlaceWatch::WriteGlobal(PyObject* globals, PyObject* name) {
  if (refusal() || !IsOld(globals)) return;
  last_calls_.NoteUse(globals);
  UseItem(globals, name, PyText(name), PlaceUse::kWrite);
}

void PlaceWatch::ReadCell(PyObject* cell, PyObject* name) {
  if (refusal() || cell == nullptr || !PyCell_Check(cell) || !IsOld(cell)) {
    return;
  }
  last_calls_.NoteRead(PyCell_GET(cell), PyText(name));
  if (written_.RefusesLaterUse(cell, nullptr, PyText(name), PlaceUse::kRead)) {
    return;
  }
  if (written_.IsWritten(cell, nullptr)) return;
  if (written_.UseSpecially(cell, nullptr, PyText(name), PlaceUse::kRead))
    return;
  guards_.AddCell(cell, NoteOf(PyText(name)));
  MarkOld(PyCell_GET(cell), PyText(name));
}

void PlaceWatch::WriteCell(PyObject* cell, PyObject* name) {
  if (refusal() || cell == nullptr || !PyCell_Check(cell) || !IsOld(cell)) {
    return;
  }
  if (written_.RefusesLaterUse(cell, nullptr, PyText(name), PlaceUse::kWrite)) {
    return;
  }
  last_calls_.NoteUse(cell);
  if (written_.IsWritten(cell, nullptr)) return;
  if (written_.UseSpecially(cell, nullptr, PyText(name), PlaceUse::kWrite))
    return;
  written_.Write(cell, PyRef(), PyText(name));
}

void PlaceWatch::UseItem(PyObject* dict, PyObject* key, const std::string& path,
                         PlaceUse use) {
  const PyRef name = written_.Canonical(key);
  if (!name) return PyErr_Clear();
  key = name.get();
  if (written_.RefusesLaterUse(dict, key, path, use)) return;
  if (use == PlaceUse::kRemove) written_.AddRemoved(dict, key);
  if (written_.IsWritten(dict, key)) return;  // Its value is the run's.
  const bool is_plain = HasPlainItems(dict);
  if (is_plain && written_.UseSpecially(dict, key, path, use)) return;
  if (use != PlaceUse::kRead && is_plain) {
    // Removing it asks whether it is there.
    if (use == PlaceUse::kRemove) AddItem(dict, key, NoteOf(path));
    return written_.Write(dict, name, path);
  }
  AddItem(dict, key, NoteOf(path));
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr && PyErr_Occurred()) PyErr_Clear();
  if (value != nullptr) MarkOld(value, path);
}

void PlaceWatch::AddItem(PyObject* dict, PyObject* key, GuardNote note) {
  if (written_.IsPromoted(dict, key)) {
    PyObject* value = PyDict_GetItemWithError(dict, key);
    const std::optional<double> known =
        value == nullptr ? std::nullopt : NumberOf(value);
    // Which object a NaN is tells whether it is in a list.
    if (known.has_value() && !std::isnan(*known)) {
      if (values_.HasItem(dict, key)) return;
      // It is followed by its identity: no other place may hold this object.
      const PyRef original = PyRef::Share(value);
      const PyRef number = NewNumber(value);
      if (!number || PyDict_SetItem(dict, key, number.get()) != 0) {
        return PyErr_Clear();
      }
      values_.AddItem(number.get(), original.get(), dict, key, std::move(note));
      if (written_.IsSize(dict, key)) values_.TakeForSize(number.get());
      return;
    }
    PyErr_Clear();
  }
  guards_.AddItem(dict, key, note);
}

void PlaceWatch::Import(PyObject* name) {
  if (refusal()) return;
  PyObject* modules = PyImport_GetModuleDict();
  MarkOld(modules, "sys.modules");
  AddItem(modules, name,
          NoteOf(absl::StrCat("sys.modules['", PyText(name), "']")));
  PyObject* module = PyDict_GetItemWithError(modules, name);
  if (module == nullptr) {
    Refuse(absl::StrCat("imports ", PyText(name), " for the first time"));
    refusal().transient = true;
    return;
  }
  MarkOld(module, PyText(name));
  // `import a.b` binds `a`.
  const std::string text = PyText(name);
  const size_t dot = text.find('.');
  if (dot == std::string::npos) return;
  PyObject* top = PyDict_GetItemString(modules, text.substr(0, dot).c_str());
  if (top != nullptr) MarkOld(top, text.substr(0, dot));
}

}  // namespace mica
