// What a program looks at.

#ifndef MICA_PYTHON_CAPTURE_WATCH_OBJECT_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_OBJECT_WATCH_H_

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "python/capture/watch/cache_uses.h"
#include "python/capture/watch/container_changes.h"
#include "python/capture/watch/identity_watch.h"
#include "python/capture/watch/last_calls.h"
#include "python/capture/watch/place_watch.h"
#include "python/capture/watch/watch_part.h"
#include "python/capture/watch/written_places.h"

namespace mica {

// Makes a guard of each older object that an operator, or code in C, looks at,
// whatever its kind.
class ObjectWatch final : public WatchPart {
 public:
  struct Parts {
    LastCalls& last_calls;
    ContainerChanges& containers;
    WrittenPlaces& written;
    CacheUses& caches;
    IdentityWatch& identity;
    PlaceWatch& places;
  };
  ObjectWatch(WatchGround& ground, const Parts& parts)
      : WatchPart(ground),
        last_calls_(parts.last_calls),
        containers_(parts.containers),
        written_(parts.written),
        caches_(parts.caches),
        identity_(parts.identity),
        places_(parts.places) {}

  // `depth` is kShallow, or kDeep for what C code gets.
  void Touch(PyObject* object, int depth = kShallow);
  void TouchType(PyTypeObject* type);
  // Notes which class an older object is of.
  void TouchClassOf(PyObject* object);
  // The classes of a call's arguments, and of what is in those that are tuples.
  // `asks_tensors`: for more than their classes, of those that are tensors.
  void TouchClasses(absl::Span<PyObject* const> args,
                    bool asks_tensors = false);
  // Notes what an older object in C, or a class or a function, has for `name`:
  // no version of it tells of a change.
  void HoldAttribute(PyObject* owner, PyObject* name);
  // The same of a class or a function, if C code keeps it and it is a text, as
  // its name: a version, or a fact of its own, tells of other things.
  void HoldText(PyObject* owner, PyObject* name);
  // Text is made of it.
  void Format(PyObject* object);
  // Its value is asked for, or those of the numbers that it holds.
  void Inspect(PyObject* object);

  // Code in C goes through a dict, or a view of one, and looks at the keys
  // only: at those of its items, too, as no two are equal. False, with nothing
  // done, if it is something else, or has other keys than texts.
  bool TouchNames(PyObject* items);

  // An operator of Python's is about to be applied to `operand`.
  void CheckOperand(PyObject* operand);
  // `function` is about to run.
  void EnterFunction(PyObject* function);
  // What a builtin method is bound to, which is as old as that; or null.
  PyRef SelfOfCall(PyObject* callable);

 private:
  void TouchTensor(PyObject* tensor);
  bool CheckSizes(PyObject* tensor);  // Refuses if it has none.
  void TouchArray(PyObject* array, int depth);
  void TouchContainer(PyObject* object, int depth);
  void TouchKeys(PyObject* dict);
  // Reads each item of an older dict as a place, as the program may have set
  // some of them, and notes its keys. False if that isn't all there is to it.
  bool ReadItems(PyObject* dict);
  // What an iterator, or a dict's view, that the run made will give.
  void TouchSources(PyObject* iterator, int depth);
  void TouchInstance(PyObject* object);
  void TouchException(PyObject* exception);
  // Compares by value, or hashes: containers that `object` holds, not objects.
  void LookInto(PyObject* object, int depth);
  void TouchTupleTypes(PyObject* tuple);
  // A callable that C code may call behind the stream's back.
  void CheckCallback(PyObject* callable);

  LastCalls& last_calls_;
  ContainerChanges& containers_;
  WrittenPlaces& written_;
  CacheUses& caches_;
  IdentityWatch& identity_;
  PlaceWatch& places_;
  // What Touch() and LookInto() have come to so far, of all that an object
  // holds.
  absl::flat_hash_map<PyObject*, PyRef> touched_;
  absl::flat_hash_map<PyObject*, PyRef> looked_into_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_OBJECT_WATCH_H_
