#include "python/torch_side/tensors/autograd_access.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/SequenceNumber.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/GradMode.h>
#include <c10/core/RefcountedDeleter.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>
#include <vector>

#include "framework/tensor/tensor.h"
#include "python/torch_side/tensors/passing_node.h"

namespace mica {
namespace {

// What torch says of a graph that a backward pass has released, in its words:
// programs match on them.
constexpr char kReleased[] =
    "Trying to backward through the graph a second time (or directly access "
    "saved tensors after they have already been freed). Saved intermediate "
    "values of the graph are freed when you call .backward() or "
    "autograd.grad(). Specify retain_graph=True if you need to backward "
    "through the graph a second time or if you need to access saved tensors "
    "after calling backward.";

// The node that made the tensor; null if none did. None if torch refuses to
// say: it is a view that was written, or its base was, in a way that has none.
std::optional<c10::intrusive_ptr<torch::autograd::Node>> NodeOf(
    PyObject* tensor) {
  try {
    return THPVariable_Unpack(tensor).grad_fn();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

class ReleasedNode final : public torch::autograd::Error {
 public:
  explicit ReleasedNode(std::string name)
      : torch::autograd::Error(kReleased), name_(std::move(name)) {}

  std::string name() const override { return name_; }

 private:
  const std::string name_;
};

torch::autograd::ViewInfo ViewInfoOf(const at::Tensor& base,
                                     const at::Tensor& view) {
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(base);
  if (meta == nullptr) return {base, nullptr, nullptr};
  return meta->get_backward_view().chain(base, view, nullptr, nullptr);
}

// Whether a tensor that autograd doesn't know becomes a view by being told of
// its base: as_strided() would make it a second time. Nothing of the base's
// history has to reach it.
bool IsReadyForViewOf(const at::Tensor& base, const at::Tensor& tensor,
                      bool is_tracked) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const auto* view = torch::autograd::impl::get_view_autograd_meta(base);
  return impl->autograd_meta() == nullptr && !impl->is_inference() &&
         !base.is_inference() &&
         (view == nullptr || view->shared_view_info()) &&
         base.dtype() == tensor.dtype() && impl != base.unsafeGetTensorImpl() &&
         base.storage().is_alias_of(tensor.storage()) &&
         !base._fw_grad(/*level=*/0).defined() &&
         !(is_tracked && base.requires_grad());
}

// The elements of `base` that `seen` shows, which may be the parts of complex
// ones, or complex ones of such parts. Parts are those that are stored: there
// are none of what is lazily conjugated.
at::Tensor WindowLike(const at::Tensor& base, const at::Tensor& seen) {
  if (base.is_complex() == seen.is_complex()) {
    return base.as_strided(seen.sizes(), seen.strides(), seen.storage_offset());
  }
  if (base.is_complex()) {
    return at::view_as_real(base.is_conj() ? at::_conj(base) : base)
        .as_strided(seen.sizes(), seen.strides(), seen.storage_offset());
  }
  std::vector<int64_t> sizes = seen.sizes().vec();
  std::vector<int64_t> strides = seen.strides().vec();
  for (int64_t& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return at::view_as_complex(
      base.as_strided(sizes, strides, 2 * seen.storage_offset()));
}

}  // namespace

bool IsGradModeOn() { return c10::GradMode::is_enabled(); }

std::string NodeNameOf(PyObject* tensor) {
  const auto node = NodeOf(tensor);
  return node.value_or(nullptr) ? (*node)->name() : "";
}

bool HasHistory(PyObject* tensor) { return NodeOf(tensor).has_value(); }

uint64_t NextGradientNode() { return at::sequence_number::peek(); }

std::optional<uint64_t> CurrentGradientNode() {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return std::nullopt;
  return node->sequence_nr();
}

bool IsTrackedSince(PyObject* tensor, uint64_t node) {
  const auto made_by = NodeOf(tensor);
  if (!made_by.has_value()) return true;
  return *made_by && (*made_by)->sequence_nr() >= node;
}

std::optional<ViewRelation> ViewRelationOf(PyObject* tensor) {
  const at::Tensor& own = THPVariable_Unpack(tensor);
  if (!own.is_view()) return std::nullopt;
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(own);
  return ViewRelation{
      .base = PyRef::Steal(THPVariable_Wrap(own._base())),
      .creation = static_cast<uint8_t>(meta->get_creation_meta())};
}

bool IsOneOfViews(PyObject* tensor) {
  const auto relation = ViewRelationOf(tensor);
  return relation.has_value() &&
         relation->creation ==
             static_cast<uint8_t>(
                 torch::autograd::CreationMeta::MULTI_OUTPUT_NODE);
}

PyRef ViewOf(PyObject* base, PyObject* like, uint8_t creation,
             bool is_tracked) {
  const at::Tensor &seen = THPVariable_Unpack(like),
                   &own = THPVariable_Unpack(base);
  if (IsReadyForViewOf(own, seen, is_tracked)) {
    torch::autograd::make_variable_differentiable_view(
        seen, ViewInfoOf(own, seen),
        /*forward_info=*/std::nullopt, /*shared_view_info=*/true,
        static_cast<torch::autograd::CreationMeta>(creation));
    return PyRef::Share(like);
  }
  const c10::AutoGradMode mode(is_tracked);
  at::Tensor view = WindowLike(own, seen);
  if (view.is_conj() != seen.is_conj()) view = at::_conj(view);
  if (view.is_neg() != seen.is_neg()) view = at::_neg_view(view);
  torch::autograd::impl::get_view_autograd_meta(view)->set_creation_meta(
      static_cast<torch::autograd::CreationMeta>(creation));
  return PyRef::Steal(THPVariable_Wrap(view));
}

uint32_t OutputNumberOf(PyObject* tensor) {
  return THPVariable_Unpack(tensor).output_nr();
}

void RenameNode(PyObject* tensor, const std::string& name, uint32_t output) {
  const at::Tensor& own = THPVariable_Unpack(tensor);
  const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(own);
  if (!edge.is_valid() ||
      (edge.function->name() == name && edge.input_nr == output)) {
    return;
  }
  auto node = c10::make_intrusive<PassingNode>(name);
  for (uint32_t i = 0; i <= output; ++i) node->add_input_metadata(own);
  node->add_next_edge(edge);
  torch::autograd::impl::set_gradient_edge(own, {std::move(node), output});
}

bool ShareWrites(PyObject* a, PyObject* b) {
  c10::VariableVersion one =
      THPVariable_Unpack(a).unsafeGetTensorImpl()->version_counter();
  const c10::VariableVersion& two =
      THPVariable_Unpack(b).unsafeGetTensorImpl()->version_counter();
  if (!one.enabled() || !two.enabled()) return !one.enabled() && !two.enabled();
  // torch doesn't say whose counter a tensor has.
  const auto before = one.current_version(), other = two.current_version();
  if (before != other) return false;
  one.set_version(before + 1);
  const bool are_one = two.current_version() != other;
  one.set_version(before);
  return are_one;
}

const void* StorageIdOf(PyObject* tensor) {
  const at::Tensor& of = THPVariable_Unpack(tensor);
  if (!of.has_storage()) return nullptr;
  // Several may share one counted context (c10::isSharedStorageAlias).
  const at::DataPtr& data = of.storage().data_ptr();
  return data.get_deleter() == &c10::refcounted_deleter
             ? data.get_context()
             : of.storage().unsafeGetStorageImpl();
}

bool IsLeaf(PyObject* tensor) { return THPVariable_Unpack(tensor).is_leaf(); }

bool HasGradientHooks(PyObject* tensor) {
  const auto* object = reinterpret_cast<const THPVariable*>(tensor);
  for (PyObject* hooks :
       {object->backward_hooks, object->post_accumulate_grad_hooks}) {
    if (hooks != nullptr && hooks != Py_None &&
        (!PyDict_Check(hooks) || PyDict_GET_SIZE(hooks) > 0)) {
      return true;
    }
  }
  return HasAccumulatorHooks(tensor);
}

bool HasAccumulatorHooks(PyObject* tensor) {
  const auto node = torch::autograd::impl::try_get_grad_accumulator(
      THPVariable_Unpack(tensor));
  return node && (!node->pre_hooks().empty() || !node->post_hooks().empty());
}

PyRef GradOf(PyObject* tensor) {
  const at::Tensor& grad = THPVariable_Unpack(tensor).grad();
  return grad.defined() ? PyRef::Steal(THPVariable_Wrap(grad)) : PyRef();
}

bool HasGrad(PyObject* tensor) {
  return THPVariable_Unpack(tensor).grad().defined();
}

bool HaveOneGrad(PyObject* a, PyObject* b) {
  return THPVariable_Unpack(a).grad().is_same(THPVariable_Unpack(b).grad());
}

bool GradMatches(PyObject* tensor, const TensorMeta& meta) {
  const at::Tensor& grad = THPVariable_Unpack(tensor).grad();
  return grad.defined() && meta.Matches(*grad.unsafeGetTensorImpl());
}

PyRef TakeGradMemory(PyObject* leaf, const TensorMeta& like, void** data) {
  const at::Tensor& grad = THPVariable_Unpack(leaf).grad();
  if (!grad.defined() || !like.Matches(*grad.unsafeGetTensorImpl())) return {};
  // Its object in Python counts, though nobody may hold that.
  const PyObject* object =
      grad.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
  const bool is_object_held = object != nullptr && Py_REFCNT(object) > 1;
  if (is_object_held || grad.use_count() != (object == nullptr ? 1 : 2) ||
      grad.weak_use_count() > 1 || grad.storage().use_count() != 1 ||
      grad.storage_offset() != 0 || grad.storage().nbytes() != grad.nbytes() ||
      !grad.is_non_overlapping_and_dense() ||
      reinterpret_cast<uintptr_t>(grad.const_data_ptr()) % kBufferAlignment !=
          0) {
    return {};
  }
  at::Tensor tensor = grad.variable_data();
  *data = tensor.mutable_data_ptr();
  PyRef result = PyRef::Steal(THPVariable_Wrap(std::move(tensor)));
  if (!result) PyErr_Clear();
  return result;
}

void SetGrad(PyObject* tensor, PyObject* grad) {
  THPVariable_Unpack(tensor).mutable_grad() =
      grad == nullptr ? at::Tensor() : THPVariable_Unpack(grad);
}

void SetRequiresGrad(PyObject* tensor, bool requires_grad) {
  const at::Tensor& leaf = THPVariable_Unpack(tensor);
  if (leaf.is_leaf()) leaf.set_requires_grad(requires_grad);
}

PyObject* WithReleasedGraph(PyObject* tensor, const std::string& node) {
  try {
    const at::Tensor result = THPVariable_Unpack(tensor).detach();
    torch::autograd::set_history(result,
                                 c10::make_intrusive<ReleasedNode>(node));
    return THPVariable_Wrap(result);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

}  // namespace mica
