// How the tape of a run is made.

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/lstm_layers.h"
#include "framework/trace/recorder.h"
#include "python/capture/record/record_maker.h"
#include "python/capture/values/numbers.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {

std::vector<StateTensor> RecordMaker::NameStates() {
  std::vector<StateTensor> states;
  for (const Gradients::Leaf& leaf : record_.gradients_.leaves()) {
    if (!leaf.had_grad) continue;
    states.push_back({.tensor = leaf.before.get(),
                      .name = absl::StrCat(leaf.name, ".grad")});
  }
  for (const StateGuards::Tensor& tensor : run_.watch.guards().tensors()) {
    states.push_back({.tensor = tensor.tensor.get(),
                      .name = run_.watch.TensorName(tensor.tensor.get())});
  }
  int num_drawn = 0;
  for (const Draw& draw : run_.watch.draws().draws()) {
    if (!draw.tensor) continue;
    states.push_back({.tensor = draw.tensor.get(),
                      .name = absl::StrCat(draw.note.path, ".", num_drawn++)});
  }
  absl::flat_hash_set<std::string> names;
  for (StateTensor& state : states) {
    const std::string name = state.name;
    for (int i = 2; !names.insert(state.name).second; ++i) {
      state.name = absl::StrCat(name, "#", i);
    }
  }
  return states;
}

bool RecordMaker::AddKeptWeight(PyObject* state) {
  for (const Recorder::KeptWeight& kept : run_.recorder.kept_weights()) {
    if (kept.cast.get() != state) continue;
    PyObject* weight = kept.weight.get();
    const int input = record_.inputs_.FindTensor(weight);
    record_.AddState({.tensor = input < 0 ? weight : nullptr,
                      .input = input,
                      .cast = TensorMeta::Of(state)});
    record_.Keep(run_.watch.guards(), record_.states_.back().tensor);
    return true;
  }
  return false;
}

bool RecordMaker::AddDrawn(PyObject* state) {
  int drawn = 0;
  for (const Draw& draw : run_.watch.draws().draws()) {
    if (!draw.tensor) continue;
    if (draw.tensor.get() == state) {
      record_.AddState({.drawn = drawn});
      return true;
    }
    ++drawn;
  }
  return false;
}

bool RecordMaker::CheckNewData() {
  const Tape& tape = recorded_.tape;
  absl::flat_hash_map<int32_t, const Gradients::Leaf*> left;  // By storage.
  for (const Gradients::Leaf& leaf : record_.gradients_.leaves()) {
    if (leaf.data < 0) continue;
    if (leaf.input >= 0) {
      left[tape.tensors[tape.inputs[leaf.input]].storage] = &leaf;
      continue;
    }
    const auto state = absl::c_find(recorded_.states, leaf.tensor.get());
    if (state == recorded_.states.end()) continue;
    const size_t i = state - recorded_.states.begin();
    left[tape.tensors[tape.states[i]].storage] = &leaf;
  }
  if (left.empty()) return true;
  for (const TapeCall& call : tape.calls) {
    if (call.later_part < 0) continue;
    const Gradients::Leaf* needed = nullptr;
    for (const TapeValue& arg : call.args) {
      ForEachTensor(arg, [&](TapeTensorId id) {
        const auto it = left.find(tape.tensors[id].storage);
        if (it != left.end()) needed = it->second;
      });
    }
    if (needed == nullptr) continue;
    return Refuse({.reason = absl::StrCat("sets ", needed->name,
                                          ".data, and a backward pass that may "
                                          "come needs what it was"),
                   .mend = "set it after the backward pass"});
  }
  return true;
}

bool RecordMaker::MakeTape() {
  absl::StatusOr<Recorder::Result> recorded = [&] {
    const TraceSpan finish("capture", "make tape");
    num_calls_ = run_.recorder.num_calls();
    return run_.recorder.Finish(NameStates(), tensors_);
  }();
  if (!recorded.ok()) return Refuse(recorded.status());
  recorded_ = *std::move(recorded);
  Tape& tape = recorded_.tape;
  if (!run_.watch.host_calls().CheckLastCalls(tape, tensors_,
                                              recorded_.results)) {
    return Refuse(run_.watch.refusal());
  }
  if (options_.make_runner && record_.effects_.has_first_calls() &&
      !tape.mutated.empty()) {
    return Refuse({.reason = "calls into the world outside and writes in "
                             "place, which another compiler does first"});
  }
  for (PyObject* state : recorded_.states) {
    if (AddKeptWeight(state) || AddDrawn(state)) continue;
    const int leaf = record_.gradients_.FindGradient(state);
    record_.AddState({.tensor = leaf < 0 ? state : nullptr, .leaf = leaf});
    record_.Keep(run_.watch.guards(), record_.states_.back().tensor);
  }
  if (!CheckNewData()) return false;
  for (size_t i = num_results_; i < num_made_; ++i) {
    const TapeOrigin origin = tape.tensors[recorded_.results[i]].origin;
    if (origin == TapeOrigin::kInput || origin == TapeOrigin::kState) {
      return Refuse({.reason = "makes a tensor that was there before the call "
                               "a gradient"});
    }
  }
  for (size_t i = 0; record_.torch_state_.inference && i < num_made_; ++i) {
    if (VersionOf(tensors_[i]) < 0) continue;
    const int32_t storage = tape.tensors[recorded_.results[i]].storage;
    const bool is_view = absl::c_any_of(tape.tensors, [&](const auto& tensor) {
      return tensor.storage == storage &&
             (tensor.origin == TapeOrigin::kInput ||
              tensor.origin == TapeOrigin::kState);
    });
    // As what torch.func.grad() makes of its arguments.
    if (!is_view) {
      return Refuse({.reason = "makes a tensor that counts its writes, though "
                               "it is called in inference mode"});
    }
  }
  for (size_t i = 0; i < num_made_; ++i) {
    if (!IsCountedInference(tensors_[i])) continue;
    return Refuse({.reason = "gives a tensor of inference mode that may be "
                             "written outside of it, as detach() makes it"});
  }
  tape.results = recorded_.results;
  KeepTape();
  FindWays();
  if (!options_.graph.exact && !options_.make_runner) UseOwnLstmLayers(tape);
  return true;
}

// For when a later call differs from this one in sizes alone.
void RecordMaker::KeepTape() {
  constexpr size_t kMaxCalls = 50'000;
  const Tape& tape = recorded_.tape;
  for (const int32_t call : run_.size_reads) {
    record_.size_reads_.push_back(
        absl::StrCat(tape.calls[call].file, ":", tape.calls[call].line));
  }
  const absl::Span<const NumberSource> given = record_.size_inputs_.sources();
  const bool has_sizes =
      !given.empty() ||
      absl::c_any_of(record_.inputs_.tensors(), [](const auto& tensor) {
        return !tensor.meta.sizes.empty();
      });
  if (!options_.vary_sizes || options_.make_runner || !has_sizes ||
      tape.calls.size() > kMaxCalls) {
    return;
  }
  SizeRecipe& recipe = record_.recipe_;
  recipe.tape = std::make_shared<const Tape>(tape);
  if (!options_.follow_sizes) return;
  recipe.is_complete = true;
  recipe.facts = run_.watch.sizes().TakeFacts();
  run_.watch.loops().AddTo(recipe.facts);
  for (const NumberSource& source : given) {
    recipe.given.push_back(NumberOf(source.recorded.get()).value_or(0));
  }
  if (static_cast<int64_t>(tape.calls.size()) != num_calls_) {
    recipe.facts.unknown = "autocast keeps what the run cast";
  }
  if (run_.watch.arrays().reads_shapes()) {
    recipe.facts.unknown = "reads the shape of a numpy array";
  }
  recipe.num_args = later_.NumArgs(tape);
  recipe.num_results = later_.NumResults(tape);
  recipe.parts = later_.Outline(tape);
  recipe.input_writes = recorded_.input_writes;
  recipe.state_writes = recorded_.state_writes;
  recipe.reads_offsets = run_.watch.tensors().reads_offsets();
}

}  // namespace mica
