// interpreter.h, but for frames and ages.

#include "python/interpreter/interpreter.h"

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "python/interpreter/cpython.h"
#include "python/interpreter/known.h"
#include "python/interpreter/lru_cache.h"

namespace mica {
namespace {

const Known* made_known = nullptr;

// As CPython lays out a super object.
struct SuperObject {
  PyObject_HEAD;
  PyTypeObject* type;
  PyObject* object;
  PyTypeObject* object_type;
};

// As CPython lays out a mapping proxy.
struct ProxyObject {
  PyObject_HEAD;
  PyObject* mapping;
};

}  // namespace

const Known& known() { return *made_known; }

bool InitInterpreter(const KnownPlaces& places) {
  if (made_known != nullptr) return true;
  PyRef collections = PyRef::Steal(PyImport_ImportModule("collections"));
  if (!collections) return false;
  PyRef deque =
      PyRef::Steal(PyObject_GetAttrString(collections.get(), "deque"));
  PyRef default_dict =
      PyRef::Steal(PyObject_GetAttrString(collections.get(), "defaultdict"));
  PyRef python_class =
      PyRef::Steal(PyObject_GetAttrString(collections.get(), "Counter"));
  PyRef file =
      PyRef::Steal(PyObject_GetAttrString(collections.get(), "__file__"));
  const PyRef method =
      PyRef::Steal(PyObject_GetAttrString(collections.get(), "__str__"));
  if (!deque || !default_dict || !python_class || !file || !method)
    return false;
  // collections/__init__.py.
  std::string library_dir = PyText(file.get());
  library_dir.resize(library_dir.rfind('/'));
  library_dir.resize(library_dir.rfind('/'));
  made_known =
      new Known{.places = places,
                .deque = AsType(deque.release()),
                .default_dict = AsType(default_dict.release()),
                .python_dealloc = AsType(python_class.get())->tp_dealloc,
                .method_wrapper = Py_TYPE(method.get()),
                .library_dir = std::move(library_dir)};
  Py_XINCREF(reinterpret_cast<const PyObject*>(places.module_type));
  Py_XINCREF(reinterpret_cast<const PyObject*>(places.module_call));
  return true;
}

uint32_t TypeVersion(PyTypeObject* type) {
  // A look-up gives a class that has no version a new one.
  static PyObject* word = PyUnicode_InternFromString("__class__");
  _PyType_Lookup(type, word);
  return HasVersion(type) ? type->tp_version_tag : 0;
}

const void* VersionPlace(PyTypeObject* type) { return &type->tp_version_tag; }

bool NextItem(PyObject* set, Py_ssize_t* position, PyObject** item) {
  Py_hash_t hash = 0;
  return _PySet_NextEntry(set, position, item, &hash) != 0;
}

PyTypeObject* MethodWrapperType() { return known().method_wrapper; }

bool IsGenerator(PyObject* object) {
  return PyGen_Check(object) || PyCoro_CheckExact(object) ||
         PyAsyncGen_CheckExact(object);
}

bool IsSuspendedGenerator(PyObject* object) {
  // The three begin alike.
  return IsSuspended(reinterpret_cast<PyGenObject*>(object)->gi_frame_state);
}

PyObject* TypeDict(PyTypeObject* type) {
  return type->tp_dict != nullptr ? type->tp_dict : StaticTypeDict(type);
}

PyObject* InstanceDict(PyObject* instance) {
  if (PyObject* dict = ManagedDict(instance)) return dict;
  // Makes one if the values are in the object itself.
  PyObject** dict = _PyObject_GetDictPtr(instance);
  return dict == nullptr ? nullptr : *dict;
}

PyObject** DictPlace(PyObject* instance) {
  if ((Py_TYPE(instance)->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0) {
    return reinterpret_cast<PyObject**>(instance) - 3;
  }
  return _PyObject_GetDictPtr(instance);
}

PyObject** SlotPlace(PyObject* owner, PyObject* member) {
  const PyMemberDef* def =
      reinterpret_cast<PyMemberDescrObject*>(member)->d_member;
  if (def->type != T_OBJECT_EX) return nullptr;  // Not of __slots__.
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) +
                                      def->offset);
}

PyObject** FieldPlace(PyObject* owner, PyObject* name) {
  const absl::string_view text = PyText(name);
  if (PyFunction_Check(owner)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(owner);
    if (text == "__name__") return &function->func_name;
    if (text == "__qualname__") return &function->func_qualname;
    if (text == "__defaults__") return &function->func_defaults;
    if (text == "__kwdefaults__") return &function->func_kwdefaults;
  } else if (Py_TYPE(owner) == &PyType_Type &&
             PyType_HasFeature(AsType(owner), Py_TPFLAGS_HEAPTYPE)) {
    auto* type = reinterpret_cast<PyHeapTypeObject*>(owner);
    if (text == "__name__") return &type->ht_name;
    if (text == "__qualname__") return &type->ht_qualname;
  }
  return nullptr;
}

PyObject* SlotValue(PyObject* owner, PyObject* member) {
  PyObject** place = SlotPlace(owner, member);
  return place == nullptr ? nullptr : *place;
}

PyRef NewInt(int64_t value) {
  const uint64_t size =
      value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  if (size >= PyLong_BASE) return PyRef::Steal(PyLong_FromLongLong(value));
  PyLongObject* number = _PyLong_New(1);
  if (number == nullptr) return PyRef();
  SetOneDigit(number, static_cast<digit>(size), value < 0);
  return PyRef::Steal(reinterpret_cast<PyObject*>(number));
}

PyTypeObject* DequeType() { return known().deque; }
PyTypeObject* DefaultDictType() { return known().default_dict; }

bool IsPythonClass(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
         type->tp_dealloc == known().python_dealloc;
}

PyTypeObject* SolidBase(PyTypeObject* type) {
  while (type->tp_base != nullptr && IsPythonClass(type)) type = type->tp_base;
  return type;
}

bool HasSlots(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyTypeObject* base = AsType(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!IsPythonClass(base)) continue;
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(TypeDict(base), &position, &key, &value)) {
      if (Py_TYPE(value) == &PyMemberDescr_Type) return true;
    }
  }
  return false;
}

PyTypeObject* SuperType(PyObject* super) {
  if (!PyObject_TypeCheck(super, &PySuper_Type)) return nullptr;
  return reinterpret_cast<SuperObject*>(super)->object_type;
}

PyObject* SuperObjectOf(PyObject* super) {
  return reinterpret_cast<SuperObject*>(super)->object;
}

PyObject* ProxiedMapping(PyObject* proxy) {
  return reinterpret_cast<ProxyObject*>(proxy)->mapping;
}

PyObject* LruCacheDict(PyObject* wrapper) {
  // No name leads to it; but it is what the wrapper holds that is a dict.
  struct Search {
    PyObject* attributes;
    PyObject* found;
  } search = {InstanceDict(wrapper), nullptr};
  const auto visit = [](PyObject* held, void* arg) {
    auto* search = static_cast<Search*>(arg);
    if (PyDict_CheckExact(held) && held != search->attributes) {
      search->found = held;
    }
    return 0;
  };
  Py_TYPE(wrapper)->tp_traverse(wrapper, visit, &search);
  return search.found;
}

PyObject** LruCachePlace(PyObject* item) {
  // What a bounded cache's dict holds: neighbours by use, and the result.
  struct Link {
    PyObject_HEAD;
    PyObject *previous, *next;
    Py_hash_t hash;
    PyObject *key, *result;
  };
  const bool is_link =
      absl::string_view(Py_TYPE(item)->tp_name) == "functools._lru_list_elem" &&
      Py_TYPE(item)->tp_basicsize == static_cast<Py_ssize_t>(sizeof(Link));
  return is_link ? &reinterpret_cast<Link*>(item)->result : nullptr;
}

std::vector<PyObject*> LruCacheResults(PyObject* cache) {
  std::vector<PyObject*> results;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(cache, &position, &key, &value)) {
    PyObject** place = LruCachePlace(value);
    results.push_back(place == nullptr ? value : *place);
  }
  return results;
}

}  // namespace mica
