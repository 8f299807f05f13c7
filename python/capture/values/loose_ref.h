// References to objects that may be let go.

#ifndef MICA_PYTHON_CAPTURE_VALUES_LOOSE_REF_H_
#define MICA_PYTHON_CAPTURE_VALUES_LOOSE_REF_H_

#include <utility>

#include "python/interpreter/py_ref.h"

namespace mica {

// A strong reference that can be let go. From then on it only names the object:
// it may be followed where something else is known to keep that alive. A copy
// is a strong reference again, so an object that may be gone can't be copied.
// Needs the GIL.
class LooseRef {
 public:
  LooseRef() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): one is as good as the other.
  LooseRef(PyRef object) : object_(object.get()), own_(std::move(object)) {}
  LooseRef(const LooseRef& other) : LooseRef(PyRef::Share(other.object_)) {}
  LooseRef(LooseRef&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)),
        own_(std::move(other.own_)) {}
  LooseRef& operator=(LooseRef other) noexcept {
    std::swap(object_, other.object_);
    std::swap(own_, other.own_);
    return *this;
  }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  void LetGo() { own_ = PyRef(); }
  // The object as far as this keeps it alive, else null: for Python's garbage
  // collector.
  PyObject* held() const { return own_.get(); }

 private:
  PyObject* object_ = nullptr;
  PyRef own_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_LOOSE_REF_H_
