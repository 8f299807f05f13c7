// Places of the state: items of dicts, which are globals, attributes too, and
// cells.

#ifndef MICA_PYTHON_CAPTURE_WATCH_PLACE_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_PLACE_WATCH_H_

#include <string>

#include "python/capture/watch/last_calls.h"
#include "python/capture/watch/watch_part.h"
#include "python/capture/watch/written_places.h"

namespace mica {

// Makes a guard of each older place that a program reads, unless it has set it
// itself, and an effect of each that it sets.
class PlaceWatch final : public WatchPart {
 public:
  PlaceWatch(WatchGround& ground, LastCalls& last_calls, WrittenPlaces& written)
      : WatchPart(ground), last_calls_(last_calls), written_(written) {}

  void ReadGlobal(PyObject* globals, PyObject* builtins, PyObject* name);
  void WriteGlobal(PyObject* globals, PyObject* name);
  void ReadCell(PyObject* cell, PyObject* name);
  void WriteCell(PyObject* cell, PyObject* name);
  void Import(PyObject* name);
  // Reads or writes an item of an older dict, which is known as `path`.
  void UseItem(PyObject* dict, PyObject* key, const std::string& path,
               PlaceUse use);
  // Notes an item of a dict: its value, or that it is a promoted scalar.
  void AddItem(PyObject* dict, PyObject* key, GuardNote note);
  // True if `key` of `object` came by before, and that is all there is to it.
  bool IsKnown(PyObject* object, PyObject* key) {
    return written_.has_no_increments() && !IsFirst(object, key);
  }

 private:
  LastCalls& last_calls_;
  WrittenPlaces& written_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_PLACE_WATCH_H_
