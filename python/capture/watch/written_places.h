// Places of the state that a program sets or adds to.

#ifndef MICA_PYTHON_CAPTURE_WATCH_WRITTEN_PLACES_H_
#define MICA_PYTHON_CAPTURE_WATCH_WRITTEN_PLACES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "python/capture/effects/effects.h"
#include "python/capture/values/host_values.h"
#include "python/capture/values/places.h"
#include "python/capture/watch/container_changes.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Removing what is in a place reads it too: it has to be there.
enum class PlaceUse { kRead, kWrite, kRemove };

// Items of older dicts and older cells that the run set; those that are read as
// arguments are (slots), or numbers to be followed (promoted); and numbers that
// it only adds to (increments).
class WrittenPlaces final : public WatchPart {
 public:
  WrittenPlaces(WatchGround& ground, const ContainerChanges& containers)
      : WatchPart(ground), containers_(containers) {}

  // Places that are read as arguments are. Outlives this.
  void SetSlots(const Slots* slots) { slots_ = slots; }
  // Numbers to follow as inputs; others are constants. Outlives this.
  void SetPromoted(const PromotedScalars* promoted) { promoted_ = promoted; }
  bool IsPromoted(PyObject* dict, PyObject* key) const {
    return promoted_ != nullptr && promoted_->HasItem(dict, key) &&
           !unfollowed_.contains(dict);
  }
  // No number in `dict` is followed: a class's. CPython keeps what it found
  // there, and what a watched run puts in its place isn't kept alive.
  void NeverFollow(PyObject* dict) { unfollowed_.insert(dict); }
  // Whether such a number is taken for a size.
  bool IsSize(PyObject* dict, PyObject* key) const {
    return promoted_->IsSizeItem(dict, key);
  }

  // What the step at hand reads is only read to have `addend` added.
  void BeginIncrement(PyObject* addend) {
    addend_ = addend;
    took_addend_ = false;
  }
  // True if what was read is a number in a place of the state.
  bool EndIncrement() {
    addend_ = nullptr;
    return took_addend_;
  }
  void SetStoresSum(bool stores) { stores_sum_ = stores; }
  // True while nothing is added to, nor was before.
  bool has_no_increments() const {
    return increments_.empty() && addend_ == nullptr;
  }

  // An equal key that is the same object each time that it is asked for.
  PyRef Canonical(PyObject* key);
  // True if a place's use is that of a slot, or a step of an increment.
  bool UseSpecially(PyObject* holder, PyObject* key, const std::string& path,
                    PlaceUse use);
  // In a later pass: refuses the use of a place of the state that it sets, or
  // that the run did.
  bool RefusesLaterUse(PyObject* holder, PyObject* key, const std::string& path,
                       PlaceUse use);
  void Write(PyObject* holder, PyRef key, const std::string& path);
  void AddRemoved(PyObject* dict, PyObject* key) {
    removed_.insert({dict, key});
  }

  bool IsWritten(PyObject* holder, PyObject* key) const {
    return HasWritten(holder) && written_keys_.contains({holder, key});
  }
  // Whether a place of `holder` was set,
  bool HasWritten(PyObject* holder) const { return holders_.contains(holder); }
  // or added to, too.
  bool HasChanged(PyObject* holder) const;
  // Those that the program set, in the order in which it first did.
  absl::Span<const StatePlace> places() const { return places_; }
  // Those that it set, added to or reads as arguments are.
  std::vector<StatePlace> AllPlaces() const;
  // Whether it removed one of them, before it set it perhaps.
  bool HasRemoved(const StatePlace& place) const {
    return removed_.contains({place.holder.get(), place.key.get()});
  }
  // Whether it set a place that wasn't there.
  bool IsNew(PyObject* dict, PyObject* key) {
    return new_.contains({dict, Canonical(key).get()});
  }
  // Whether it removed one of the items that the dict had.
  bool HasRemovedFrom(PyObject* dict) const;
  // Whether a list or deque was seen to have more items at each call.
  bool IsGrowing(PyObject* container) const {
    return slots_ != nullptr && slots_->Has(container, StatePlace::Growth());
  }
  // Whether a place of the dict's is read as arguments are, or a number in it
  // is followed.
  bool HasFollowed(PyObject* dict);
  // Numbers that it only added constants to. False, with a reason, if one isn't
  // what that would make of it. Notes those that it also read otherwise.
  bool FinishIncrements(std::vector<Increment>* increments,
                        std::string* reason);

 private:
  using Key = std::pair<PyObject*, PyObject*>;  // Holder, key.
  // False if what is read there is not to be added to.
  bool AddTo(PyObject* holder, PyObject* key, const std::string& path,
             Increment* known);

  const ContainerChanges& containers_;
  const Slots* slots_ = nullptr;
  const PromotedScalars* promoted_ = nullptr;
  absl::flat_hash_set<PyObject*> unfollowed_;
  PyObject* addend_ = nullptr;
  bool took_addend_ = false;
  bool stores_sum_ = false;
  std::vector<StatePlace> places_;
  absl::flat_hash_set<Key> written_keys_;
  absl::flat_hash_set<PyObject*> holders_;
  absl::flat_hash_set<Key> removed_;
  absl::flat_hash_set<Key> new_;
  std::vector<Increment> increments_;
  absl::flat_hash_map<Key, size_t> increment_index_;
  PyRef keys_;  // Canonical ones: a dict of each to itself.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_WRITTEN_PLACES_H_
