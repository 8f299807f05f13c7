// Inputs and states that lie in one storage which is only read.

#include <algorithm>
#include <map>
#include <set>

#include "analysis/lower/tape_memory.h"

namespace mica {
namespace {

// Storages that several inputs and states lie in, and nothing writes.
std::set<int32_t> SharedToRead(const Tape& tape) {
  std::map<int32_t, int> uses;
  for (const auto* ids : {&tape.inputs, &tape.states}) {
    for (const TapeTensorId id : *ids) ++uses[tape.tensors[id].storage];
  }
  std::set<int32_t> shared;
  for (const auto& [storage, count] : uses) {
    if (count > 1) shared.insert(storage);
  }
  if (shared.empty()) return shared;
  for (const TapeTensorId id : tape.mutated) {
    shared.erase(tape.tensors[id].storage);
  }
  for (const TapeCall& call : tape.calls) {
    ForEachWritten(
        call, [&](TapeTensorId id) { shared.erase(tape.tensors[id].storage); });
  }
  return shared;
}

// Which input or state each tensor is a view of.
class Owners {
 public:
  explicit Owners(const Tape& tape)
      : tape_(tape), owners_(tape.tensors.size(), kNoTapeTensor) {
    for (const auto* ids : {&tape.inputs, &tape.states}) {
      for (const TapeTensorId id : *ids) owners_[id] = id;
    }
    for (const TapeCall& call : tape.calls) AddViews(call);
  }

  TapeTensorId of(TapeTensorId id) const {
    while (owners_[id] == kNoTapeTensor &&
           tape_.tensors[id].origin == TapeOrigin::kAlias) {
      id = tape_.tensors[id].base;
    }
    return owners_[id];
  }

 private:
  void AddViews(const TapeCall& call) {
    for (const TapeValue& output : call.outputs) {
      ForEachTensor(output, [&](TapeTensorId id) {
        if (owners_[id] == kNoTapeTensor) owners_[id] = OwnerIn(call, id);
      });
    }
  }

  // That of the argument in whose storage a result lies.
  TapeTensorId OwnerIn(const TapeCall& call, TapeTensorId result) const {
    TapeTensorId owner = kNoTapeTensor;
    for (const TapeValue& arg : call.args) {
      ForEachTensor(arg, [&](TapeTensorId id) {
        if (owner == kNoTapeTensor &&
            tape_.tensors[id].storage == tape_.tensors[result].storage) {
          owner = of(id);
        }
      });
    }
    return owner;
  }

  const Tape& tape_;
  std::vector<TapeTensorId> owners_;
};

}  // namespace

std::vector<int32_t> TapeMemory::MemoriesOf(const Tape& tape) {
  std::vector<int32_t> memories;
  int32_t last = -1;
  for (const TapeTensor& tensor : tape.tensors) {
    memories.push_back(tensor.storage);
    last = std::max(last, tensor.storage);
  }
  std::set<int32_t> shared = SharedToRead(tape);
  if (shared.empty()) return memories;
  const Owners owners(tape);
  for (size_t id = 0; id < tape.tensors.size(); ++id) {
    // Of whose views one isn't known stays one memory.
    if (owners.of(static_cast<TapeTensorId>(id)) == kNoTapeTensor) {
      shared.erase(tape.tensors[id].storage);
    }
  }
  for (size_t id = 0; id < tape.tensors.size(); ++id) {
    if (!shared.contains(tape.tensors[id].storage)) continue;
    memories[id] = last + 1 + owners.of(static_cast<TapeTensorId>(id));
  }
  return memories;
}

}  // namespace mica
