// What a run leaves behind in Python's state and in its arguments.

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "python/capture/record/record_maker.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"

namespace mica {
namespace {

// Puts what is set of a dict of which something was removed and then set in
// the order of that dict.
void PutInOrder(std::vector<Written>* written) {
  absl::flat_hash_set<PyObject*> dicts;
  for (const Written& one : *written) {
    if (one.is_moved) dicts.insert(one.place.holder.get());
  }
  for (PyObject* dict : dicts) {
    absl::flat_hash_map<PyObject*, size_t> index;  // By key.
    std::vector<size_t> places;
    for (size_t i = 0; i < written->size(); ++i) {
      const Written& one = (*written)[i];
      if (one.place.holder.get() != dict || one.is_removed) continue;
      index[one.place.key.get()] = i;
      places.push_back(i);
    }
    std::vector<Written> ordered;
    for (const PyRef& key : KeysOf(dict)) {
      for (const auto& [own, i] : index) {
        if (!SameValue(own, key.get())) continue;
        ordered.push_back((*written)[i]);
        break;
      }
    }
    if (ordered.size() != places.size()) continue;
    for (size_t i = 0; i < places.size(); ++i) {
      (*written)[places[i]] = std::move(ordered[i]);
    }
  }
}

}  // namespace

bool RecordMaker::RefuseChange(std::string reason) {
  return Refuse({.reason = std::move(reason),
                 .mend = "keep such changes out of the compiled function",
                 .at = {},
                 .transient = true,
                 .places = run_.watch.refusals().changes()});
}

std::vector<Written> RecordMaker::FindWritten(Rewritten* rewritten,
                                              std::string* reason) {
  const auto is_number = [](PyObject* object) {
    return object != nullptr && IsNumber(object);
  };
  const WrittenPlaces& places = run_.watch.written();
  std::vector<Written> written;
  for (const StatePlace& place : places.places()) {
    PyObject* after = place.Find();
    if (run_.watch.handles().IsId(place.key.get())) {
      if (after == nullptr) continue;  // A hit registers none.
      *reason = absl::StrCat("leaves a hook: ", place.note.path);
    }
    PyObject* noted =
        run_.watch.guards().Noted(place.holder.get(), place.key.get());
    const bool is_moved = after != nullptr && places.HasRemoved(place);
    if (noted != nullptr) {
      PyObject* before = noted == Slots::Absent() ? nullptr : noted;
      // A number that may vary is only by chance what was there.
      const bool is_same =
          SameValue(before, after) && !run_.watch.values().HasKnown(after);
      if (is_same && !is_moved) continue;
      const bool is_constant = before == nullptr || IsConstant(before);
      if (is_same) {
        // Only its place in the dict is another.
      } else if (!is_constant || (is_number(before) && is_number(after))) {
        *reason = absl::StrCat("changes state: ",
                               Miss{.note = place.note,
                                    .expected = DescribeValue(before),
                                    .got = DescribeValue(after)}
                                   .ToString());
        attempt_.slots.push_back(place);
      }
    }
    rewritten->places.insert({place.holder.get(), place.key.get()});
    written.push_back({.place = place,
                       .is_removed = after == nullptr,
                       .is_moved = is_moved,
                       .before = PyRef::Share(noted)});
  }
  PutInOrder(&written);
  return written;
}

bool RecordMaker::FindEffects() {
  StateGuards& guards = run_.watch.guards();
  ContainerChanges& containers = run_.watch.containers();
  Rewritten rewritten;
  std::string reason;
  std::vector<Written> written = FindWritten(&rewritten, &reason);
  for (const Written& one : written) left_.push_back(one.place.Find());
  if (!reason.empty()) return RefuseChange(std::move(reason));
  std::vector<Increment> increments;
  if (!run_.watch.written().FinishIncrements(&increments, &reason) ||
      !containers.Check(&reason)) {
    guards.FindChangedSequences(&attempt_.slots);
    return RefuseChange(std::move(reason));
  }
  for (const Increment& increment : increments) {
    rewritten.places.insert(
        {increment.place.holder.get(), increment.place.key.get()});
  }
  for (const auto& [container, before] : containers.changed()) {
    rewritten.containers.insert(container);
  }
  const NumberSource* replaced =
      run_.watch.values().FindReplaced([&](const NumberSource& source) {
        return rewritten.places.contains({source.dict.get(), source.key.get()});
      });
  if (replaced != nullptr) {
    return RefuseChange(
        absl::StrCat("changes state: ", replaced->note.path, ", in C code"));
  }
  for (const ContainerCall& call : containers.calls()) {
    for (const PyRef& arg : call.args) left_.push_back(arg.get());
  }
  Miss miss;
  if (!guards.CheckBut(rewritten, &miss)) {
    guards.FindChangedInstances(&attempt_.changed);
    guards.FindChangedSequences(&attempt_.slots);
    guards.FindArrays(nullptr, &attempt_.slots);
    return RefuseChange(absl::StrCat("changes state: ", miss.ToString()));
  }
  record_.effects_ =
      Effects(run_.watch.host_calls().calls(), std::move(written),
              std::move(increments), containers.calls());
  return true;
}

void RecordMaker::FindWanted() {
  refusal_.transient |=
      run_.watch.containers().FindWanted(&attempt_.slots, &attempt_.changed);
  const auto wanted = run_.watch.refusals().wanted_slots();
  attempt_.slots.insert(attempt_.slots.end(), wanted.begin(), wanted.end());
}

bool RecordMaker::FindArgumentChanges() {
  auto [changes, why] = record_.inputs_.FindChanges(run_.watch.values());
  if (why) return Refuse(std::move(why));
  for (const InputGuards::Tensor& tensor : record_.inputs_.tensors()) {
    if (RequiresGrad(tensor.recorded) == tensor.meta.requires_grad ||
        run_.watch.tensors().gradients().HasTouched(tensor.recorded)) {
      continue;
    }
    return Refuse({.reason = absl::StrCat("changes whether an argument "
                                          "requires grad: ",
                                          tensor.path)});
  }
  attempt_.adds_results =
      absl::c_any_of(changes, [&](const InputGuards::Change& change) {
        return record_.inputs_.AddsResults(change);
      });
  record_.argument_changes_ = ArgumentChanges(std::move(changes), &left_);
  if (record_.inputs_.has_mutable_containers() &&
      !(record_.argument_changes_.empty() && record_.effects_.empty())) {
    record_.inputs_.KeepApart(run_.watch.ages().OldContainers());
  }
  return true;
}

bool RecordMaker::FindFirstArguments() {
  const HostCallWatch& calls = run_.watch.host_calls();
  std::vector<PyObject*> arguments;
  for (const PyRef& argument :
       calls.arguments().subspan(0, calls.num_first_arguments())) {
    arguments.push_back(argument.get());
  }
  auto [tree, why] = ResultTree::Build(Py_None, arguments, run_.watch,
                                       record_.inputs_, &tensors_);
  if (why) return Refuse(std::move(why));
  record_.first_arguments_ = std::move(tree);
  return true;
}

}  // namespace mica
