// The attributes that a program uses.

#ifndef MICA_PYTHON_CAPTURE_WATCH_ATTRIBUTE_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_ATTRIBUTE_WATCH_H_

#include <functional>
#include <utility>

#include "absl/types/span.h"
#include "python/capture/watch/identity_watch.h"
#include "python/capture/watch/last_calls.h"
#include "python/capture/watch/number_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/place_watch.h"
#include "python/capture/watch/tensor_watch.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Finds where an attribute of an object comes from, as CPython does, and has
// each place on the way guarded.
class AttributeWatch final : public WatchPart {
 public:
  struct Parts {
    LastCalls& last_calls;
    IdentityWatch& identity;
    ObjectWatch& objects;
    NumberWatch& numbers;
    TensorWatch& tensors;
    PlaceWatch& places;
  };
  // `on_getter` is told of a property's getter that is called for an object.
  AttributeWatch(
      WatchGround& ground, const Parts& parts,
      std::function<void(PyObject* getter, PyObject* owner)> on_getter)
      : WatchPart(ground),
        last_calls_(parts.last_calls),
        identity_(parts.identity),
        objects_(parts.objects),
        numbers_(parts.numbers),
        tensors_(parts.tensors),
        places_(parts.places),
        on_getter_(std::move(on_getter)) {}

  void Use(PyObject* owner, PyObject* name, PlaceUse use);
  void Read(PyObject* owner, PyObject* name) {
    Use(owner, name, PlaceUse::kRead);
  }
  // An operator.attrgetter is called.
  void GetBy(PyObject* getter, absl::Span<PyObject* const> args,
             bool is_in_c_code);
  // C code gets `args`; an attribute getter among them it may call with the
  // items of the others.
  void TouchArgs(absl::Span<PyObject* const> args);

 private:
  void UseOfModule(PyObject* module, PyObject* name, PlaceUse use);
  void UseOfInstance(PyObject* owner, PyObject* name, PlaceUse use);
  void ReadOfType(PyTypeObject* type, PyObject* name);
  void ReadOfSuper(PyObject* super, PyObject* name);
  void UseOfFunction(PyObject* owner, PyObject* name, PlaceUse use);
  // What a getset descriptor gives.
  void ReadComputed(PyObject* owner, PyObject* name);
  // Notes whether the step at hand takes a view of an array.
  void TakeFromArray(PyObject* owner, PyObject* name);
  // Notes how `descriptor`, found on the class, answers. False if the
  // instance's own dict has the word.
  bool UseDescriptor(PyObject* owner, PyObject* name, PyObject* descriptor);
  // The age of a dict that the collector doesn't track is that of what it was
  // reached by.
  void MarkHeldDict(PyObject* owner, PyObject* name);

  LastCalls& last_calls_;
  IdentityWatch& identity_;
  ObjectWatch& objects_;
  NumberWatch& numbers_;
  TensorWatch& tensors_;
  PlaceWatch& places_;
  const std::function<void(PyObject*, PyObject*)> on_getter_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_ATTRIBUTE_WATCH_H_
