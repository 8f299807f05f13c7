// The recorder's own: all of it that knows torch.

#ifndef MICA_PYTHON_TORCH_SIDE_RECORDER_RECORDER_IMPL_H_
#define MICA_PYTHON_TORCH_SIDE_RECORDER_RECORDER_IMPL_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/recorder/module_scopes.h"
#include "python/torch_side/recorder/recorder.h"
#include "python/torch_side/tensors/torch_compat.h"

namespace mica {

// "aten.add.Tensor".
std::string TapeOpName(const c10::OperatorName& name);

// Calls visit() for a tensor that is defined, or those in a list.
template <typename F>
void VisitTensors(const c10::IValue& value, F&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) {
        visit(item.toTensor());
      }
    }
  }
}

// All that knows torch.
struct Recorder::Impl {
  struct Storage {
    int32_t id = 0;
    TapeTensorId root = kNoTapeTensor;  // The first tensor seen over it.
    // Allocated by an empty-like call and not written by a recorded one yet:
    // what it holds came from elsewhere (torch.tensor fills by plain stores).
    bool raw = false;
    // Allocated while Python's values were made a tensor.
    bool of_python = false;
    // The program itself asked for it, so that nobody fills it unseen.
    bool of_program = false;
    // If raw: which elements recorded calls have written since.
    std::vector<bool> written;

    // `written` is about `count` elements from here on. Of elements of another
    // size, as complex numbers and their parts are, nothing is known.
    void CountIn(int64_t count) {
      if (written.size() == static_cast<size_t>(count)) return;
      written.assign(static_cast<size_t>(count), false);
    }
  };
  // The tensor is held weakly: its address stays taken while its memory may
  // go, and autograd finds it as unshared as in a run that nobody watches.
  struct Seen {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const c10::TensorImpl* impl = nullptr;
    const c10::StorageImpl* storage_impl = nullptr;
    int64_t version = -1;  // When it was seen first.
    bool has_python_object = false;
    bool unresolved = false;  // Its origin is settled by Finish().
    bool is_remade = false;   // Its metadata changed in place since `ids`.
    UserLine first_use;
    std::string first_op;
    int32_t first_place = -1;
  };

  Callbacks callbacks;
  Tape tape;
  std::deque<Seen> seen;  // By TapeTensorId.
  absl::flat_hash_map<const c10::TensorImpl*, TapeTensorId> ids;
  absl::flat_hash_map<const c10::StorageImpl*, Storage> storages;
  int32_t num_storages = 0;  // Beginning with 0, each Storage::id is another.
  absl::flat_hash_set<int32_t> dead_calls;
  ModuleScopes scopes;
  std::vector<int32_t> modules;    // By call: its module's number in `scopes`.
  std::vector<FrameSites> places;  // By TapeCall::place.
  std::vector<uint64_t> nodes;     // By call: autograd's last node then.
  // The numbers that views begin at, host values: by nodes of selects, and all.
  absl::flat_hash_map<uint64_t, int32_t> placed_nodes;
  std::vector<int32_t> tracked_places, untracked_places;
  bool started = false;
  int32_t later_part = -1;  // As TapeCall has it, of what comes now.
  bool saved_included = false;

  // The number of where the run is.
  int32_t AddPlace() {
    places.push_back(callbacks.places());
    return static_cast<int32_t>(places.size()) - 1;
  }

  Storage& StorageOf(const at::Tensor& tensor);
  // Null for memory not seen before.
  Storage* FindStorage(const at::Tensor& tensor);

  // Appends a record of `tensor` as it is now, of origin kCall without a call.
  TapeTensorId Append(const at::Tensor& tensor);

  bool IsCurrent(TapeTensorId id, const at::Tensor& tensor) const;

  // Tells how often inputs and states were written; of tensors from `num_seen`
  // on that isn't known.
  void CountWrites(TapeTensorId num_seen, Result* out) const;

  // The tensor's id; a tensor not seen before becomes one without origin.
  TapeTensorId IdOf(const at::Tensor& tensor, const std::string& op);

  // Appends a call that is made here and now.
  void AppendCall(TapeCall call);

  // Has `tensor`, whose memory a call has just got for it, be made by one that
  // stands before `user`.
  void MakeAnew(const at::Tensor& tensor, const TapeCall& user);

  // Copies the present contents of tensor `id` into the tape; `view` is a
  // tensor over its memory.
  bool MakeConstant(TapeTensorId id, const at::Tensor& view);

  // A list of the dispatcher's, likewise.
  TapeValue ListOf(const c10::IValue& value, const c10::TypePtr& type,
                   const std::string& op, bool* foreign);
  // What the dispatcher passed, as a tape has it; sets `foreign` where a tape
  // has no form for it.
  TapeValue ValueOf(const c10::IValue& value, const c10::TypePtr& type,
                    const std::string& op, bool* foreign);
  // If autograd computes by `call` on behalf of a view that begins at a number,
  // has that be the call's, too, or be what it was.
  void PlaceGradient(TapeCall& call);
  void FixPlaces(bool only_tracked = false);

  class CallWriter;
  class CastFinder;
  class Finisher;
  // Appends a call that has returned, its results on the stack.
  void RecordCall(const c10::OperatorHandle& op,
                  const std::vector<c10::IValue>& args,
                  const torch::jit::Stack& stack, Recorder* owner);
  // A recorded call is about to overwrite `tensor`.
  void NoteOverwrite(const at::Tensor& tensor);
  // A recorded call is about to copy elements that aren't all written to memory
  // that isn't either, as circular padding does with corners: those that aren't
  // stay so. False if it is no such copy.
  bool NoteCopy(const at::Tensor& to, const at::Tensor& from);
  // True if recorded calls wrote all that `tensor` shows.
  bool IsWritten(const at::Tensor& tensor, const Storage& storage) const;
  // Contents that no recorded call wrote become a constant at their first use.
  void SettleRaw(const at::Tensor& tensor, Recorder* owner,
                 const std::string& op);
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_RECORDER_RECORDER_IMPL_H_
