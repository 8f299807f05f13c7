// What a later backward pass would do: found by going back.

#include "python/capture/record/later_pass.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {
namespace {

constexpr char kMend[] =
    "compile the whole training step with its backward(), or run it under "
    "torch.no_grad() or torch.inference_mode()";

}  // namespace

int LaterPass::EntryOf(const BackwardTrace::Part& part, PyObject* gradient) {
  for (size_t i = 0; i < part.entries.size(); ++i) {
    if (part.entries[i].root.get() == gradient) return static_cast<int>(i);
  }
  return -1;
}

std::vector<PyObject*> LaterPass::GradientsOf(const BackwardTrace::Part& part) {
  std::vector<PyObject*> gradients;
  for (const BackwardTrace::Output& output : part.outputs) {
    PyObject* gradient = output.gradient.get();
    if (EntryOf(part, gradient) >= 0) continue;
    const bool is_known = absl::c_linear_search(gradients, gradient);
    if (!is_known) gradients.push_back(gradient);
  }
  return gradients;
}

void LaterPass::SortByStorage(absl::Span<PyObject* const> results) {
  by_storage_.clear();
  const auto see = [&](PyObject* tensor) {
    if (const void* storage = StorageIdOf(tensor)) {
      by_storage_[storage].push_back(tensor);
    }
  };
  for (PyObject* result : results) see(result);
  for (const auto& input : record_.inputs_.tensors()) see(input.recorded);
  for (const auto& state : run_.watch.guards().tensors()) {
    see(state.tensor.get());
  }
}

std::vector<PyObject*> LaterPass::SharersOf(PyObject* tensor) const {
  std::vector<PyObject*> sharers;
  const auto it = by_storage_.find(StorageIdOf(tensor));
  if (it == by_storage_.end()) return sharers;
  absl::c_copy_if(it->second, std::back_inserter(sharers),
                  [tensor](PyObject* other) { return other != tensor; });
  return sharers;
}

bool LaterPass::FindTracked(std::vector<PyObject*>* results) {
  const std::vector<PyObject*> own = *results;
  SortByStorage(own);
  for (size_t i = 0; i < own.size(); ++i) {
    if (!AddResult(static_cast<int>(i), own)) return false;
  }
  AddBases(results);
  return true;
}

// The first of the arguments and state among `sharers` that shows `base`, too.
PyObject* LaterPass::ViewOfSame(PyObject* base,
                                absl::Span<PyObject* const> sharers) const {
  for (PyObject* other : sharers) {
    if (!absl::c_linear_search(known_, other)) continue;
    const auto relation = ViewRelationOf(other);
    if (relation.has_value() && relation->base.get() == base) return other;
  }
  return nullptr;
}

bool LaterPass::AddResult(int index, absl::Span<PyObject* const> results) {
  PyObject* result = results[index];
  const std::vector<PyObject*> sharers = SharersOf(result);
  const auto is_old = [&](PyObject* tensor) {
    return !absl::c_linear_search(results, tensor);
  };
  const auto shares_writes = [&](PyObject* other) {
    return ShareWrites(result, other);
  };
  const bool is_own = absl::c_none_of(sharers, shares_writes);
  const int64_t count = VersionOf(result);
  if (is_own ? count > 0 || !sharers.empty()
             : count > 0 && absl::c_none_of(sharers, is_old)) {
    writes_.push_back({.result = index,
                       .count = count,
                       .is_own = is_own && !sharers.empty()});
  }
  if (run_.watch.tensors().released_graphs().Has(result)) return true;
  return AddView(index, result, sharers);
}

bool LaterPass::AddView(int index, PyObject* result,
                        absl::Span<PyObject* const> sharers) {
  std::optional<ViewRelation> relation;
  const bool is_made_by_operator = RequiresGrad(result) && !IsLeaf(result);
  // Of views that nothing else has the memory of, users don't know; but the
  // code behind a piece may ask, and one of several may not be written.
  const bool is_seen = RequiresGrad(result)
                           ? !is_made_by_operator || IsOneOfViews(result)
                           : options_.is_piece;
  if (!sharers.empty() || is_seen) relation = ViewRelationOf(result);
  if (!relation.has_value()) {
    if (RequiresGrad(result)) live_.push_back(index);
    return true;
  }
  PyObject* base = relation->base.get();
  if (!RequiresGrad(result) && !absl::c_linear_search(sharers, base)) {
    if (PyObject* other = ViewOfSame(base, sharers)) {
      relation->base = PyRef::Share(other);
      base = other;
    }
  }
  if (RequiresGrad(result) && !is_made_by_operator && !RequiresGrad(base)) {
    live_.push_back(index);  // A leaf that the program made.
    return true;
  }
  if (is_made_by_operator &&
      (!RequiresGrad(base) || !IsShownByTorch(result, base))) {
    return false;
  }
  const bool is_known = absl::c_linear_search(sharers, base);
  if (!is_known && !RequiresGrad(base) && !run_.recorder.HasWritten(base)) {
    return true;
  }
  views_.push_back(
      {.result = index,
       .base = std::move(relation->base),
       .creation = relation->creation,
       .is_tracked = is_made_by_operator,
       .node = is_made_by_operator ? NodeNameOf(result) : "",
       .output = is_made_by_operator ? OutputNumberOf(result) : 0});
  return true;
}

void LaterPass::AddBases(std::vector<PyObject*>* results) {
  for (View& view : views_) {
    PyObject* base = view.base.get();
    const auto at = std::find(results->begin(), results->end(), base);
    const int index = static_cast<int>(at - results->begin());
    if (at == results->end()) {
      if (absl::c_linear_search(known_, base)) continue;
      results->push_back(base);
      if (RequiresGrad(base)) live_.push_back(index);
    }
    view.root = index;
  }
}

bool LaterPass::Refuse(absl::string_view why, Refusal* refusal) {
  *refusal = {.reason = absl::StrCat("returns a tensor that requires grad",
                                     why.empty() ? "" : " and ", why),
              .mend = kMend};
  return false;
}

void LaterPass::FindKnown() {
  const auto add = [&](PyObject* external) {
    known_.push_back(external);
    if (RequiresGrad(external)) externals_.push_back(external);
  };
  for (const InputGuards::Tensor& tensor : record_.inputs_.tensors()) {
    add(tensor.recorded);
  }
  for (const StateGuards::Tensor& tensor : run_.watch.guards().tensors()) {
    add(tensor.tensor.get());
  }
  for (const Recorder::KeptWeight& kept : run_.recorder.kept_weights()) {
    add(kept.cast.get());
  }
}

bool LaterPass::Trace(std::vector<PyObject*>* results, Refusal* refusal) {
  FindKnown();
  for (PyObject* result : *results) {
    if (HasHistory(result)) continue;
    *refusal = {.reason =
                    "returns a view whose history torch refuses to tell: "
                    "it was made without gradients, and its base was "
                    "written since"};
    return false;
  }
  const Refusal& retained = run_.watch.tensors().retained_grad();
  if (retained && absl::c_any_of(*results, RetainsGrad)) {
    *refusal = retained;
    return false;
  }
  if (!FindTracked(results)) return Refuse(kShares, refusal);
  const bool is_tracked =
      !live_.empty() ||
      absl::c_any_of(views_, [](const View& view) { return view.is_tracked; });
  if (!is_tracked) return true;
  // The pass is given no number that the run reads, and views that are returned
  // begin where they did.
  run_.recorder.FixPlaces(/*only_tracked=*/views_.empty());
  if (options_.make_runner) {
    return Refuse("is run by another compiler", refusal);
  }
  if (const char* why = BackwardPass::WhyEager(*options_.backward_use)) {
    return Refuse(why, refusal);
  }
  if (live_.empty()) return true;
  if (const Refusal& hooks = run_.watch.tensors().saved_tensor_hooks()) {
    *refusal = hooks;
    return false;
  }
  std::vector<PyObject*> live;
  for (const int index : live_) {
    live.push_back((*results)[index]);
    nodes_.push_back(NodeNameOf(live.back()));
  }
  std::string why;
  if (!GoBack(live, &why)) return Refuse(why, refusal);
  WatchUse(live);
  FindGradients();
  return true;
}

bool LaterPass::GoBack(absl::Span<PyObject* const> live, std::string* why) {
  std::optional<RandomState> random;
  const auto on_python = [&] {
    reads_ = std::make_shared<BackwardPass::Reads>();
    reads_->torch_state = TorchState::Current();
    random.emplace();
    run_.mark = run_.recorder.now();
    run_.watch.later_pass().Begin();
    SetCapturing(true);
    run_.stream = MakeInterpreterStream(&run_.watch);
    run_.stream->Start();
  };
  std::tie(trace_, *why) =
      TraceBackward(live, externals_, run_.first_node, *options_.backward_use,
                    &run_.recorder, on_python);
  if (reads_ != nullptr) {
    run_.stream->Stop();
    run_.watch.EndStep(nullptr, /*entered=*/false);
    SetCapturing(false);
    random->Restore();
    Refusal refusal;
    reads_->guards = run_.watch.later_pass().End(&refusal);
    if (refusal) {
      *why = absl::StrCat("is made by an autograd.Function whose backward() ",
                          refusal.ToString());
    }
  }
  if (why->empty() && run_.recorder.refusal()) {
    *why = run_.recorder.refusal().reason;
  }
  return why->empty();
}

void LaterPass::WatchUse(absl::Span<PyObject* const> live) const {
  for (const BackwardTrace::Part& part : trace_.parts) {
    for (const BackwardTrace::Entry& entry : part.entries) {
      if (entry.result < 0) continue;
      const TensorMeta root = TensorMeta::Of(entry.root.get());
      BackwardUse::Watch(
          options_.backward_use, live[entry.result], entry.result,
          {root.strides.begin(), root.strides.end()}, run_.first_node);
    }
  }
}

void LaterPass::FindGradients() {
  absl::flat_hash_set<PyObject*> known;
  for (const BackwardTrace::Part& part : trace_.parts) {
    for (PyObject* gradient : GradientsOf(part)) {
      if (known.insert(gradient).second) gradients_.push_back(gradient);
    }
  }
}

}  // namespace mica
