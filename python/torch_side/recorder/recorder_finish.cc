#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <utility>

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

}  // namespace

void Recorder::Impl::CountWrites(TapeTensorId num_seen, Result* out) const {
  // Tensors that share a counter of writes are counted once.
  std::vector<c10::VariableVersion> known;
  const auto is_known = [&known](c10::VariableVersion counter) {
    const auto now = counter.current_version();
    counter.set_version(static_cast<int64_t>(now) + 1);
    const bool found = std::any_of(known.begin(), known.end(),
                                   [now](const c10::VariableVersion& other) {
                                     return other.current_version() == now + 1;
                                   });
    counter.set_version(now);
    return found;
  };
  const auto count = [&](TapeTensorId id) -> int64_t {
    const auto tensor = seen[id].tensor.lock();
    if (id >= num_seen || seen[id].version < 0 || !tensor) return -1;
    const c10::VariableVersion& counter = tensor->version_counter();
    const int64_t writes =
        static_cast<int64_t>(counter.current_version()) - seen[id].version;
    if (writes == 0) return 0;
    if (is_known(counter)) return 0;
    known.push_back(counter);
    return writes;
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

absl::StatusOr<Recorder::Result> Recorder::Finish(
    const std::vector<StateTensor>& states,
    const std::vector<PyObject*>& results) {
  Impl& impl = *impl_;
  Tape& tape = impl.tape;
  Result out;
  absl::flat_hash_map<const c10::TensorImpl*, const StateTensor*> by_impl;
  absl::flat_hash_map<const c10::StorageImpl*, const StateTensor*> by_storage;
  for (const StateTensor& state : states) {
    const c10::TensorImpl* tensor =
        THPVariable_Unpack(state.tensor).unsafeGetTensorImpl();
    by_impl.try_emplace(tensor, &state);
    if (tensor->has_storage()) {
      by_storage.try_emplace(tensor->unsafe_storage().unsafeGetStorageImpl(),
                             &state);
    }
  }
  const auto make_state = [&](TapeTensorId id, const StateTensor& state) {
    TapeTensor& record = tape.tensors[id];
    record.origin = TapeOrigin::kState;
    record.name = state.name;
    impl.seen[id].unresolved = false;
    tape.states.push_back(id);
    out.states.push_back(state.tensor);
  };
  const auto settle = [&](TapeTensorId id) -> absl::Status {
    const TapeOrigin origin = tape.tensors[id].origin;
    if (!impl.seen[id].unresolved && origin != TapeOrigin::kAlias) {
      return absl::OkStatus();
    }
    const auto it = by_impl.find(impl.seen[id].impl);
    if (it != by_impl.end() && !impl.seen[id].is_remade) {
      make_state(id, *it->second);
      return absl::OkStatus();
    }
    if (origin == TapeOrigin::kAlias) return CheckAlias(tape, id);
    const auto owner_it = by_storage.find(impl.seen[id].storage_impl);
    if (owner_it != by_storage.end()) {
      // A view, by Tensor.data, of a state that no call takes by itself.
      const at::Tensor& owner = THPVariable_Unpack(owner_it->second->tensor);
      const auto known = impl.ids.find(owner.unsafeGetTensorImpl());
      TapeTensorId base;
      if (known != impl.ids.end()) {
        base = known->second;
      } else {
        base = impl.Append(owner);
        make_state(base, *owner_it->second);
      }
      impl.StorageOf(owner).root = base;
      tape.tensors[id].origin = TapeOrigin::kAlias;
      tape.tensors[id].base = base;
      impl.seen[id].unresolved = false;
      return CheckAlias(tape, id);
    }
    absl::Status unknown = absl::FailedPreconditionError(absl::StrCat(
        impl.seen[id].first_op, " takes a tensor ", tape.tensors[id].dtype, "[",
        absl::StrJoin(tape.tensors[id].sizes, ","),
        "] of unknown origin: not an argument, no state that the program "
        "reads from Python objects, and made by no recorded operator",
        impl.seen[id].first_use.line == 0
            ? ""
            : absl::StrCat(" (", impl.seen[id].first_use.ToString(), ")")));
    return WithPlace(std::move(unknown), impl.seen[id].first_place);
  };
  const auto num_seen = static_cast<TapeTensorId>(tape.tensors.size());
  for (TapeTensorId id = 0; id < num_seen; ++id) {
    absl::Status status = settle(id);
    if (!status.ok()) return status;
  }
  // Which of the tensors in one memory was aliased, nobody knows: all that the
  // program read have to lie as they did.
  absl::flat_hash_set<const c10::StorageImpl*> aliased;
  for (TapeTensorId id = 0; id < num_seen; ++id) {
    if (tape.tensors[id].origin != TapeOrigin::kAlias) continue;
    aliased.insert(impl.seen[id].storage_impl);
  }
  for (const StateTensor& state : states) {
    const at::Tensor& tensor = THPVariable_Unpack(state.tensor);
    const c10::TensorImpl* key = tensor.unsafeGetTensorImpl();
    if (!key->has_storage() || impl.ids.contains(key)) continue;
    if (!aliased.contains(key->unsafe_storage().unsafeGetStorageImpl())) {
      continue;
    }
    make_state(impl.Append(tensor), state);
  }

  for (PyObject* result : results) {
    const at::Tensor& tensor = THPVariable_Unpack(result);
    if (const auto why = UnsupportedTensorImpl(*tensor.unsafeGetTensorImpl())) {
      return absl::FailedPreconditionError(
          absl::StrCat("the result holds a tensor that is ", *why));
    }
    impl.SettleRaw(tensor, this, "the result");
    if (refusal_) return absl::FailedPreconditionError(refusal_.reason);
    const TapeTensorId id = impl.IdOf(tensor, "the result");
    absl::Status status = settle(id);
    if (!status.ok()) return status;
    out.results.push_back(id);
  }

  // Alias chains end at a base that isn't one.
  for (TapeTensor& tensor : tape.tensors) {
    while (tensor.origin == TapeOrigin::kAlias &&
           tape.tensors[tensor.base].origin == TapeOrigin::kAlias) {
      tensor.base = tape.tensors[tensor.base].base;
    }
  }
  absl::flat_hash_set<int32_t> written;
  for (const TapeCall& call : tape.calls) {
    const auto mark = [&](TapeTensorId id) {
      if (id != kNoTapeTensor) written.insert(tape.tensors[id].storage);
    };
    for (const int32_t arg : call.mutated_args) {
      if (const auto* one = std::get_if<TapeTensorRef>(&call.args[arg])) {
        mark(one->id);
      } else if (const auto* list =
                     std::get_if<TapeTensorList>(&call.args[arg])) {
        for (const TapeTensorId id : list->ids) mark(id);
      }
    }
  }
  for (const auto* ids : {&tape.inputs, &tape.states}) {
    for (const TapeTensorId id : *ids) {
      if (written.contains(tape.tensors[id].storage)) {
        tape.mutated.push_back(id);
      }
    }
  }
  impl.CountWrites(num_seen, &out);
  const std::vector<std::string> scopes = impl.scopes.Names(states);
  for (size_t i = 0; i < impl.modules.size(); ++i) {
    if (const int32_t module = impl.modules[i]; module >= 0) {
      tape.calls[i].scope = scopes[module];
    }
  }
  DropCalls(tape, impl.dead_calls);
  out.tape = std::move(tape);
  return out;
}

}  // namespace mica
