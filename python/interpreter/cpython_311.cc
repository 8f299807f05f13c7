// interpreter.h for CPython 3.11, but for the stream (opcode_stream_311.cc).

#include "python/interpreter/cpython_311.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "python/interpreter/frame_hook.h"
#include "python/interpreter/interpreter.h"

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030c0000
#error "Capture knows CPython 3.11 only; another version needs its own source"
#endif

namespace mica {
namespace {

struct Known {
  KnownPlaces places;
  PyTypeObject* deque = nullptr;
  destructor python_dealloc = nullptr;  // That of classes made in Python.
  std::string library_dir;              // Python's own.
};
Known* known = nullptr;

// What precedes every object that the cyclic collector tracks.
struct GcHead {
  uintptr_t next;
  uintptr_t prev;  // The two lowest bits are flags.
};
GcHead* HeadOf(PyObject* object) {
  return reinterpret_cast<GcHead*>(object) - 1;
}
GcHead* Next(const GcHead* head) {
  return reinterpret_cast<GcHead*>(head->next);
}
GcHead* Prev(const GcHead* head) {
  return reinterpret_cast<GcHead*>(head->prev & ~uintptr_t{3});
}

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

bool IsBelow(const char* file, size_t size, const std::string& dir) {
  return size > dir.size() && std::memcmp(file, dir.data(), dir.size()) == 0 &&
         file[dir.size()] == '/';
}

bool IsUserFile(PyObject* name) {
  Py_ssize_t size = 0;
  const char* file = PyUnicode_AsUTF8AndSize(name, &size);
  if (file == nullptr) {
    PyErr_Clear();
    return false;
  }
  const auto length = static_cast<size_t>(size);
  if (std::strncmp(file, "<frozen", 7) == 0) return false;
  return !IsBelow(file, length, known->places.torch_dir) &&
         !IsBelow(file, length, known->places.mica_dir);
}

// The module that a method runs for, or null. Borrowed.
PyObject* ModuleOf(const _PyInterpreterFrame* frame) {
  if (frame->f_code->co_argcount == 0) return nullptr;
  PyObject* self = frame->localsplus[0];
  if (self != nullptr && PyCell_Check(self)) self = PyCell_GET(self);
  return self != nullptr && IsTorchModule(self) ? self : nullptr;
}

}  // namespace

bool IsCuttable(PyCodeObject* code) {
  constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if ((code->co_flags & kGenerators) != 0 ||
      (code->co_flags & CO_NEWLOCALS) == 0) {
    return false;
  }
  const std::string file = PyText(code->co_filename);
  if (IsUserFile(code->co_filename)) {
    constexpr absl::string_view kPackages = "/site-packages/";
    const size_t at = file.find(kPackages.data());
    if (at == std::string::npos) {
      return !IsBelow(file.data(), file.size(), known->library_dir);
    }
    // What works on arrays has no tensors to record.
    return file.compare(at + kPackages.size(), 6, "numpy/") != 0;
  }
  return IsBelow(file.data(), file.size(), known->places.torch_dir) &&
         PyText(code->co_name) == "forward";
}

bool IsSettingUp(const PyFrameObject* outer) {
  const GilHolder gil;
  const std::string typing = known->library_dir + "/typing.py";
  const _PyInterpreterFrame* end = outer == nullptr ? nullptr : outer->f_frame;
  const _PyInterpreterFrame* frame = PyThreadState_Get()->cframe->current_frame;
  for (; frame != nullptr && frame != end; frame = frame->previous) {
    const std::string file = PyText(frame->f_code->co_filename);
    if (file == "<frozen importlib._bootstrap>" || file == typing) return true;
  }
  return false;
}

bool IsModuleCall(const PyCodeObject* code) {
  return code != nullptr && code == known->places.module_call;
}

bool IsTorchModule(PyObject* object) {
  return PyType_IsSubtype(Py_TYPE(object), known->places.module_type) != 0;
}

FrameSites SitesBelow(const PyFrameObject* outer) {
  const GilHolder gil;
  FrameSites sites;
  const _PyInterpreterFrame* end = outer == nullptr ? nullptr : outer->f_frame;
  const _PyInterpreterFrame* frame = PyThreadState_Get()->cframe->current_frame;
  for (; frame != nullptr && frame != end; frame = frame->previous) {
    const int unit = _PyInterpreterFrame_LASTI(frame);
    if (unit < 0 || !IsCuttable(frame->f_code)) continue;
    sites.push_back(
        {.code = PyRef::Share(reinterpret_cast<PyObject*>(frame->f_code)),
         .module = PyRef::Share(ModuleOf(frame)),
         .unit = unit});
  }
  std::reverse(sites.begin(), sites.end());
  return sites;
}

bool InitInterpreter(const KnownPlaces& places) {
  if (known != nullptr) return true;
  PyRef collections = PyRef::Steal(PyImport_ImportModule("collections"));
  if (!collections) return false;
  PyRef deque =
      PyRef::Steal(PyObject_GetAttrString(collections.get(), "deque"));
  PyRef python_class =
      PyRef::Steal(PyObject_GetAttrString(collections.get(), "Counter"));
  PyRef file =
      PyRef::Steal(PyObject_GetAttrString(collections.get(), "__file__"));
  if (!deque || !python_class || !file) return false;
  // collections/__init__.py.
  std::string library_dir = PyText(file.get());
  library_dir.resize(library_dir.rfind('/'));
  library_dir.resize(library_dir.rfind('/'));
  known = new Known{.places = places,
                    .deque = AsType(deque.release()),
                    .python_dealloc = AsType(python_class.get())->tp_dealloc,
                    .library_dir = std::move(library_dir)};
  Py_XINCREF(reinterpret_cast<const PyObject*>(places.module_type));
  Py_XINCREF(reinterpret_cast<const PyObject*>(places.module_call));
  return true;
}

UserLine CurrentUserLine() {
  const GilHolder gil;
  const _PyInterpreterFrame* frame = PyThreadState_Get()->cframe->current_frame;
  for (; frame != nullptr; frame = frame->previous) {
    PyCodeObject* code = frame->f_code;
    if (code == nullptr || !IsUserFile(code->co_filename)) continue;
    const int offset = _PyInterpreterFrame_LASTI(frame) *
                       static_cast<int>(sizeof(_Py_CODEUNIT));
    return {PyText(code->co_filename), PyCode_Addr2Line(code, offset)};
  }
  return {};
}

std::optional<FrameLine> FrameAbove(int64_t level, const PyFrameObject* outer) {
  PyFrameObject* frame = PyEval_GetFrame();
  for (; frame != nullptr && frame != outer; --level) {
    const _PyInterpreterFrame* inner = frame->f_frame;
    if (level == 0) {
      return FrameLine{.globals = inner->f_globals,
                       .filename = inner->f_code->co_filename,
                       .line = PyFrame_GetLineNumber(frame)};
    }
    const PyRef above =
        PyRef::Steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(frame)));
    // What holds it is that it runs.
    frame = reinterpret_cast<PyFrameObject*>(above.get());
  }
  return std::nullopt;
}

void ForEachCalledModule(absl::FunctionRef<bool(PyObject*)> visit) {
  if (known->places.module_call == nullptr) return;
  const GilHolder gil;
  const _PyInterpreterFrame* frame = PyThreadState_Get()->cframe->current_frame;
  for (; frame != nullptr; frame = frame->previous) {
    if (frame->f_code != known->places.module_call) continue;
    PyObject* module = frame->localsplus[0];
    if (module != nullptr && PyCell_Check(module)) module = PyCell_GET(module);
    if (module != nullptr && !visit(module)) return;
  }
}

bool IsForeignTracerActive() {
  return PyThreadState_Get()->c_tracefunc != nullptr;
}

uint32_t TypeVersion(PyTypeObject* type) {
  // A look-up gives a class that has no version a new one.
  static PyObject* word = PyUnicode_InternFromString("__class__");
  _PyType_Lookup(type, word);
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0
             ? type->tp_version_tag
             : 0;
}

bool IsGenerator(PyObject* object) {
  return PyGen_Check(object) || PyCoro_CheckExact(object) ||
         PyAsyncGen_CheckExact(object);
}

bool IsSuspendedGenerator(PyObject* object) {
  // The three begin alike.
  return reinterpret_cast<PyGenObject*>(object)->gi_frame_state ==
         FRAME_SUSPENDED;
}

PyObject* InstanceDict(PyObject* instance) {
  PyTypeObject* type = Py_TYPE(instance);
  if ((type->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0) {
    // Before the object: its dict, and its values while it has no dict.
    PyObject* dict = reinterpret_cast<PyObject**>(instance)[-3];
    if (dict != nullptr) return dict;
  }
  PyObject** dict = _PyObject_GetDictPtr(instance);
  return dict == nullptr ? nullptr : *dict;
}

PyObject* SlotValue(PyObject* owner, PyObject* member) {
  const PyMemberDef* def =
      reinterpret_cast<PyMemberDescrObject*>(member)->d_member;
  if (def->type != T_OBJECT_EX) return nullptr;  // Not of __slots__.
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) +
                                       def->offset);
}

PyTypeObject* DequeType() { return known->deque; }

bool IsPythonClass(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
         type->tp_dealloc == known->python_dealloc;
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
    while (PyDict_Next(base->tp_dict, &position, &key, &value)) {
      if (Py_TYPE(value) == &PyMemberDescr_Type) return true;
    }
  }
  return false;
}

PyTypeObject* SuperType(PyObject* super) {
  if (!PyObject_TypeCheck(super, &PySuper_Type)) return nullptr;
  return reinterpret_cast<SuperObject*>(super)->object_type;
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

std::vector<PyObject*> LruCacheResults(PyObject* cache) {
  // What a bounded cache's dict holds: neighbours by use, and the result.
  struct Link {
    PyObject_HEAD;
    PyObject *previous, *next;
    Py_hash_t hash;
    PyObject *key, *result;
  };
  std::vector<PyObject*> results;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(cache, &position, &key, &value)) {
    const bool is_link =
        absl::string_view(Py_TYPE(value)->tp_name) ==
            "functools._lru_list_elem" &&
        Py_TYPE(value)->tp_basicsize == static_cast<Py_ssize_t>(sizeof(Link));
    results.push_back(is_link ? reinterpret_cast<Link*>(value)->result : value);
  }
  return results;
}

// New objects join the end of the youngest generation's list, and none leaves
// it for an older one while the collector is off.
namespace {

// Of all threads: as long as one is left the collector stays off.
int num_marks = 0;
bool was_enabled = false;

}  // namespace

AgeMark::AgeMark() {
  if (num_marks++ == 0) was_enabled = PyGC_Disable() != 0;
  mark_ = PyRef::Steal(PyList_New(0));
  list_ = Next(HeadOf(mark_.get()));
}

AgeMark::~AgeMark() {
  if (--num_marks == 0 && was_enabled) PyGC_Enable();
}

bool AgeMark::IsDisturbed() const {
  const GcHead* mark = HeadOf(mark_.get());
  const auto* list = static_cast<const GcHead*>(list_);
  const GcHead* at = Prev(list);
  while (at != mark && at != list) at = Prev(at);
  return at != mark;
}

AgeMark::Age AgeMark::Of(PyObject* object) const {
  if (!PyObject_IS_GC(object) || !PyObject_GC_IsTracked(object)) {
    return Age::kUnknown;
  }
  const GcHead* wanted = HeadOf(object);
  const GcHead* mark = HeadOf(mark_.get());
  const auto* list = static_cast<const GcHead*>(list_);
  for (const GcHead* at = Prev(list); at != mark && at != list; at = Prev(at)) {
    if (at == wanted) return Age::kYounger;
  }
  return Age::kOlder;
}

}  // namespace mica
