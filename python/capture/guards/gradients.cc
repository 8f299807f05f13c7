#include "python/capture/guards/gradients.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/hit_code.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {

void Gradients::Add(Leaf leaf) {
  if (leaf.had_grad) leaf.same_as = FindGradient(leaf.before.get());
  leaves_.push_back(std::move(leaf));
}

MICA_HIT_CODE bool Gradients::Check(const BoundInputs& inputs,
                                    Miss* miss) const {
  for (const Leaf& leaf : leaves_) {
    PyObject* tensor = Find(leaf, inputs);
    const bool holds =
        leaf.had_grad ? GradMatches(tensor, leaf.meta) : !HasGrad(tensor);
    if (leaf.same_as >= 0 && holds &&
        !HaveOneGrad(tensor, Find(leaves_[leaf.same_as], inputs))) {
      if (miss != nullptr) {
        *miss = {.kind = "state",
                 .note = {.path = absl::StrCat(leaf.name, ".grad")},
                 .expected =
                     absl::StrCat(leaves_[leaf.same_as].name, ".grad itself"),
                 .got = "another tensor"};
      }
      return false;
    }
    const bool has_others =
        leaf.has_hooks ? HasAccumulatorHooks(tensor) : HasGradientHooks(tensor);
    if (holds && IsLeaf(tensor) && !has_others) continue;
    if (holds && miss != nullptr) {
      *miss = {.kind = "state",
               .note = {.path = leaf.name},
               .expected = "a leaf of autograd's without hooks",
               .got = IsLeaf(tensor) ? "one with hooks" : "the result of ops"};
      return false;
    }
    if (miss != nullptr) {
      const PyRef now = GradOf(tensor);
      *miss = {.kind = "state",
               .note = {.path = absl::StrCat(leaf.name, ".grad")},
               .expected = leaf.had_grad ? leaf.meta.ToString() : "None",
               .got = now ? TensorMeta::Of(now.get()).ToString() : "None"};
    }
    return false;
  }
  return true;
}

void Gradients::Apply(const BoundInputs& inputs,
                      absl::Span<const PyRef> results) const {
  for (const Leaf& leaf : leaves_) {
    if (leaf.requires_grad.has_value()) {
      SetRequiresGrad(Find(leaf, inputs), *leaf.requires_grad);
    }
  }
  for (const Leaf& leaf : leaves_) {
    if (leaf.is_kept) continue;
    SetGrad(Find(leaf, inputs),
            leaf.result < 0 ? nullptr : results[leaf.result].get());
  }
}

bool Gradients::ApplyData(const BoundInputs& inputs,
                          absl::Span<const PyRef> results) const {
  try {
    for (const Leaf& leaf : leaves_) {
      if (leaf.data < 0) continue;
      SetData(Find(leaf, inputs), results[leaf.data].get());
    }
    return true;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return false;
  }
}

std::vector<PyObject*> Gradients::Replaced(const BoundInputs& inputs) const {
  std::vector<PyObject*> leaves;
  for (const Leaf& leaf : leaves_) {
    if (!leaf.had_grad || leaf.is_kept || leaf.result < 0) continue;
    const auto result = static_cast<size_t>(leaf.result);
    if (leaves.size() <= result) leaves.resize(result + 1);
    leaves[result] = Find(leaf, inputs);
  }
  return leaves;
}

int Gradients::FindGradient(PyObject* tensor) const {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (leaves_[i].had_grad && leaves_[i].before.get() == tensor) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void Gradients::EndRecording() {
  for (Leaf& leaf : leaves_) leaf.before = PyRef();
}

void Gradients::AppendText(std::vector<std::string>* lines) const {
  for (const Leaf& leaf : leaves_) {
    if (leaf.same_as >= 0) {
      lines->push_back(absl::StrCat(leaf.name, ".grad is ",
                                    leaves_[leaf.same_as].name, ".grad"));
      continue;
    }
    lines->push_back(leaf.had_grad ? absl::StrCat(leaf.name, ".grad is ",
                                                  leaf.meta.ToString())
                                   : absl::StrCat(leaf.name, ".grad is None"));
  }
}

std::vector<std::string> Gradients::ChangesToText() const {
  std::vector<std::string> lines;
  for (const Leaf& leaf : leaves_) {
    if (leaf.requires_grad.has_value()) {
      lines.push_back(absl::StrCat("sets ", leaf.name, ".requires_grad"));
    }
    if (leaf.data >= 0) {
      lines.push_back(absl::StrCat("sets ", leaf.name, ".data"));
    }
  }
  return lines;
}

}  // namespace mica
