// What a run has left in older objects so far, and all that those hold.

#ifndef MICA_PYTHON_CAPTURE_WATCH_LEFT_CONTENTS_H_
#define MICA_PYTHON_CAPTURE_WATCH_LEFT_CONTENTS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "python/capture/values/places.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// A hit has what is there when the run is over. Code of the user's that is
// called before may change it: then a hit would find the change made already.
// Looks at the places that the program set, and at what is in the objects that
// it made and left there.
class LeftContents {
 public:
  using IsOwn = absl::FunctionRef<bool(PyObject*)>;

  // Notes what is in `place`. `is_own` says what the program made.
  void AddPlace(const StatePlace& place, IsOwn is_own);
  // Notes what `value`, left in some container, holds.
  void AddValue(PyObject* value, const std::string& path, IsOwn is_own);
  // The path of something that isn't what it was; "" if there is none.
  std::string FindChanged() const;

 private:
  struct Place {
    StatePlace place;
    PyRef value;
  };
  struct Contents {
    PyRef object;
    std::vector<PyRef> held;
    std::string path;
  };
  std::vector<Place> places_;
  std::vector<Contents> contents_;
  absl::flat_hash_set<PyObject*> seen_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_LEFT_CONTENTS_H_
