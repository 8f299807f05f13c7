// The items of containers that a program uses.

#ifndef MICA_PYTHON_CAPTURE_WATCH_ITEM_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_ITEM_WATCH_H_

#include <string>

#include "absl/types/span.h"
#include "python/capture/watch/container_changes.h"
#include "python/capture/watch/hook_handles.h"
#include "python/capture/watch/identity_watch.h"
#include "python/capture/watch/last_calls.h"
#include "python/capture/watch/number_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/place_watch.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// A dict's items are places by themselves; of other containers all is looked
// at. Methods that change a container are made again at each hit.
class ItemWatch final : public WatchPart {
 public:
  struct Parts {
    LastCalls& last_calls;
    ContainerChanges& containers;
    const HookHandles& handles;
    IdentityWatch& identity;
    ObjectWatch& objects;
    NumberWatch& numbers;
    PlaceWatch& places;
  };
  ItemWatch(WatchGround& ground, const Parts& parts)
      : WatchPart(ground),
        last_calls_(parts.last_calls),
        containers_(parts.containers),
        handles_(parts.handles),
        identity_(parts.identity),
        objects_(parts.objects),
        numbers_(parts.numbers),
        places_(parts.places) {}

  // container[key], or whether it is there.
  void Use(PyObject* container, PyObject* key);
  // Of a defaultdict that doesn't have the key, so that the factory is followed
  // as well as the item that it gets: what does that in Python. Else null.
  PyRef InPlaceOf(PyObject* container, PyObject* key);
  void Write(PyObject* container, PyObject* key, PyObject* value);
  void Remove(PyObject* container, PyObject* key);
  // A method of a dict that reads, sets or removes one item.
  void UseBy(PyObject* method, absl::Span<PyObject* const> args);
  // The further arguments of a call that looks at its arguments, not into them.
  void Move(PyObject* callable, absl::Span<PyObject* const> args);
  // A method call that changes an older container; false if it is none such.
  bool ChangeContainer(PyObject* method, absl::Span<PyObject* const> args);
  // Whether it only puts an address into a set of the run's own.
  bool KeepsAddress(PyObject* method, absl::Span<PyObject* const> args);

 private:
  // `key` is the number of a hook that the run registered. False if it isn't.
  bool UseHook(PyObject* container, PyObject* key, PlaceUse use);
  void TouchDictClass(PyObject* dict);
  void TouchBounds(PyObject* key);
  // What a hit passes to `method` of `container` for `arg`; null if that isn't
  // known.
  PyRef ArgumentOfChange(PyObject* container, const std::string& method,
                         PyObject* arg);

  LastCalls& last_calls_;
  ContainerChanges& containers_;
  const HookHandles& handles_;
  IdentityWatch& identity_;
  ObjectWatch& objects_;
  NumberWatch& numbers_;
  PlaceWatch& places_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_ITEM_WATCH_H_
