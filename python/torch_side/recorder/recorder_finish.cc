#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/lower/lower.h"
#include "analysis/lower/split_tape.h"
#include "framework/tensor/dtype.h"
#include "python/torch_side/recorder/recorder_impl.h"

namespace mica {
namespace {

// First byte, from the storage's start, and the one behind the last. Requires
// a dtype that Programs know.
std::pair<int64_t, int64_t> Extent(const TapeTensor& tensor) {
  const int64_t bytes = ElementBytes(*ParseDType(tensor.dtype));
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return {0, 0};
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return {tensor.offset * bytes, (last + 1) * bytes};
}

// An alias may reach no further than what it is said to be a view of.
absl::Status CheckAlias(const Tape& tape, TapeTensorId id) {
  const TapeTensor& alias = tape.tensors[id];
  const TapeTensor& base = tape.tensors[alias.base];
  const std::optional<DType> dtype = ParseDType(alias.dtype);
  const std::optional<DType> base_dtype = ParseDType(base.dtype);
  // Complex numbers may be seen as their parts.
  bool is_view = alias.dtype == base.dtype;
  if (dtype.has_value() && base_dtype.has_value()) {
    const auto [begin, end] = Extent(alias);
    const auto [base_begin, base_end] = Extent(base);
    is_view = RealDType(*dtype) == RealDType(*base_dtype) &&
              (begin == end || (begin >= base_begin && end <= base_end));
  }
  if (is_view) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "a tensor was made from another's memory by no recorded operator");
}

// Whether both are one counter: it stands the same, and does so after a step.
bool IsOneCounter(c10::VariableVersion a, const c10::VariableVersion& b) {
  const auto now = a.current_version();
  if (b.current_version() != now) return false;
  a.set_version(static_cast<int64_t>(now) + 1);
  const bool is_one = b.current_version() != now;
  a.set_version(now);
  return is_one;
}

}  // namespace

void Recorder::Impl::CountWrites(TapeTensorId num_seen, Result* out) const {
  // A `.data` of a tensor, over the same memory, has a counter of its own.
  absl::flat_hash_map<const c10::StorageImpl*, std::vector<TapeTensorId>> views;
  for (TapeTensorId id = 0; id < num_seen; ++id) {
    // A view that the run made has its own counter until autograd gives it its
    // base's, which is after it was seen.
    const bool is_made = tape.tensors[id].origin == TapeOrigin::kCall;
    if (seen[id].version >= 0 && !is_made)
      views[seen[id].storage_impl].push_back(id);
  }
  // Tensors that share a counter are counted once.
  std::vector<c10::VariableVersion> known;
  const auto count = [&](TapeTensorId id) -> int64_t {
    const auto tensor = seen[id].tensor.lock();
    if (seen[id].version < 0 || !tensor) return -1;
    const c10::VariableVersion& counter = tensor->version_counter();
    const auto now = static_cast<int64_t>(counter.current_version());
    int64_t first = now;
    for (const TapeTensorId view : views[seen[id].storage_impl]) {
      if (seen[view].version >= first) continue;
      const auto other = seen[view].tensor.lock();
      if (other && IsOneCounter(counter, other->version_counter())) {
        first = seen[view].version;
      }
    }
    if (first == now ||
        absl::c_any_of(known, [&](const c10::VariableVersion& one) {
          return IsOneCounter(counter, one);
        })) {
      return 0;
    }
    known.push_back(counter);
    return now - first;
  };
  for (const TapeTensorId id : tape.inputs) {
    out->input_writes.push_back(count(id));
  }
  for (const TapeTensorId id : tape.states) {
    out->state_writes.push_back(count(id));
  }
}

bool Recorder::HasWritten(PyObject* tensor) const {
  const at::Tensor& own = THPVariable_Unpack(tensor);
  const auto it = impl_->ids.find(own.unsafeGetTensorImpl());
  if (it == impl_->ids.end() || !impl_->IsCurrent(it->second, own) ||
      impl_->seen[it->second].unresolved) {
    return false;
  }
  const auto storage = impl_->storages.find(
      own.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  return storage != impl_->storages.end() && !storage->second.raw;
}

TapeTensorId Recorder::Find(PyObject* tensor) const {
  const at::Tensor& own = THPVariable_Unpack(tensor);
  const auto it = impl_->ids.find(own.unsafeGetTensorImpl());
  TapeTensorId id = kNoTapeTensor;
  if (it != impl_->ids.end()) {
    id = it->second;
  } else if (const Impl::Storage* storage = impl_->FindStorage(own)) {
    id = storage->root;
  }
  return id != kNoTapeTensor && impl_->IsCurrent(id, own) ? id : kNoTapeTensor;
}

bool Recorder::HasMade(PyObject* tensor) const {
  const at::Tensor& own = THPVariable_Unpack(tensor);
  const auto it = impl_->ids.find(own.unsafeGetTensorImpl());
  if (it == impl_->ids.end() || impl_->seen[it->second].unresolved) {
    return false;
  }
  const TapeOrigin origin = impl_->tape.tensors[it->second].origin;
  return origin == TapeOrigin::kCall || origin == TapeOrigin::kAlias ||
         origin == TapeOrigin::kConstant;
}

Recorder::MadeBy Recorder::FindMaker(PyObject* tensor) const {
  const at::Tensor& own = THPVariable_Unpack(tensor);
  const auto it = impl_->ids.find(own.unsafeGetTensorImpl());
  if (it == impl_->ids.end() || impl_->seen[it->second].unresolved ||
      !impl_->IsCurrent(it->second, own)) {
    return {};
  }
  const TapeTensor& made = impl_->tape.tensors[it->second];
  if (made.origin != TapeOrigin::kCall) return {};
  return {.call = made.call, .output = made.output, .item = made.item};
}

// Settles where the tensors of a tape come from, and what it returns.
class Recorder::Impl::Finisher {
 public:
  // All outlive this.
  Finisher(Impl& impl, Recorder& owner, const std::vector<StateTensor>& states)
      : impl_(impl), tape_(impl.tape), owner_(owner), states_(states) {
    for (const StateTensor& state : states) {
      const c10::TensorImpl* tensor =
          THPVariable_Unpack(state.tensor).unsafeGetTensorImpl();
      by_impl_.try_emplace(tensor, &state);
      // One that was given other data has another's storage.
      const auto known = impl.ids.find(tensor);
      if (known != impl.ids.end() && impl.seen[known->second].is_remade) {
        continue;
      }
      if (!tensor->has_storage()) continue;
      by_storage_.try_emplace(tensor->unsafe_storage().unsafeGetStorageImpl(),
                              &state);
    }
  }

  absl::StatusOr<Result> Finish(const std::vector<PyObject*>& results);

 private:
  // The tensor is of the program's state.
  void MakeState(TapeTensorId id, const StateTensor& state);
  // Fails for a tensor of unknown origin.
  absl::Status Settle(TapeTensorId id);
  // A view, by Tensor.data, of a state that no call takes by itself.
  absl::Status SettleView(TapeTensorId id, const StateTensor& owner);
  void ShowPartOf(TapeTensorId id, TapeTensorId base);
  // In this storage, a state that was given other data since; none if that is
  // kNoTapeTensor.
  TapeTensorId FindEarlier(const c10::StorageImpl* storage) const;
  absl::Status RefuseUnknown(TapeTensorId id) const;
  void AddAliased(TapeTensorId num_seen);
  absl::Status AddResults(const std::vector<PyObject*>& results);
  // What autocast keeps is a state, and was cast before the run.
  void SettleKeptWeights();
  // Alias chains end at a base that isn't one.
  void ShortenAliases();
  void FindMutated();
  void NameScopes();

  Impl& impl_;
  Tape& tape_;
  Recorder& owner_;
  const std::vector<StateTensor>& states_;
  absl::flat_hash_map<const c10::TensorImpl*, const StateTensor*> by_impl_;
  absl::flat_hash_map<const c10::StorageImpl*, const StateTensor*> by_storage_;
  Result out_;
};

void Recorder::Impl::Finisher::MakeState(TapeTensorId id,
                                         const StateTensor& state) {
  TapeTensor& record = tape_.tensors[id];
  record.origin = TapeOrigin::kState;
  record.name = state.name;
  impl_.seen[id].unresolved = false;
  tape_.states.push_back(id);
  out_.states.push_back(state.tensor);
}

void Recorder::Impl::Finisher::SettleKeptWeights() {
  for (const KeptWeight& kept : owner_.kept_weights()) {
    TapeTensor& record = tape_.tensors[kept.id];
    if (record.call >= 0) impl_.dead_calls.insert(record.call);
    record.call = record.output = record.item = -1;
    MakeState(kept.id, {.tensor = kept.cast.get(),
                        .name = absl::StrCat(kept.name, ".autocast")});
  }
}

absl::Status Recorder::Impl::Finisher::Settle(TapeTensorId id) {
  const TapeOrigin origin = tape_.tensors[id].origin;
  if (!impl_.seen[id].unresolved && origin != TapeOrigin::kAlias) {
    return absl::OkStatus();
  }
  const auto state = by_impl_.find(impl_.seen[id].impl);
  if (state != by_impl_.end() && !impl_.seen[id].is_remade) {
    MakeState(id, *state->second);
    return absl::OkStatus();
  }
  if (origin == TapeOrigin::kAlias) return CheckAlias(tape_, id);
  const c10::StorageImpl* storage = impl_.seen[id].storage_impl;
  const auto owner = by_storage_.find(storage);
  if (owner != by_storage_.end()) return SettleView(id, *owner->second);
  if (const TapeTensorId base = FindEarlier(storage); base != kNoTapeTensor) {
    ShowPartOf(id, base);
    return CheckAlias(tape_, id);
  }
  return RefuseUnknown(id);
}

absl::Status Recorder::Impl::Finisher::SettleView(TapeTensorId id,
                                                  const StateTensor& state) {
  const at::Tensor& owner = THPVariable_Unpack(state.tensor);
  const auto known = impl_.ids.find(owner.unsafeGetTensorImpl());
  TapeTensorId base = kNoTapeTensor;
  if (known != impl_.ids.end()) {
    base = known->second;
  } else {
    base = impl_.Append(owner);
    MakeState(base, state);
  }
  impl_.StorageOf(owner).root = base;
  ShowPartOf(id, base);
  return CheckAlias(tape_, id);
}

void Recorder::Impl::Finisher::ShowPartOf(TapeTensorId id, TapeTensorId base) {
  tape_.tensors[id].origin = TapeOrigin::kAlias;
  tape_.tensors[id].base = base;
  impl_.seen[id].unresolved = false;
}

// `.data` of it was used before the tensor itself.
TapeTensorId Recorder::Impl::Finisher::FindEarlier(
    const c10::StorageImpl* storage) const {
  for (size_t id = 0; id < impl_.seen.size(); ++id) {
    const Seen& seen = impl_.seen[id];
    if (seen.storage_impl == storage && !seen.is_remade &&
        by_impl_.contains(seen.impl)) {
      return static_cast<TapeTensorId>(id);
    }
  }
  return kNoTapeTensor;
}

absl::Status Recorder::Impl::Finisher::RefuseUnknown(TapeTensorId id) const {
  const Seen& seen = impl_.seen[id];
  return WithPlace(
      absl::FailedPreconditionError(absl::StrCat(
          seen.first_op, " takes a tensor ", tape_.tensors[id].dtype, "[",
          absl::StrJoin(tape_.tensors[id].sizes, ","),
          "] of unknown origin: not an argument, no state that the program "
          "reads from Python objects, and made by no recorded operator",
          seen.first_use.line == 0
              ? ""
              : absl::StrCat(" (", seen.first_use.ToString(), ")"))),
      seen.first_place);
}

// Which of the tensors in one memory was aliased, nobody knows: all that the
// program read have to lie as they did.
void Recorder::Impl::Finisher::AddAliased(TapeTensorId num_seen) {
  absl::flat_hash_set<const c10::StorageImpl*> aliased;
  for (TapeTensorId id = 0; id < num_seen; ++id) {
    if (tape_.tensors[id].origin != TapeOrigin::kAlias) continue;
    aliased.insert(impl_.seen[id].storage_impl);
  }
  for (const StateTensor& state : states_) {
    const at::Tensor& tensor = THPVariable_Unpack(state.tensor);
    const c10::TensorImpl* key = tensor.unsafeGetTensorImpl();
    if (!key->has_storage() || impl_.ids.contains(key)) continue;
    if (!aliased.contains(key->unsafe_storage().unsafeGetStorageImpl())) {
      continue;
    }
    MakeState(impl_.Append(tensor), state);
  }
}

absl::Status Recorder::Impl::Finisher::AddResults(
    const std::vector<PyObject*>& results) {
  for (PyObject* result : results) {
    const at::Tensor& tensor = THPVariable_Unpack(result);
    if (const auto why = UnsupportedTensorImpl(*tensor.unsafeGetTensorImpl())) {
      return absl::FailedPreconditionError(
          absl::StrCat("the result holds a tensor that is ", *why));
    }
    impl_.SettleRaw(tensor, &owner_, "the result");
    if (owner_.refusal()) {
      return absl::FailedPreconditionError(owner_.refusal().reason);
    }
    const TapeTensorId id = impl_.IdOf(tensor, "the result");
    absl::Status status = Settle(id);
    if (!status.ok()) return status;
    out_.results.push_back(id);
  }
  return absl::OkStatus();
}

void Recorder::Impl::Finisher::ShortenAliases() {
  for (TapeTensor& tensor : tape_.tensors) {
    while (tensor.origin == TapeOrigin::kAlias &&
           tape_.tensors[tensor.base].origin == TapeOrigin::kAlias) {
      tensor.base = tape_.tensors[tensor.base].base;
    }
  }
}

void Recorder::Impl::Finisher::FindMutated() {
  absl::flat_hash_set<int32_t> written;
  const auto mark = [&](TapeTensorId id) {
    if (id != kNoTapeTensor) written.insert(tape_.tensors[id].storage);
  };
  for (const TapeCall& call : tape_.calls) {
    for (const int32_t arg : call.mutated_args) {
      if (const auto* one = std::get_if<TapeTensorRef>(&call.args[arg])) {
        mark(one->id);
      } else if (const auto* list =
                     std::get_if<TapeTensorList>(&call.args[arg])) {
        for (const TapeTensorId id : list->ids) mark(id);
      }
    }
  }
  for (const auto* ids : {&tape_.inputs, &tape_.states}) {
    for (const TapeTensorId id : *ids) {
      if (written.contains(tape_.tensors[id].storage)) {
        tape_.mutated.push_back(id);
      }
    }
  }
}

void Recorder::Impl::Finisher::NameScopes() {
  const std::vector<std::string> scopes = impl_.scopes.Names(states_);
  for (size_t i = 0; i < impl_.modules.size(); ++i) {
    if (const int32_t module = impl_.modules[i]; module >= 0) {
      tape_.calls[i].scope = scopes[module];
    }
  }
}

absl::StatusOr<Recorder::Result> Recorder::Impl::Finisher::Finish(
    const std::vector<PyObject*>& results) {
  const auto num_seen = static_cast<TapeTensorId>(tape_.tensors.size());
  for (TapeTensorId id = 0; id < num_seen; ++id) {
    absl::Status status = Settle(id);
    if (!status.ok()) return status;
  }
  SettleKeptWeights();
  AddAliased(num_seen);
  if (absl::Status status = AddResults(results); !status.ok()) return status;
  ShortenAliases();
  FindMutated();
  impl_.CountWrites(num_seen, &out_);
  NameScopes();
  DropCalls(tape_, impl_.dead_calls);
  out_.tape = std::move(tape_);
  return std::move(out_);
}

absl::StatusOr<Recorder::Result> Recorder::Finish(
    const std::vector<StateTensor>& states,
    const std::vector<PyObject*>& results) {
  return Impl::Finisher(*impl_, *this, states).Finish(results);
}

}  // namespace mica
