#include "analysis/lower/lstm_layers.h"

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_replace.h"

namespace mica {
namespace {

constexpr char kLayer[] = "aten.mkldnn_rnn_layer";
constexpr char kBackward[] = "aten.mkldnn_rnn_layer_backward";
constexpr int64_t kLstm = 2;
// What is kept of a time and a sample, in units of the hidden size.
constexpr int64_t kKeptPerUnit = 5;

// Arguments of the two.
struct LayerArgs {
  size_t count;
  int batch_sizes, mode, hidden_size, has_biases;
};
constexpr LayerArgs kLayerArgs = {16, 8, 9, 10, 12};
constexpr LayerArgs kBackwardArgs = {23, 20, 14, 15, 17};
constexpr int kWorkspaceArg = 22;
constexpr int kWorkspaceOutput = 3;

TapeTensorId IdOf(const TapeValue& value) {
  const auto* ref = std::get_if<TapeTensorRef>(&value);
  return ref == nullptr ? kNoTapeTensor : ref->id;
}

template <typename T>
bool Is(const TapeValue& value, const T& wanted) {
  const T* found = std::get_if<T>(&value);
  return found != nullptr && *found == wanted;
}

bool IsFloats(const TapeTensor& tensor) {
  return tensor.dtype == "f32" && !tensor.is_conj && !tensor.is_neg;
}

bool IsRowMajor(const TapeTensor& tensor) {
  int64_t stride = 1;
  for (size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= tensor.sizes[i];
  }
  return tensor.offset == 0;
}

class OwnLayers {
 public:
  explicit OwnLayers(Tape& tape) : tape_(tape) {
    for (const TapeTensor& tensor : tape.tensors) {
      ++sharers_[tensor.storage];
    }
  }

  void Run() {
    FindLayers();
    FindPasses();
    DropOthersUses();
    for (const auto& [workspace, layer] : layers_) {
      Rename(tape_.calls[layer.call]);
      for (const int pass : layer.passes) Rename(tape_.calls[pass]);
      TakeWorkspace(workspace);
    }
  }

 private:
  struct Layer {
    int call = 0;
    std::vector<int> passes;
  };

  // Whether all tensors that a call gets are float32, and those that it makes
  // dense and each in memory of its own.
  bool HasPlainTensors(const TapeCall& call) const {
    for (const TapeValue& arg : call.args) {
      const TapeTensorId id = IdOf(arg);
      if (id == kNoTapeTensor || id == Workspace(call)) continue;
      if (!IsFloats(tape_.tensors[id])) return false;
    }
    absl::flat_hash_set<int32_t> memories;
    for (const TapeValue& output : call.outputs) {
      const TapeTensorId id = IdOf(output);
      if (id == kNoTapeTensor) return false;
      const TapeTensor& made = tape_.tensors[id];
      if (!memories.insert(made.storage).second) return false;
      if (id == Workspace(call)) continue;
      if (!IsFloats(made) || !IsRowMajor(made)) return false;
    }
    return true;
  }

  // Whether it is told to train decides nothing, the gradient mode does: a
  // layer under model.eval() has a backward pass as well.
  static bool IsLstm(const TapeCall& call, const LayerArgs& at) {
    return call.args.size() == at.count && call.mutated_args.empty() &&
           call.aliases.empty() &&
           Is(call.args[at.batch_sizes], std::vector<int64_t>()) &&
           Is(call.args[at.mode], kLstm) && Is(call.args[at.has_biases], true);
  }

  // The memory that one of the two makes or takes.
  static TapeTensorId Workspace(const TapeCall& call) {
    return call.op == kLayer ? IdOf(call.outputs[kWorkspaceOutput])
                             : IdOf(call.args[kWorkspaceArg]);
  }

  void FindLayers() {
    for (size_t i = 0; i < tape_.calls.size(); ++i) {
      const TapeCall& call = tape_.calls[i];
      if (call.op != kLayer || !IsLstm(call, kLayerArgs) ||
          call.outputs.size() != 4 || !HasPlainTensors(call)) {
        continue;
      }
      const TapeTensorId input = IdOf(call.args[0]);
      if (tape_.tensors[input].sizes.size() != 3) continue;
      // Nobody else sees the memory.
      if (sharers_[tape_.tensors[Workspace(call)].storage] != 1) continue;
      layers_[Workspace(call)] = {.call = static_cast<int>(i)};
    }
    for (const TapeTensorId id : tape_.results) layers_.erase(id);
  }

  void FindPasses() {
    for (size_t i = 0; i < tape_.calls.size(); ++i) {
      const TapeCall& call = tape_.calls[i];
      if (call.op != kBackward || !IsLstm(call, kBackwardArgs) ||
          call.outputs.size() != 7 || !HasPlainTensors(call)) {
        continue;
      }
      const auto layer = layers_.find(Workspace(call));
      if (layer == layers_.end()) continue;
      layer->second.passes.push_back(static_cast<int>(i));
    }
  }

  // Leaves layers to ATen whose memory goes to calls that weren't found.
  void DropOthersUses() {
    absl::flat_hash_map<TapeTensorId, size_t> uses;
    for (const TapeCall& call : tape_.calls) {
      for (const TapeValue& arg : call.args) {
        ForEachTensor(arg, [&uses](TapeTensorId id) { ++uses[id]; });
      }
    }
    std::erase_if(layers_, [&uses](const auto& entry) {
      const auto it = uses.find(entry.first);
      const size_t count = it == uses.end() ? 0 : it->second;
      return count != entry.second.passes.size();
    });
  }

  static void Rename(TapeCall& call) {
    absl::StrReplaceAll({{"aten::mkldnn_rnn_layer", "mica::lstm_layer"}},
                        &call.schema);
    absl::StrReplaceAll({{"aten.mkldnn_rnn_layer", "mica.lstm_layer"}},
                        &call.op);
  }

  void TakeWorkspace(TapeTensorId workspace) {
    const TapeCall& call = tape_.calls[layers_[workspace].call];
    const TapeTensor& y = tape_.tensors[IdOf(call.outputs[0])];
    TapeTensor& kept = tape_.tensors[workspace];
    kept.dtype = y.dtype;
    kept.sizes = y.sizes;
    kept.sizes[2] *= kKeptPerUnit;
    kept.strides = {kept.sizes[1] * kept.sizes[2], kept.sizes[2], 1};
    kept.storage_bytes =
        kept.sizes[0] * kept.strides[0] * static_cast<int64_t>(sizeof(float));
  }

  Tape& tape_;
  absl::flat_hash_map<int32_t, int> sharers_;  // Tensors, by storage.
  std::map<TapeTensorId, Layer> layers_;       // By what they keep.
};

}  // namespace

void UseOwnLstmLayers(Tape& tape) { OwnLayers(tape).Run(); }

}  // namespace mica
