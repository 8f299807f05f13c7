#include "python/capture/values/generators.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "python/capture/values/constants.h"

namespace mica {
namespace {

// RandomState keeps the second of two normal numbers: whether it has one, an
// int, and in the next eight bytes the number.
constexpr size_t kNormalBytes = 16;

// `known` is the type of this name once it was seen, which then stays alive.
bool IsOfType(PyObject* object, absl::string_view name, PyTypeObject** known) {
  PyTypeObject* type = Py_TYPE(object);
  if (*known != nullptr || TypeName(type) != name) return type == *known;
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  *known = type;
  return true;
}
bool IsPythons(PyObject* object) {
  static PyTypeObject* known = nullptr;
  return Py_TYPE(object)->tp_base != nullptr &&
         TypeName(Py_TYPE(object)->tp_base) == "_random.Random" &&
         IsOfType(object, "random.Random", &known);
}
bool IsLegacy(PyObject* object) {
  static PyTypeObject* known = nullptr;
  return IsOfType(object, "numpy.random.mtrand.RandomState", &known);
}
bool IsNumpys(PyObject* object) {
  static PyTypeObject* known = nullptr;
  return IsOfType(object, "numpy.random._generator.Generator", &known);
}

PyRef Attribute(PyObject* object, const char* name) {
  PyRef value = PyRef::Steal(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value;
}

PyRef BitsOf(PyObject* generator) {
  return Attribute(generator,
                   IsLegacy(generator) ? "_bit_generator" : "bit_generator");
}

// numpy's own, in C.
bool IsKnownBits(PyObject* bits) {
  const std::string name = TypeName(Py_TYPE(bits));
  for (const absl::string_view known :
       {"numpy.random._mt19937.MT19937", "numpy.random._pcg64.PCG64",
        "numpy.random._pcg64.PCG64DXSM", "numpy.random._sfc64.SFC64",
        "numpy.random._philox.Philox"}) {
    if (name == known) return true;
  }
  return false;
}

// Puts a normal number, or that there is none, where `generator`, a
// RandomState, keeps it. False with a Python error set.
bool SetNormal(PyObject* generator, bool has_one, double number) {
  const PyRef get =
      PyRef::Steal(PyObject_GetAttrString(generator, "get_state"));
  const PyRef none = PyRef::Steal(PyTuple_New(0));
  const PyRef keywords = PyRef::Steal(PyDict_New());
  if (!get || !none || !keywords ||
      PyDict_SetItemString(keywords.get(), "legacy", Py_False) != 0) {
    return false;
  }
  const PyRef state =
      PyRef::Steal(PyObject_Call(get.get(), none.get(), keywords.get()));
  const PyRef count = PyRef::Steal(PyLong_FromLong(has_one ? 1 : 0));
  const PyRef value = PyRef::Steal(PyFloat_FromDouble(number));
  if (!state || !count || !value || !PyDict_Check(state.get()) ||
      PyDict_SetItemString(state.get(), "has_gauss", count.get()) != 0 ||
      PyDict_SetItemString(state.get(), "gauss", value.get()) != 0) {
    return false;
  }
  return static_cast<bool>(PyRef::Steal(
      PyObject_CallMethod(generator, "set_state", "O", state.get())));
}

// Where in a RandomState its normal number is, found by looking for one that
// was put there; 0 if that fails.
size_t FindNormal(PyObject* generator) {
  constexpr double kMark = 1.2345678e-77;
  const auto size = static_cast<size_t>(Py_TYPE(generator)->tp_basicsize);
  const auto* memory = reinterpret_cast<const char*>(generator);
  size_t found = 0;
  if (!SetNormal(generator, true, kMark)) return 0;
  for (size_t at = sizeof(PyObject); at + kNormalBytes <= size; at += 8) {
    int count = 0;
    double number = 0;
    std::memcpy(&count, memory + at, sizeof count);
    std::memcpy(&number, memory + at + 8, sizeof number);
    if (count != 1 || number != kMark) continue;
    if (found != 0) return 0;
    found = at;
  }
  if (found == 0 || !SetNormal(generator, false, 0)) return 0;
  int count = 1;
  std::memcpy(&count, memory + found, sizeof count);
  return count == 0 ? found : 0;
}

// A RandomState to look into; null if numpy has none.
PyRef NewLegacy() {
  const PyRef module = PyRef::Steal(PyImport_ImportModule("numpy.random"));
  return module ? PyRef::Steal(
                      PyObject_CallMethod(module.get(), "RandomState", "i", 1))
                : PyRef();
}

size_t NormalOffset() {
  static const size_t offset = [] {
    const PyRef generator = NewLegacy();
    const size_t found = generator ? FindNormal(generator.get()) : 0;
    PyErr_Clear();
    return found;
  }();
  return offset;
}

// A generator of the same kind, to try things with.
PyRef NewLike(PyObject* generator) {
  if (IsPythons(generator)) {
    return PyRef::Steal(PyObject_CallFunction(
        reinterpret_cast<PyObject*>(Py_TYPE(generator)), "i", 1));
  }
  const PyRef bits = BitsOf(generator);
  const PyRef own =
      bits ? PyRef::Steal(PyObject_CallFunction(
                 reinterpret_cast<PyObject*>(Py_TYPE(bits.get())), "i", 1))
           : PyRef();
  return own ? PyRef::Steal(PyObject_CallFunctionObjArgs(
                   reinterpret_cast<PyObject*>(Py_TYPE(generator)), own.get(),
                   nullptr))
             : PyRef();
}

// All of a generator's state as bytes, by its own word; null if that fails.
PyRef Pickled(PyObject* generator) {
  const PyRef pickle = PyRef::Steal(PyImport_ImportModule("pickle"));
  return pickle ? PyRef::Steal(PyObject_CallMethod(pickle.get(), "dumps", "O",
                                                   generator))
                : PyRef();
}

// Draws so that all that it may keep for the next call is there, or is used.
bool DrawSome(PyObject* generator) {
  const PyRef a =
      PyRef::Steal(PyObject_CallMethod(generator,
                                       IsNumpys(generator)   ? "random"
                                       : IsLegacy(generator) ? "rand"
                                                             : "random",
                                       nullptr));
  const PyRef b = PyRef::Steal(
      IsNumpys(generator) ? PyObject_CallMethod(generator, "integers", "i", 7)
      : IsLegacy(generator)
          ? PyObject_CallMethod(generator, "randn", nullptr)
          : PyObject_CallMethod(generator, "gauss", "ii", 0, 1));
  return a && b;
}

bool IsEqual(const PyRef& a, const PyRef& b) {
  return a && b && PyObject_RichCompareBool(a.get(), b.get(), Py_EQ) == 1;
}

// Whether a generator like this one, put back, is as it was.
bool Try(PyObject* generator) {
  const PyRef trial = NewLike(generator);
  if (!trial) return false;
  for (int i = 0; i < 3; ++i) {
    if (!DrawSome(trial.get())) return false;
    const PyRef before = Pickled(trial.get());
    GeneratorStates states;
    if (!states.Add(trial.get())) return false;
    if (!DrawSome(trial.get())) return false;
    states.EndDraws();
    if (IsEqual(Pickled(trial.get()), before)) return false;
    states.PutBack();
    if (!IsEqual(Pickled(trial.get()), before)) return false;
  }
  return true;
}

// What a generator is, by its type and that of its bits.
std::optional<std::string> KindOf(PyObject* generator) {
  if (IsPythons(generator)) return TypeName(Py_TYPE(generator));
  if (!IsLegacy(generator) && !IsNumpys(generator)) return std::nullopt;
  const PyRef bits = BitsOf(generator);
  if (!bits || !IsKnownBits(bits.get())) return std::nullopt;
  return TypeName(Py_TYPE(generator)) + " " + TypeName(Py_TYPE(bits.get()));
}

PyObject* PendingName() {
  static PyObject* name = Interned("gauss_next");
  return name;
}

// Holds a lock of Python's, if there is one.
class LockHolder {
 public:
  explicit LockHolder(PyObject* lock) : lock_(lock) { Call("acquire"); }
  ~LockHolder() { Call("release"); }
  LockHolder(const LockHolder&) = delete;
  LockHolder& operator=(const LockHolder&) = delete;

 private:
  void Call(const char* method) {
    if (lock_ == nullptr) return;
    const PyRef done =
        PyRef::Steal(PyObject_CallMethod(lock_, method, nullptr));
    if (!done) PyErr_Clear();
  }
  PyObject* lock_;
};

}  // namespace

bool IsKnownGenerator(PyObject* object) {
  static auto& known = *new absl::flat_hash_map<std::string, bool>;
  const std::optional<std::string> kind = KindOf(object);
  if (!kind.has_value()) return false;
  if (const auto it = known.find(*kind); it != known.end()) return it->second;
  const bool works = Try(object);
  PyErr_Clear();
  return known[*kind] = works;
}

void GeneratorStates::AddPiece(PyObject* owner, size_t offset, size_t bytes,
                               PyObject* lock) {
  for (const Piece& piece : pieces_) {
    if (piece.owner.get() == owner && piece.offset == offset) return;
  }
  Piece piece{.owner = PyRef::Share(owner),
              .offset = offset,
              .lock = PyRef::Share(lock)};
  const LockHolder holder(lock);
  piece.before.assign(piece.data(), bytes);
  pieces_.push_back(std::move(piece));
}

// What a class of bit generators adds to its base is its state.
bool GeneratorStates::AddBits(PyObject* bit_generator) {
  if (!IsKnownBits(bit_generator)) return false;
  const PyTypeObject* type = Py_TYPE(bit_generator);
  const auto start = static_cast<size_t>(type->tp_base->tp_basicsize);
  const auto end = static_cast<size_t>(type->tp_basicsize);
  const PyRef lock = Attribute(bit_generator, "lock");
  if (!lock || start >= end) return false;
  AddPiece(bit_generator, start, end - start, lock.get());
  return true;
}

bool GeneratorStates::Add(PyObject* generator) {
  if (IsPythons(generator)) {
    // The class in C under random.Random has nothing but its state.
    const auto end =
        static_cast<size_t>(Py_TYPE(generator)->tp_base->tp_basicsize);
    AddPiece(generator, sizeof(PyObject), end - sizeof(PyObject), nullptr);
    PyRef next = PyRef::Steal(PyObject_GetAttr(generator, PendingName()));
    if (!next) PyErr_Clear();
    pending_.push_back(
        {.generator = PyRef::Share(generator), .before = std::move(next)});
    return true;
  }
  if (!IsLegacy(generator) && !IsNumpys(generator)) return false;
  const PyRef bits = BitsOf(generator);
  if (!bits || !AddBits(bits.get())) return false;
  if (!IsLegacy(generator)) return true;
  const size_t normal = NormalOffset();
  if (normal == 0) return false;
  AddPiece(generator, normal, kNormalBytes, nullptr);
  return true;
}

void GeneratorStates::EndDraws() {
  for (Piece& piece : pieces_) {
    const LockHolder holder(piece.lock.get());
    piece.after.assign(piece.data(), piece.before.size());
  }
  for (Pending& pending : pending_) {
    pending.after =
        PyRef::Steal(PyObject_GetAttr(pending.generator.get(), PendingName()));
    if (!pending.after) PyErr_Clear();
  }
}

bool GeneratorStates::AreAsDrawn() const {
  for (const Piece& piece : pieces_) {
    if (std::memcmp(piece.data(), piece.after.data(), piece.after.size()) !=
        0) {
      return false;
    }
  }
  return true;
}

void GeneratorStates::PutBack() {
  const PyErrorKeeper keeper;
  if (!AreAsDrawn()) return;
  for (const Piece& piece : pieces_) {
    const LockHolder holder(piece.lock.get());
    std::memcpy(piece.data(), piece.before.data(), piece.before.size());
  }
  for (const Pending& pending : pending_) {
    if (pending.before.get() == pending.after.get() || !pending.before) {
      continue;
    }
    if (PyObject_SetAttr(pending.generator.get(), PendingName(),
                         pending.before.get()) != 0) {
      PyErr_Clear();
    }
  }
}

}  // namespace mica
