// Which object the program has, where it asks for that.

#ifndef MICA_PYTHON_CAPTURE_WATCH_IDENTITY_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_IDENTITY_WATCH_H_

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "python/capture/watch/hook_handles.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// The step at hand asks which object something is: by `is`, `==`, a hash, a
// weak reference, id(). All such questions come here.
class IdentityWatch final : public WatchPart {
 public:
  IdentityWatch(WatchGround& ground, const HookHandles& handles)
      : WatchPart(ground), handles_(handles) {}

  // An argument that is taken apart is then guarded to be none of the objects
  // of the state.
  void Identify(PyObject* object);
  // The same for all that code in C finds in it.
  void IdentifyDeep(PyObject* object);
  // The same of two constants: equal ones may be one object or not.
  void IdentifyConstants(PyObject* a, PyObject* b);
  // Refuses to look for a NaN among others: it is found by identity alone.
  void LookFor(PyObject* item);
  // The step at hand calls hash().
  void TakeHash(PyObject* object);
  // It calls id() of `object`, or hash() of what has that hash.
  void TakeAddress(PyObject* object);
  // What it gave.
  void EndStep(PyObject* result) {
    if (step_.gives_address && result != nullptr) values_.AddAddress(result);
  }
  // True for an address that a set or a dict of the run's own takes as a key,
  // and for a hook's number there.
  bool IsOwnKey(PyObject* container, PyObject* key);

  // Arguments that are taken apart and of which the program asked which object
  // they are.
  const absl::flat_hash_set<PyObject*>& identified() const {
    return identified_;
  }
  // Pairs of equal numbers or texts that the program compared by identity.
  const std::vector<std::pair<PyRef, PyRef>>& compared_constants() const {
    return compared_constants_;
  }
  // Refuses a run that used the address of an object in any way but for the
  // object. Requires: the run is over, and all that it left was looked at.
  void CheckAddresses();

 private:
  const HookHandles& handles_;
  absl::flat_hash_set<PyObject*> identified_;
  std::vector<std::pair<PyRef, PyRef>> compared_constants_;
  absl::flat_hash_set<std::pair<PyObject*, PyObject*>> compared_;  // The same.
  std::vector<FrameSites> address_sites_;  // Where the run called id(),
  UserLine address_at_;                    // first here.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_IDENTITY_WATCH_H_
