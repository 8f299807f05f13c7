#include "python/capture/backward_pass.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <atomic>

#include "python/bridge/tensors.h"
#include "python/capture/autograd_access.h"

namespace mica {
namespace {

using torch::autograd::SavedVariable;

std::atomic<bool> is_pass_allowed = true;

// What a pass failed by, as a C++ exception that torch hands to the user.
[[noreturn]] void Throw(const absl::Status& status) {
  TORCH_CHECK(false, "mica: the backward pass of a compiled callable: ",
              std::string(status.message()));
}

// Between one of several results and the pass. What hangs on a result that
// nobody goes back from, such as a hook, isn't called then, as eager's isn't.
struct Passage final : torch::autograd::Node {
  std::string name() const override { return "MicaBackward"; }

  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

// Makes `pass` what made the result.
void Follow(const at::Tensor& result,
            const c10::intrusive_ptr<torch::autograd::Node>& pass,
            bool is_one_of_several) {
  if (!is_one_of_several) return torch::autograd::set_history(result, pass);
  auto passage = c10::make_intrusive<Passage>();
  passage->add_next_edge({pass, pass->add_input_metadata(result)});
  torch::autograd::set_history(result, passage);
}

}  // namespace

// Keeps what a run's backward pass reads. Autograd calls it, from any thread
// and without the GIL.
struct BackwardPass::Node final : torch::autograd::Node {
  explicit Node(std::shared_ptr<BackwardPass> owner) : pass(std::move(owner)) {}

  std::string name() const override { return "MicaBackward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable& one : kept) one.reset_data();
    for (SavedVariable& one : states) one.reset_data();
  }

  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& gradients) override {
    const Parts& parts = pass->parts_;
    if (c10::GradMode::is_enabled()) {
      Allow(false);
      TORCH_CHECK(false,
                  "mica: create_graph=True goes back through a compiled "
                  "callable, whose gradients have no graph of their own. From "
                  "now on such callables run eagerly in this process: call it "
                  "again, or compile the whole step");
    }
    if (const char* why = parts.use->WhyEager(gradients)) {
      parts.use->set_why_eager(why);
      TORCH_CHECK(false, "mica: ", why,
                  ", of the results of a compiled callable. From now on it "
                  "runs eagerly: call it again");
    }
    bool is_partial = false;
    std::vector<at::Tensor> inputs;
    std::vector<bool> given;
    for (size_t i = 0; i < parts.roots.size(); ++i) {
      given.push_back(gradients[i].defined());
      is_partial = is_partial || !given.back();
      inputs.push_back(Root(gradients[i], parts.roots[i]));
    }
    std::vector<at::Tensor> variables;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const SavedVariable& one : kept) {
        inputs.push_back(one.unpack(getptr()));
      }
      for (const SavedVariable& one : states) {
        variables.push_back(one.unpack(getptr()));
      }
    }
    const std::vector<at::Tensor> results = Run(inputs, variables);
    torch::autograd::variable_list made;
    bool is_finite = true;
    for (const Leaf& leaf : parts.leaves) {
      bool is_made = false;
      for (size_t i = 0; i < given.size(); ++i) {
        is_made = is_made || (given[i] && leaf.results[i]);
      }
      if (!is_made) {
        made.emplace_back();
        continue;
      }
      // Itself, so that autograd sees who else has it.
      const at::Tensor& gradient =
          leaf.root < 0 ? results[leaf.result] : gradients[leaf.root];
      is_finite = is_finite && (!is_partial || IsFinite(gradient));
      made.push_back(gradient);
    }
    // Zeros stand for what autograd would leave out: the same, unless they met
    // an infinity.
    TORCH_CHECK(is_finite || AreZerosPassed(std::move(inputs), variables),
                "mica: a gradient isn't finite, and only some of the compiled "
                "callable's results were used: what an unused one adds to it "
                "can't be told. Return what is used alone");
    return made;
  }

  // Whether nothing but what comes of the results' gradients, the first of
  // `inputs`, is infinite: zeros instead of them make zeros.
  bool AreZerosPassed(std::vector<at::Tensor> inputs,
                      const std::vector<at::Tensor>& variables) const {
    for (size_t i = 0; i < pass->parts_.roots.size(); ++i) {
      inputs[i] = Root(at::Tensor(), pass->parts_.roots[i]);
    }
    const std::vector<at::Tensor> results = Run(std::move(inputs), variables);
    return std::all_of(results.begin(), results.end(), IsFinite);
  }

  // The gradient of a result, laid out as the graph wants it.
  static at::Tensor Root(const at::Tensor& gradient, const TensorMeta& like) {
    if (gradient.defined() && like.Matches(*gradient.unsafeGetTensorImpl())) {
      return gradient;
    }
    at::Tensor root = at::empty_strided(
        c10::IntArrayRef(like.sizes.data(), like.sizes.size()),
        c10::IntArrayRef(like.strides.data(), like.strides.size()),
        static_cast<c10::ScalarType>(like.dtype));
    return gradient.defined() ? root.copy_(gradient) : root.zero_();
  }

  std::vector<at::Tensor> Run(std::vector<at::Tensor> inputs,
                              std::vector<at::Tensor> variables) const {
    const GilHolder gil;
    std::vector<PyRef> pins;
    const auto wrap = [&pins](std::vector<at::Tensor>& tensors) {
      std::vector<PyObject*> objects;
      for (at::Tensor& tensor : tensors) {
        pins.push_back(PyRef::Steal(THPVariable_Wrap(std::move(tensor))));
        objects.push_back(pins.back().get());
      }
      return objects;
    };
    const std::vector<PyObject*> fed = wrap(inputs), read = wrap(variables);
    std::vector<PyRef> results;
    std::vector<double> told;
    const absl::Status status =
        pass->graph_->Run(fed, read, numbers, {}, &results, &told);
    if (PyErr_Occurred() != nullptr) {
      python_error raised;  // By a signal's handler.
      raised.persist();
      throw std::move(raised);
    }
    if (!status.ok()) Throw(status);
    std::vector<at::Tensor> made;
    for (const PyRef& result : results) {
      made.push_back(THPVariable_Unpack(result.get()));
    }
    return made;
  }

  std::shared_ptr<BackwardPass> pass;
  std::vector<SavedVariable> kept;
  std::vector<SavedVariable> states;
  std::vector<double> numbers;
};

BackwardPass::~BackwardPass() {
  if (Py_IsInitialized() == 0) {
    for (Leaf& leaf : parts_.leaves) leaf.tensor.release();
    for (View& view : parts_.views) view.tensor.release();
    static_cast<void>(graph_.release());
    return;
  }
  const GilHolder gil;
  parts_ = {};
  graph_.reset();
}

void BackwardPass::Allow(bool is_allowed) { is_pass_allowed = is_allowed; }

const char* BackwardPass::WhyEager(const BackwardUse& use) {
  return is_pass_allowed ? use.why_eager()
                         : "gradients of gradients are taken in this process";
}

bool BackwardPass::Attach(const std::shared_ptr<BackwardPass>& pass,
                          absl::Span<PyObject* const> inputs,
                          absl::Span<PyObject* const> states,
                          absl::Span<const double> numbers,
                          std::vector<PyRef>* results) {
  const Parts& parts = pass->parts_;
  try {
    auto node = c10::make_intrusive<Node>(pass);
    torch::autograd::edge_list edges;
    for (const Leaf& leaf : parts.leaves) {
      edges.push_back(torch::autograd::impl::gradient_edge(THPVariable_Unpack(
          leaf.input < 0 ? leaf.tensor.get() : inputs[leaf.input])));
    }
    node->set_next_edges(std::move(edges));
    for (const int index : parts.live) {
      PyRef& result = (*results)[index];
      // Of a view, autograd would look for the base.
      if (THPVariable_Unpack(result.get()).is_view()) {
        result = PyRef::Steal(
            THPVariable_Wrap(THPVariable_Unpack(result.get()).detach()));
      }
      Follow(THPVariable_Unpack(result.get()), node, parts.live.size() > 1);
    }
    for (const SplitTape::Kept& one : parts.kept) {
      const at::Tensor& tensor = THPVariable_Unpack(
          one.is_result ? (*results)[one.index].get() : inputs[one.index]);
      // Without the node behind it, which keeps it.
      const bool is_live = one.is_result && tensor.requires_grad();
      node->kept.emplace_back(is_live ? tensor.detach() : tensor, false);
    }
    for (const int state : parts.states) {
      node->states.emplace_back(THPVariable_Unpack(states[state]), false);
    }
    for (const int number : parts.numbers) {
      node->numbers.push_back(numbers[number]);
    }
    // After what is kept, which they aren't: they lead to the node.
    for (const View& view : parts.views) {
      PyObject* base = view.root >= 0    ? (*results)[view.root].get()
                       : view.input >= 0 ? inputs[view.input]
                                         : view.tensor.get();
      PyRef& result = (*results)[view.result];
      result = TrackedView(base, result.get(), view.creation);
    }
    return true;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return false;
  }
}

int BackwardPass::Traverse(visitproc visit, void* arg) const {
  if (const int stop = graph_->Traverse(visit, arg)) return stop;
  for (const Leaf& leaf : parts_.leaves) Py_VISIT(leaf.tensor.get());
  for (const View& view : parts_.views) Py_VISIT(view.tensor.get());
  return 0;
}

}  // namespace mica
