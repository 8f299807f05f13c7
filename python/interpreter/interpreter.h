// What capture needs of the interpreter's insides: frames, versions, ages. What
// differs between CPython's versions is in files named after them; nothing
// outside of this folder knows a version.

#ifndef MICA_PYTHON_INTERPRETER_INTERPRETER_H_
#define MICA_PYTHON_INTERPRETER_INTERPRETER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "python/interpreter/dict_version.h"
#include "python/interpreter/frame_site.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// What the rest of this header calls torch's and Mica's.
struct KnownPlaces {
  // Frames of files below these are never a user's.
  std::string torch_dir;
  std::string mica_dir;
  // torch.nn.Module.
  PyTypeObject* module_type = nullptr;
  // The code by which it calls forward(); null if there is no such.
  const PyCodeObject* module_call = nullptr;
};
// Looks up what else is needed, once: later calls do nothing. False with a
// Python error set. The objects stay alive from then on.
bool InitInterpreter(const KnownPlaces& places);

// The line of the innermost frame of this thread that isn't torch's or Mica's
// own code: the line that the user would look for. Takes the GIL if need be.
UserLine CurrentUserLine();

// What a frame runs. Borrowed.
struct FrameLine {
  PyObject* globals = nullptr;
  PyObject* filename = nullptr;
  PyObject* function = nullptr;  // Its name.
  int line = 0;
};
// Of the `level`-th frame above the running one; none if that is `outer` or
// above it.
std::optional<FrameLine> FrameAbove(int64_t level, const PyFrameObject* outer);

// The frames of this thread below `outer` (or all) that are of the user's own
// functions or of a module's forward(). Takes the GIL if need be.
FrameSites SitesBelow(const PyFrameObject* outer);

// True for KnownPlaces::module_call.
bool IsModuleCall(const PyCodeObject* code);
// True for an instance of KnownPlaces::module_type.
bool IsTorchModule(PyObject* object);

// Tells `visit` the modules (torch.nn.Module) whose calls are under way on this
// thread, the innermost first, until it returns false. Takes the GIL if need
// be; borrowed.
void ForEachCalledModule(absl::FunctionRef<bool(PyObject*)> visit);

// True if an exception that the instruction under way raises meets a handler
// (`except`, `finally`, the end of a `with`) in the functions below `outer`.
bool HasHandlerBelow(const PyFrameObject* outer);

// True if somebody (a debugger, coverage) already traces this thread.
bool IsForeignTracerActive();

// Changes whenever the class or a base of it does; 0 if there is none now.
uint32_t TypeVersion(PyTypeObject* type);
// Where it lies: 8 bytes, of which nothing else changes.
const void* VersionPlace(PyTypeObject* type);

// The dict that holds a class's own attributes; null before it is made.
// Borrowed.
PyObject* TypeDict(PyTypeObject* type);
// The dict that holds an instance's attributes, or null. Borrowed.
PyObject* InstanceDict(PyObject* instance);
// Where the instance holds that dict; null if it can't have one.
PyObject** DictPlace(PyObject* instance);

// Steps through a set's items as PyDict_Next() does through a dict's. Borrowed.
bool NextItem(PyObject* set, Py_ssize_t* position, PyObject** item);
// The class of objects' methods in C that make up operators: (1).__add__.
PyTypeObject* MethodWrapperType();

// True for a generator, a coroutine or an asynchronous generator; for one that
// waits in the middle of its code, with what it has to do at its end.
bool IsGenerator(PyObject* object);
bool IsSuspendedGenerator(PyObject* object);
// What a member descriptor of a class with __slots__ stands for; null if it is
// unset or no plain slot. Borrowed.
PyObject* SlotValue(PyObject* owner, PyObject* member);
// Where the owner holds that; null if it is no plain slot.
PyObject** SlotPlace(PyObject* owner, PyObject* member);
// Where a function or a class of `type` holds attribute `name`, if it holds it
// in a field that nothing but the attribute says; null otherwise.
PyObject** FieldPlace(PyObject* owner, PyObject* name);
// An int in an object of its own, though small ones are shared as a rule; null
// without memory.
PyRef NewInt(int64_t value);
// collections.deque.
PyTypeObject* DequeType();
// collections.defaultdict.
PyTypeObject* DefaultDictType();
// True if `type` was made by a class statement, not in C.
bool IsPythonClass(PyTypeObject* type);
// The C type that a class made in Python builds on.
PyTypeObject* SolidBase(PyTypeObject* type);
// True for a class made in Python some of whose objects' values are in slots.
bool HasSlots(PyTypeObject* type);
// The class whose attributes super() searches, of a super object. May be null.
PyTypeObject* SuperType(PyObject* super);
// The object, or the class, that a super object is about. May be null.
PyObject* SuperObjectOf(PyObject* super);

// What a types.MappingProxyType shows. Borrowed.
PyObject* ProxiedMapping(PyObject* proxy);

// Where functools.lru_cache keeps its results: a dict, or null. Borrowed.
PyObject* LruCacheDict(PyObject* wrapper);
// The results in such a dict. Borrowed.
std::vector<PyObject*> LruCacheResults(PyObject* cache);

// Tells objects made after it from older ones. Keeps Python's cyclic garbage
// collector from beginning while it lives, by its thresholds: gc.isenabled()
// tells, and gc.disable() leaves, what they do without it.
class AgeMark {
 public:
  AgeMark();
  ~AgeMark();
  AgeMark(const AgeMark&) = delete;
  AgeMark& operator=(const AgeMark&) = delete;

  enum class Age { kYounger, kOlder, kUnknown };
  // kUnknown for what the collector doesn't track. Takes time linear in the
  // number of younger objects; quick for the youngest.
  Age Of(PyObject* object) const;
  // True if the collector ran after all (another thread called it): ages are
  // wrong since then. Takes time linear in the number of younger objects.
  bool IsDisturbed() const;

 private:
  PyRef mark_;
  const void* list_ = nullptr;  // The youngest generation's.
};

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_INTERPRETER_H_
