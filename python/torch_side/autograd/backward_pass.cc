#include "python/torch_side/autograd/backward_pass.h"

// Before the others: torch's own order of Python.h and these.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>

#include "python/torch_side/autograd/leaf_order.h"
#include "python/torch_side/tensors/passing_node.h"

namespace mica {
namespace {

using torch::autograd::SavedVariable;

std::atomic<bool> is_pass_allowed = true;

at::Tensor EmptyLaidOutAs(const TensorMeta& like) {
  return at::empty_strided(
      c10::IntArrayRef(like.sizes.data(), like.sizes.size()),
      c10::IntArrayRef(like.strides.data(), like.strides.size()),
      static_cast<c10::ScalarType>(like.dtype));
}

// Zeros, whose elements may lie upon each other: negative ones, which added to
// any number leave it as it is.
at::Tensor ZerosLaidOutAs(const TensorMeta& like) {
  const at::Tensor zeros = EmptyLaidOutAs(like);
  at::Tensor memory = zeros.as_strided(
      {static_cast<int64_t>(zeros.storage().nbytes() / zeros.itemsize())}, {1},
      0);
  memory.fill_(-0.0);
  return zeros;
}

}  // namespace

// Runs one part, and keeps what it reads of the first run. Autograd calls it,
// from any thread and without the GIL.
class BackwardPass::Node final : public torch::autograd::Node {
 public:
  Node(std::shared_ptr<const BackwardPass> pass, const Part& part)
      : pass_(std::move(pass)), part_(part) {}

  // That of the result behind which it stands, if there is one alone.
  std::string name() const override {
    for (const Entry& entry : part_.entries) {
      if (pass_->num_live_ == 1 && entry.result >= 0) return entry.node;
    }
    return "MicaBackward";
  }

  // Keeps the tensors of a run. What requires grad is kept without the node
  // behind it, which keeps it.
  void Keep(absl::Span<PyObject* const> inputs,
            absl::Span<PyObject* const> states,
            absl::Span<const double> numbers, absl::Span<const PyRef> results) {
    for (const SplitTape::Kept& one : part_.kept) {
      const at::Tensor& tensor = THPVariable_Unpack(
          one.is_result ? results[one.index].get() : inputs[one.index]);
      const bool is_live = one.is_result && tensor.requires_grad();
      kept_.emplace_back(is_live ? tensor.detach() : tensor, false);
    }
    for (const int state : part_.states) {
      states_.emplace_back(THPVariable_Unpack(states[state]), false);
    }
    for (const int number : part_.numbers) numbers_.push_back(numbers[number]);
    if (part_.is_used_up && kept_.empty() && states_.empty()) {
      mark_ = SavedVariable(at::empty({0}), false);
    }
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable& one : kept_) one.reset_data();
    for (SavedVariable& one : states_) one.reset_data();
    mark_.reset_data();
  }

  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& gradients) override {
    CheckUse(gradients);
    std::vector<at::Tensor> inputs;
    for (size_t i = 0; i < part_.entries.size(); ++i) {
      if (part_.entries[i].live >= 0 && gradients[i].defined()) {
        pass_->use_->NoteLayout(part_.entries[i].live,
                                part_.entries[i].meta.strides, gradients[i]);
      }
      inputs.push_back(Root(gradients[i], part_.entries[i].meta));
    }
    std::vector<at::Tensor> variables;
    Unpack(&inputs, &variables);
    const std::vector<at::Tensor> results = Run(inputs, variables);
    torch::autograd::variable_list made;
    for (const Output& output : part_.outputs) {
      bool is_made = false;
      for (size_t i = 0; i < part_.entries.size(); ++i) {
        is_made = is_made || (gradients[i].defined() && output.entries[i]);
      }
      if (!is_made) {
        made.emplace_back();
        continue;
      }
      // Itself, so that autograd sees who else has it.
      made.push_back(output.root < 0 ? results[output.result]
                                     : gradients[output.root]);
    }
    return made;
  }

 private:
  // Throws if gradients are taken in a way that needs eager's own graph.
  void CheckUse(absl::Span<const at::Tensor> gradients) const {
    if (c10::GradMode::is_enabled()) {
      Allow(false);
      TORCH_CHECK(false,
                  "mica: create_graph=True goes back through a compiled "
                  "callable, whose gradients have no graph of their own. From "
                  "now on such callables run eagerly in this process: call it "
                  "again, or compile the whole step");
    }
    if (const char* why = pass_->use_->WhyEager(gradients)) {
      pass_->use_->set_why_eager(why);
      TORCH_CHECK(false, "mica: ", why,
                  ", of the results of a compiled callable. From now on it "
                  "runs eagerly: call it again");
    }
    CheckReads();
  }

  // Throws if a function in Python on the way would read what it didn't.
  void CheckReads() const {
    if (pass_->reads_ == nullptr) return;
    TorchState now = TorchState::Current();
    const TorchState& recorded = pass_->reads_->torch_state;
    now.included_keys = recorded.included_keys;
    now.excluded_keys = recorded.excluded_keys;
    now.multithreading = recorded.multithreading;
    std::string why;
    if (now != recorded) {
      why = recorded.Difference(now);
    } else {
      const GilHolder gil;
      Miss miss;
      if (pass_->CheckReads(&miss)) return;
      why = miss.ToString();
    }
    pass_->use_->set_why_eager(
        "has an autograd.Function whose backward() reads what changes");
    TORCH_CHECK(false,
                "mica: the backward pass of a compiled callable calls an "
                "autograd.Function in Python, and what that reads has changed "
                "since: ",
                why,
                ". From now on the callable's results are eager's: call it "
                "again, or keep what changes in an attribute of ctx");
  }

  // What was kept; throws if it was written or is used up.
  void Unpack(std::vector<at::Tensor>* inputs,
              std::vector<at::Tensor>* variables) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const SavedVariable& one : kept_) {
      inputs->push_back(one.unpack(getptr()));
    }
    for (const SavedVariable& one : states_) {
      variables->push_back(one.unpack(getptr()));
    }
    if (part_.is_used_up && kept_.empty() && states_.empty()) {
      mark_.unpack(getptr());
    }
  }

  // A gradient that arrives, laid out as the graph wants it.
  static at::Tensor Root(const at::Tensor& gradient, const TensorMeta& like) {
    if (gradient.defined() && like.Matches(*gradient.unsafeGetTensorImpl())) {
      return gradient;
    }
    if (!gradient.defined()) return ZerosLaidOutAs(like);
    return EmptyLaidOutAs(like).copy_(gradient);
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
        part_.graph->Run(fed, read, numbers_, {}, {}, &results, &told);
    if (PyErr_Occurred() != nullptr) {
      python_error raised;  // By a signal's handler.
      raised.persist();
      throw std::move(raised);
    }
    TORCH_CHECK(status.ok(), "mica: the backward pass of a compiled callable: ",
                std::string(status.message()));
    std::vector<at::Tensor> made;
    for (const PyRef& result : results) {
      made.push_back(THPVariable_Unpack(result.get()));
    }
    return made;
  }

  const std::shared_ptr<const BackwardPass> pass_;
  const Part& part_;  // Of the pass.
  std::vector<SavedVariable> kept_;
  std::vector<SavedVariable> states_;
  SavedVariable mark_;  // Stands for what autograd saves and the part doesn't.
  std::vector<double> numbers_;
};

BackwardPass::BackwardPass(int num_results, std::vector<Part> parts,
                           std::shared_ptr<BackwardUse> use,
                           std::shared_ptr<Reads> reads)
    : num_results_(num_results),
      parts_(std::move(parts)),
      use_(std::move(use)),
      reads_(std::move(reads)),
      layouts_noted_(use_->layouts_noted()) {
  for (const Part& part : parts_) {
    for (const Entry& entry : part.entries) num_live_ += entry.result >= 0;
  }
}

BackwardPass::BackwardPass(const BackwardPass& like, std::vector<Part> parts)
    : BackwardPass(like.num_results_, std::move(parts), like.use_,
                   like.reads_) {
  layouts_noted_ = like.layouts_noted_;
}

BackwardPass::~BackwardPass() {
  if (Py_IsInitialized() == 0) {
    for (Part& part : parts_) {
      static_cast<void>(part.graph.release());
    }
    static_cast<void>(new std::shared_ptr<Reads>(std::move(reads_)));
    return;
  }
  const GilHolder gil;
  parts_.clear();
  reads_.reset();
}

bool BackwardPass::CheckReads(Miss* miss) const {
  return reads_ == nullptr || reads_->guards.Check(miss);
}

void BackwardPass::Allow(bool is_allowed) { is_pass_allowed = is_allowed; }

const char* BackwardPass::WhyEager(const BackwardUse& use) {
  return is_pass_allowed ? use.why_eager()
                         : "gradients of gradients are taken in this process";
}

// The nodes of one run, by part.
struct BackwardPass::Nodes {
  std::vector<c10::intrusive_ptr<Node>> nodes;
  // Between one of several results and the pass: what hangs on a result, such
  // as a hook, sees what arrives there of its own use and of other results that
  // were made of it, and isn't called if nobody goes back from these. By part
  // and entry; null for those without a result.
  std::vector<std::vector<c10::intrusive_ptr<PassingNode>>> passages;

  explicit Nodes(const std::shared_ptr<BackwardPass>& pass) {
    for (const Part& part : pass->parts_) {
      nodes.push_back(c10::make_intrusive<Node>(pass, part));
    }
    passages.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const Entry& entry : pass->parts_[i].entries) {
        const bool has_own = entry.result >= 0 && pass->num_live_ > 1;
        passages[i].push_back(has_own
                                  ? c10::make_intrusive<PassingNode>(entry.node)
                                  : c10::intrusive_ptr<PassingNode>());
      }
    }
  }

  // Makes them what made the results.
  void Follow(const BackwardPass& pass, std::vector<PyRef>* results) const {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const std::vector<Entry>& entries = pass.parts_[i].entries;
      for (size_t j = 0; j < entries.size(); ++j) {
        if (entries[j].result < 0) {
          AddEntry(*nodes[i], entries[j].meta);
          continue;
        }
        PyRef& result = (*results)[entries[j].result];
        // Of a view, autograd would look for the base.
        if (THPVariable_Unpack(result.get()).is_view()) {
          result = PyRef::Steal(
              THPVariable_Wrap(THPVariable_Unpack(result.get()).detach()));
        }
        FollowOne(THPVariable_Unpack(result.get()), nodes[i], passages[i][j]);
      }
    }
  }

  // Where the gradients go that each gives. A part leads to earlier ones:
  // autograd wants a node's own edges first.
  void Lead(const BackwardPass& pass, absl::Span<PyObject* const> inputs,
            absl::Span<PyObject* const> states) const {
    for (size_t i = 0; i < nodes.size(); ++i) {
      torch::autograd::edge_list edges;
      for (const Output& output : pass.parts_[i].outputs) {
        if (output.part >= 0 && passages[output.part][output.entry]) {
          edges.emplace_back(passages[output.part][output.entry], 0);
          continue;
        }
        if (output.part >= 0) {
          edges.emplace_back(nodes[output.part],
                             static_cast<uint32_t>(output.entry));
          continue;
        }
        PyObject* tensor = output.input >= 0   ? inputs[output.input]
                           : output.state >= 0 ? states[output.state]
                                               : output.tensor;
        edges.push_back(
            torch::autograd::impl::gradient_edge(THPVariable_Unpack(tensor)));
      }
      PutLeavesInOrder(&edges);
      nodes[i]->set_next_edges(std::move(edges));
      for (size_t j = 0; j < passages[i].size(); ++j) {
        if (!passages[i][j]) continue;
        passages[i][j]->add_next_edge({nodes[i], static_cast<uint32_t>(j)});
      }
    }
  }

 private:
  static void AddEntry(Node& node, const TensorMeta& meta) {
    const auto dtype = static_cast<c10::ScalarType>(meta.dtype);
    std::vector<c10::SymInt> sizes(meta.sizes.begin(), meta.sizes.end());
    node.add_input_metadata(at::TensorOptions(dtype), sizes,
                            /*is_tensor_subclass=*/false, /*is_nested=*/false,
                            dtype);
  }

  static void FollowOne(const at::Tensor& result,
                        const c10::intrusive_ptr<Node>& node,
                        const c10::intrusive_ptr<PassingNode>& passage) {
    if (!passage) return torch::autograd::set_history(result, node);
    node->add_input_metadata(result);
    torch::autograd::set_history(result, passage);
  }
};

bool BackwardPass::Attach(const std::shared_ptr<BackwardPass>& pass,
                          absl::Span<PyObject* const> inputs,
                          absl::Span<PyObject* const> states,
                          absl::Span<const double> numbers,
                          std::vector<PyRef>* results) {
  try {
    const Nodes all(pass);
    all.Lead(*pass, inputs, states);
    all.Follow(*pass, results);
    for (const auto& node : all.nodes) {
      node->Keep(inputs, states, numbers, *results);
    }
    return true;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return false;
  }
}

int BackwardPass::Traverse(visitproc visit, void* arg) const {
  for (const Part& part : parts_) {
    if (const int stop = part.graph->Traverse(visit, arg)) return stop;
  }
  return reads_ == nullptr ? 0 : reads_->guards.Traverse(visit, arg);
}

}  // namespace mica
