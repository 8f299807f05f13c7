// Containers of the state that a program changes.

#ifndef MICA_PYTHON_CAPTURE_WATCH_CONTAINER_CHANGES_H_
#define MICA_PYTHON_CAPTURE_WATCH_CONTAINER_CHANGES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "python/capture/effects/effects.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Older lists, sets and deques that the run changed by methods that are known,
// and the calls that did: a hit makes these again.
class ContainerChanges final : public WatchPart {
 public:
  explicit ContainerChanges(WatchGround& ground) : WatchPart(ground) {}

  // The first such change of `container` comes. False if it can't be copied.
  bool Begin(PyObject* container);
  // A call that changes a container that has begun to.
  void Add(ContainerCall call);
  // Whether it held nothing before; if so, that is noted now, and it may be
  // read: all that is in it is the run's own.
  bool ReadEmpty(PyObject* container);
  // A method in C may change it: what is in it now may differ from what a hit
  // begins with.
  void AddUnknown(PyObject* container) { changed_by_call_.insert(container); }

  bool Has(PyObject* container) const { return changed_.contains(container); }
  // True if nobody noted what it held before.
  bool IsUnread(PyObject* container) const {
    return unread_.contains(container);
  }
  bool HasUnknown(PyObject* container) const {
    return changed_by_call_.contains(container);
  }
  // If it is a list or deque that the run changed, whose items had better be
  // read as arguments are: notes that.
  void WantSequence(PyObject* container);
  // Adds those, once the run is over, that IsSlotSequence(). False for none.
  // `changed` gets the deques among them.
  bool FindWanted(std::vector<StatePlace>* slots,
                  std::vector<PyRef>* changed) const;

  // In order.
  const std::vector<ContainerCall>& calls() const { return calls_; }
  // As they were before.
  const absl::flat_hash_map<PyObject*, PyRef>& changed() const {
    return changed_;
  }
  // Items of copies whose end somebody would notice, and how often copies hold
  // them.
  const absl::flat_hash_map<PyObject*, Py_ssize_t>& noticed() const {
    return noticed_;
  }
  // Of a run that is refused.
  void Forget();
  // False, with a reason, if one isn't what the calls make of it.
  bool Check(std::string* reason);

 private:
  std::vector<ContainerCall> calls_;
  absl::flat_hash_map<PyObject*, PyRef> changed_;  // Copies.
  absl::flat_hash_map<PyObject*, Py_ssize_t> noticed_;
  absl::flat_hash_set<PyObject*> unread_;
  absl::flat_hash_set<PyObject*> changed_by_call_;
  struct Wanted {
    StatePlace place;
    size_t size_before = 0;
  };
  std::vector<Wanted> wanted_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_CONTAINER_CHANGES_H_
