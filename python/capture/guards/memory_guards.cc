#include "python/capture/guards/memory_guards.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hit_code.h"
#include "framework/tensor/dtype.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

int64_t ElementBytesOf(const std::string& dtype) {
  const std::optional<DType> known = ParseDType(dtype);
  return known.has_value() ? ElementBytes(*known) : 16;
}

// Storages with tensors that a call views as complex numbers: torch refuses
// that from an odd element on.
std::set<int32_t> PairedStorages(const Tape& tape) {
  std::set<int32_t> storages;
  for (const TapeCall& call : tape.calls) {
    if (call.op != "aten.view_as_complex") continue;
    const auto* ref = std::get_if<TapeTensorRef>(&call.args[0]);
    if (ref != nullptr) storages.insert(tape.tensors[ref->id].storage);
  }
  return storages;
}

}  // namespace

MemoryGuards::MemoryGuards(const Tape& tape, bool reads_offsets)
    : has_offsets_(reads_offsets ||
                   std::any_of(tape.calls.begin(), tape.calls.end(),
                               CountsFromStorage)) {
  const std::set<int32_t> paired = PairedStorages(tape);
  std::map<int32_t, int> first;  // Of each storage.
  for (const auto* ids : {&tape.inputs, &tape.states}) {
    for (const TapeTensorId id : *ids) {
      const TapeTensor& tensor = tape.tensors[id];
      const int64_t bytes = ElementBytesOf(tensor.dtype);
      External external{.name = tensor.name,
                        .storage = tensor.storage,
                        .offset = tensor.offset,
                        .offset_step = has_offsets_                      ? 0
                                       : paired.contains(tensor.storage) ? 2
                                                                         : 1};
      has_offsets_in_steps_ |= external.offset_step == 2;
      external.high = bytes;
      for (size_t i = 0; i < tensor.sizes.size(); ++i) {
        external.high += (tensor.sizes[i] - 1) * tensor.strides[i] * bytes;
        if (tensor.sizes[i] == 0) external.high = 0;
        if (tensor.sizes[i] == 0) break;
      }
      external.is_mutated = std::find(tape.mutated.begin(), tape.mutated.end(),
                                      id) != tape.mutated.end();
      has_mutation_ |= external.is_mutated;
      const int index = static_cast<int>(externals_.size());
      const auto [it, is_new] = first.try_emplace(tensor.storage, index);
      if (!is_new) {
        const TapeTensor& other =
            tape.tensors[it->second < static_cast<int>(tape.inputs.size())
                             ? tape.inputs[it->second]
                             : tape.states[it->second - tape.inputs.size()]];
        pairs_.push_back(
            {.a = it->second,
             .b = index,
             .distance = tensor.offset * bytes -
                         other.offset * ElementBytesOf(other.dtype)});
      }
      externals_.push_back(std::move(external));
    }
  }
}

std::string MemoryGuards::OffsetText(const External& external) {
  if (external.offset_step == 2) {
    return absl::StrCat(external.offset % 2 == 0 ? "an even" : "an odd",
                        " offset in its storage");
  }
  return absl::StrCat("offset ", external.offset, " in its storage");
}

MICA_HIT_CODE bool MemoryGuards::Check(absl::Span<PyObject* const> inputs,
                                       absl::Span<PyObject* const> states,
                                       Miss* miss) {
  const bool checks_offsets = has_offsets_ || has_offsets_in_steps_;
  if (pairs_.empty() && !has_mutation_ && !checks_offsets) return true;
  const auto tensor = [&](int i) {
    const int count = static_cast<int>(inputs.size());
    return i < count ? inputs[i] : states[i - count];
  };
  // One that is yet to be drawn has memory of its own.
  const auto data_of = [&](int i) {
    PyObject* found = tensor(i);
    return found == nullptr ? nullptr : static_cast<char*>(DataOf(found));
  };
  const auto differ = [&](int index, const char* got) {
    if (miss != nullptr) {
      *miss = {.kind = "memory",
               .note = {.path = externals_[index].name},
               .expected = "memory shared with other tensors as it was",
               .got = got};
    }
    return false;
  };
  for (size_t i = 0; checks_offsets && i < externals_.size(); ++i) {
    if (tensor(static_cast<int>(i)) == nullptr) continue;
    const int64_t now = StorageOffsetOf(tensor(static_cast<int>(i)));
    const int64_t step = externals_[i].offset_step;
    const int64_t moved = now - externals_[i].offset;
    if (step == 0 ? moved == 0 : moved % step == 0) continue;
    if (miss != nullptr) {
      *miss = {.kind = "memory",
               .note = {.path = externals_[i].name},
               .expected = OffsetText(externals_[i]),
               .got = absl::StrCat(now)};
    }
    return false;
  }
  for (const Pair& pair : pairs_) {
    if (tensor(pair.a) == nullptr || tensor(pair.b) == nullptr) continue;
    const auto* a = data_of(pair.a);
    const auto* b = data_of(pair.b);
    if (StorageOf(tensor(pair.a)) != StorageOf(tensor(pair.b)) ||
        b - a != pair.distance) {
      return differ(pair.b, "other memory");
    }
  }
  if (!has_mutation_) return true;
  std::vector<char*> data;
  data.reserve(externals_.size());
  for (size_t i = 0; i < externals_.size(); ++i) {
    data.push_back(data_of(static_cast<int>(i)));
  }
  if (data == last_good_) return true;
  if (!CheckDisjoint(data, miss) || !CheckArrays(data, miss)) return false;
  last_good_ = std::move(data);
  return true;
}

// Sweeps over the spans by address: one that begins inside an earlier one
// overlaps it.
bool MemoryGuards::CheckDisjoint(const std::vector<char*>& data, Miss* miss) {
  std::vector<int> order(externals_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto low = [&](int i) { return data[i] + externals_[i].low; };
  const auto high = [&](int i) { return data[i] + externals_[i].high; };
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return low(a) < low(b); });
  std::vector<int> open;
  for (const int i : order) {
    if (externals_[i].high == 0) continue;
    std::erase_if(open, [&](int other) { return high(other) <= low(i); });
    for (const int other : open) {
      if (externals_[i].storage == externals_[other].storage) continue;
      if (!externals_[i].is_mutated && !externals_[other].is_mutated) continue;
      if (miss != nullptr) {
        *miss = {.kind = "memory",
                 .note = {.path = externals_[i].name},
                 .expected =
                     absl::StrCat("memory apart from ", externals_[other].name),
                 .got = "overlapping memory"};
      }
      return false;
    }
    open.push_back(i);
  }
  return true;
}

void MemoryGuards::AddArray(std::string name, const char* low,
                            const char* high) {
  arrays_.push_back({.name = std::move(name), .low = low, .high = high});
}

bool MemoryGuards::CheckArrays(const std::vector<char*>& data,
                               Miss* miss) const {
  for (size_t i = 0; i < data.size() && !arrays_.empty(); ++i) {
    const External& external = externals_[i];
    if (!external.is_mutated || external.high == 0) continue;
    for (const Array& array : arrays_) {
      if (data[i] + external.high <= array.low ||
          array.high <= data[i] + external.low) {
        continue;
      }
      if (miss != nullptr) {
        *miss = {.kind = "memory",
                 .note = {.path = external.name},
                 .expected = absl::StrCat("memory apart from the numpy array ",
                                          array.name),
                 .got = "overlapping memory"};
      }
      return false;
    }
  }
  return true;
}

void MemoryGuards::AppendText(std::vector<std::string>* lines) const {
  for (const Pair& pair : pairs_) {
    lines->push_back(absl::StrCat(externals_[pair.b].name, " lies ",
                                  pair.distance, " bytes behind ",
                                  externals_[pair.a].name));
  }
  for (const External& external : externals_) {
    if (external.offset_step == 1) continue;
    lines->push_back(
        absl::StrCat(external.name, " lies at ", OffsetText(external)));
  }
  if (!has_mutation_) return;
  for (const External& external : externals_) {
    if (!external.is_mutated) continue;
    lines->push_back(absl::StrCat(external.name,
                                  ", which is written, lies apart from the "
                                  "rest"));
  }
}

}  // namespace mica
