// Which objects of the user's a Record keeps alive, and when it is of no more
// use since one is gone.

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "python/capture/record/record.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/sequences.h"

namespace mica {

void Record::FindSlots(std::vector<StatePlace>* slots) const {
  const StateGuards::Alive alive = guards_.FindAlive();
  effects_.FindSlots([&](PyObject* holder) { return alive.Has(holder); },
                     slots);
  // One that the program reads and changes, such as a hidden state's list or
  // the last frames' deque.
  std::vector<StatePlace> sequences;
  guards_.FindChangedSequences(&sequences);
  for (StatePlace& place : sequences) {
    if (effects_.Changes(place.holder.get())) {
      slots->push_back(std::move(place));
    }
  }
}

void Record::Keep(StateGuards& guards, PyObject* object) {
  if (object == nullptr || absl::c_linear_search(run_objects_, object)) return;
  guards.Hold(object);
  run_objects_.push_back(object);
}

PyTypeObject* Record::FindMisplaced(const CallArgs& args) {
  std::vector<PyObject*> values;
  return inputs_.FindMisplaced(WithSlots(args, &values));
}

void Record::NoteShared(const ReferenceCounts& own) {
  const auto note = [](PyObject* object, void* arg) {
    auto& [counts, shared] = *static_cast<
        std::pair<const ReferenceCounts&, std::vector<PyObject*>&>*>(arg);
    const auto it = counts.find(object);
    if ((PyDict_Check(object) || PyList_Check(object) || PyCell_Check(object) ||
         IsDeque(object)) &&
        it != counts.end() && Py_REFCNT(object) > it->second) {
      shared.push_back(object);
    }
    return 0;
  };
  std::pair<const ReferenceCounts&, std::vector<PyObject*>&> all(own, shared_);
  Traverse(note, &all);
}

bool Record::IsOrphaned(const ReferenceCounts& own, std::string* path) const {
  for (PyObject* object : shared_) {
    const auto it = own.find(object);
    if (it == own.end() || Py_REFCNT(object) > it->second) continue;
    *path = guards_.PathOf(object);
    return true;
  }
  return absl::c_any_of(members_, [&](const std::shared_ptr<Record>& member) {
    return member->IsOrphaned(own, path);
  });
}

void Record::LetGo() {
  const auto let_go_by = [](const auto& hold) {
    return [hold](LooseRef* ref) {
      if (!*ref || IsConstant(ref->get())) return;
      hold(ref->get());
      ref->LetGo();
    };
  };
  const auto let_go =
      let_go_by([this](PyObject* object) { guards_.Hold(object); });
  const auto let_go_but_for_runs =
      let_go_by([this](PyObject* object) { Keep(guards_, object); });
  inputs_.LetGo(let_go);
  result_.LetGo(let_go_but_for_runs);
  first_arguments_.LetGo(let_go_but_for_runs);
  effects_.LetGo(let_go_but_for_runs);
  host_inputs_.LetGo(let_go);
  size_inputs_.LetGo(let_go);
  guards_.LetGo();
  if (run_->backward != nullptr) run_->backward->LetGo();
}

}  // namespace mica
