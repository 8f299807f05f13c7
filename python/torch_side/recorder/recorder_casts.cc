// The casts of weights that autocast keeps beyond a run.

#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/lower.h"
#include "python/torch_side/recorder/recorder_impl.h"
#include "python/torch_side/tensors/kept_casts.h"

namespace mica {
namespace {

PyRef Locked(const c10::weak_intrusive_ptr<c10::TensorImpl,
                                           c10::UndefinedTensorImpl>& tensor) {
  auto alive = tensor.lock();
  if (!alive) return {};
  return PyRef::Steal(THPVariable_Wrap(at::Tensor(std::move(alive))));
}

}  // namespace

// Finds them, by what the tape has of the run.
class Recorder::Impl::CastFinder {
 public:
  // All outlive this.
  CastFinder(Impl& impl, const std::vector<StateTensor>& states) : impl_(impl) {
    for (const TapeTensorId id : impl.tape.inputs) {
      PyRef tensor = Locked(impl.seen[id].tensor);
      if (tensor) Add(std::move(tensor), impl.tape.tensors[id].name);
    }
    for (const StateTensor& state : states) {
      Add(PyRef::Share(state.tensor), state.name);
    }
  }

  // The weight whose kept cast tensor `id` is; null if it is none. Fails if the
  // weight was written before.
  absl::StatusOr<const KeptWeight*> Find(TapeTensorId id);

 private:
  void Add(PyRef tensor, const std::string& name) {
    if (!RequiresGrad(tensor.get())) return;
    known_.insert(TensorImplOf(tensor.get()));
    weights_.push_back({.weight = std::move(tensor), .name = name});
  }
  // What it was cast of, by a call of the run; null if that isn't known.
  const c10::TensorImpl* SourceOf(TapeTensorId id) const;
  // Where the run came to need it: the call that made it, or the first to take
  // it.
  int32_t FirstUseOf(TapeTensorId id) const;
  // Whether a call before this one wrote memory of `weight`.
  bool IsWrittenBefore(int32_t call, PyObject* weight) const;
  bool Takes(const TapeValue& value, int32_t storage) const;

  Impl& impl_;
  std::vector<KeptWeight> weights_;
  absl::flat_hash_set<const void*> known_;
};

const c10::TensorImpl* Recorder::Impl::CastFinder::SourceOf(
    TapeTensorId id) const {
  const TapeTensor& tensor = impl_.tape.tensors[id];
  if (tensor.origin != TapeOrigin::kCall) return nullptr;
  const TapeCall& call = impl_.tape.calls[tensor.call];
  if (call.op != "aten._to_copy" || call.args.empty()) return nullptr;
  const auto* arg = std::get_if<TapeTensorRef>(call.args.data());
  return arg == nullptr ? nullptr : impl_.seen[arg->id].impl;
}

bool Recorder::Impl::CastFinder::Takes(const TapeValue& value,
                                       int32_t storage) const {
  bool takes = false;
  ForEachTensor(value, [&](TapeTensorId id) {
    takes = takes || impl_.tape.tensors[id].storage == storage;
  });
  return takes;
}

int32_t Recorder::Impl::CastFinder::FirstUseOf(TapeTensorId id) const {
  const TapeTensor& tensor = impl_.tape.tensors[id];
  if (tensor.call >= 0) return tensor.call;
  const auto& calls = impl_.tape.calls;
  const auto first = absl::c_find_if(calls, [&](const TapeCall& call) {
    return absl::c_any_of(call.args, [&](const TapeValue& value) {
      return Takes(value, tensor.storage);
    });
  });
  return static_cast<int32_t>(first - calls.begin());
}

bool Recorder::Impl::CastFinder::IsWrittenBefore(int32_t call,
                                                 PyObject* weight) const {
  const auto storage = impl_.storages.find(
      static_cast<const c10::StorageImpl*>(mica::StorageOf(weight)));
  if (storage == impl_.storages.end()) return false;
  for (int32_t i = 0; i < call; ++i) {
    const TapeCall& one = impl_.tape.calls[i];
    for (const int32_t arg : one.mutated_args) {
      if (Takes(one.args[arg], storage->second.id)) return true;
    }
  }
  return false;
}

absl::StatusOr<const Recorder::KeptWeight*> Recorder::Impl::CastFinder::Find(
    TapeTensorId id) {
  const c10::TensorImpl* source = SourceOf(id);
  const bool is_found =
      impl_.seen[id].unresolved && !known_.contains(impl_.seen[id].impl);
  if (!is_found && !known_.contains(source)) return nullptr;
  const PyRef cast = Locked(impl_.seen[id].tensor);
  if (!cast) return nullptr;
  const TensorMeta meta = TensorMeta::Of(cast.get());
  for (KeptWeight& kept : weights_) {
    if (source != nullptr && TensorImplOf(kept.weight.get()) != source) {
      continue;
    }
    if (FindKeptCast(kept.weight.get(), meta).get() != cast.get()) continue;
    const int32_t use = FirstUseOf(id);
    if (IsWrittenBefore(use, kept.weight.get())) {
      return WithPlace(absl::FailedPreconditionError(absl::StrCat(
                           "writes ", kept.name,
                           " before autocast casts it, and keeps that beyond "
                           "the call")),
                       impl_.seen[id].first_place);
    }
    kept.cast = cast;
    kept.id = id;
    return &kept;
  }
  return nullptr;
}

absl::Status Recorder::FindKeptWeights(const std::vector<StateTensor>& states) {
  Impl::CastFinder finder(*impl_, states);
  const auto num_tensors = static_cast<TapeTensorId>(impl_->seen.size());
  for (TapeTensorId id = 0; id < num_tensors; ++id) {
    auto found = finder.Find(id);
    if (!found.ok()) return found.status();
    if (*found == nullptr) continue;
    kept_weights_.push_back(**found);
    impl_->tape.tensors[id].origin = TapeOrigin::kState;
    impl_->seen[id].unresolved = false;
  }
  return absl::OkStatus();
}

}  // namespace mica
