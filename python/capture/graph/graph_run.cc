// One run of a Graph, on torch's tensors.

#include <algorithm>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "python/capture/graph/graph.h"
#include "python/process/helpers.h"
#include "python/process/signals.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {
namespace {

// What is compared of a large frozen state: so many pieces of so many bytes.
constexpr int64_t kSamples = 8;
constexpr int64_t kSampleBytes = 16;

// Gives a result that requires grad a graph that is used up.
absl::Status AddGraph(const std::string& node, PyRef* result) {
  *result = PyRef::Steal(WithReleasedGraph(result->get(), node));
  if (*result) return absl::OkStatus();
  PyErr_Clear();
  return absl::DataLossError("no memory for a result");
}

}  // namespace

Graph::FrozenState Graph::FreezeState(PyObject* state, const TensorType& type) {
  FrozenState frozen{.version = VersionOf(state),
                     .data = DataOf(state),
                     .life = TensorLife::Of(state),
                     .memory = MemoryLife::Of(state)};
  const bool is_whole_number =
      !IsFloating(type.dtype) && !IsComplex(type.dtype);
  if (is_whole_number || !type.is_dense()) return frozen;
  const int64_t bytes = type.extent_bytes();
  const bool may_be_statistics =
      type.rank() == 1 && !TensorMeta::Of(state).requires_grad;
  if (may_be_statistics || bytes <= kSamples * kSampleBytes) {
    frozen.piece_bytes = frozen.step = bytes;
  } else {
    frozen.piece_bytes = kSampleBytes;
    frozen.step = (bytes - kSampleBytes) / (kSamples - 1);
  }
  const auto* data = static_cast<const char*>(frozen.data);
  for (int64_t at = 0; at + frozen.piece_bytes <= bytes && bytes > 0;
       at += frozen.step) {
    frozen.bytes.insert(frozen.bytes.end(), data + at,
                        data + at + frozen.piece_bytes);
  }
  return frozen;
}

bool Graph::FrozenState::Holds(PyObject* state) const {
  if (VersionOf(state) != version || DataOf(state) != data ||
      !life->IsOf(state) || !memory->IsOf(state)) {
    return false;
  }
  const auto* now = static_cast<const char*>(data);
  for (size_t at = 0; at < bytes.size(); at += piece_bytes, now += step) {
    if (std::memcmp(now, bytes.data() + at, piece_bytes) != 0) return false;
  }
  return true;
}

bool Graph::IsStale(absl::Span<PyObject* const> states) const {
  for (size_t i = 0; i < states.size(); ++i) {
    if (!frozen_states_[i].Holds(states[i])) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Graph::Runner>> Graph::Acquire() {
  while (!idle_.empty()) {
    std::unique_ptr<Runner> runner = std::move(idle_.back());
    idle_.pop_back();
    if (runner->binding == binding_) return runner;
  }
  auto runner = std::make_unique<Runner>();
  runner->binding = binding_;
  MICA_ASSIGN_OR_RETURN(runner->job,
                        Job::Create(binding_, MakeJobOptions(*plan_)));
  const size_t num_reads = host_reads_.size();
  runner->host_values.resize(num_reads + lowered_.host_results.size());
  for (size_t i = 0; i < num_reads; ++i) {
    const HostRead& read = host_reads_[i];
    runner->job->SetOutput(read.output, &runner->host_values[i]);
    runner->job->Expect(read.output,
                        std::string(reinterpret_cast<const char*>(&read.words),
                                    static_cast<size_t>(read.bytes)));
  }
  for (size_t i = 0; i < lowered_.host_results.size(); ++i) {
    runner->job->SetOutput(lowered_.host_results[i],
                           &runner->host_values[num_reads + i]);
  }
  runner->moved.resize(has_moved_ ? results_.size() : 0);
  for (size_t i = 0; i < runner->moved.size(); ++i) {
    const int output = results_[i].place.moved;
    if (output >= 0) runner->job->SetOutput(output, &runner->moved[i]);
  }
  const size_t num_inputs = tape_.inputs.size();
  runner->numbers.resize(program_->inputs().size() - num_inputs);
  for (size_t i = 0; i < runner->numbers.size(); ++i) {
    runner->job->SetInput(static_cast<int>(num_inputs + i),
                          &runner->numbers[i]);
  }
  return runner;
}

double Graph::HostResult(const Runner& runner, size_t index) const {
  const HostWords& bits = runner.host_values[host_reads_.size() + index];
  const TensorType type = plan_->output_type(lowered_.host_results[index]);
  if (type.dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

absl::Status Graph::CheckHostReads(const Runner& runner) const {
  for (size_t i = 0; i < host_reads_.size(); ++i) {
    const HostRead& read = host_reads_[i];
    if (std::memcmp(&runner.host_values[i], &read.words,
                    static_cast<size_t>(read.bytes)) != 0) {
      return ReadAnother(read);
    }
  }
  return absl::OkStatus();
}

absl::Status Graph::ReadAnother(const HostRead& read) const {
  const TapeCall& call = tape_.calls[read.call];
  return absl::AbortedError(
      absl::StrCat(absl::StartsWith(call.op, "mica.")
                       ? "the outcome of the comparison of numbers at "
                       : "the number that the program reads from a tensor at ",
                   call.file, ":", call.line));
}

absl::Status Graph::PlaceOutputs(absl::Span<PyObject* const> lenders, Job& job,
                                 std::vector<PyRef>* outputs,
                                 std::vector<PyObject*>* lent) const {
  // A run that may be discarded for what it reads must leave all as it was.
  const bool may_lend = host_reads_.empty() && !has_data_sizes_;
  for (size_t i = 0; i < lenders.size() && may_lend; ++i) {
    if (lenders[i] == nullptr || !results_[i].is_whole) continue;
    const int output = results_[i].place.index;
    void* data = nullptr;
    (*outputs)[output] = TakeGradMemory(lenders[i], outputs_[output], &data);
    if (!(*outputs)[output]) continue;
    lent->push_back(lenders[i]);
    job.SetOutput(output, data);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].dtype < 0 || (*outputs)[i]) continue;  // A host value.
    void* data = nullptr;
    (*outputs)[i] = PyRef::Steal(NewTensor(outputs_[i], &data));
    if (!(*outputs)[i]) {
      PyErr_Clear();
      return absl::ResourceExhaustedError("no memory for a result");
    }
    job.SetOutput(static_cast<int>(i), data);
  }
  return absl::OkStatus();
}

void Graph::FeedJob(absl::Span<PyObject* const> inputs,
                    absl::Span<PyObject* const> states,
                    absl::Span<const double> numbers, Runner& runner) const {
  Job& job = *runner.job;
  for (size_t i = 0; i < inputs.size(); ++i) {
    job.SetInput(static_cast<int>(i), DataOf(inputs[i]));
  }
  std::copy(numbers.begin(), numbers.end(), runner.numbers.begin());
  if (options_.frozen) return;
  for (size_t i = 0; i < states.size(); ++i) {
    job.SetVariable(static_cast<int>(i), DataOf(states[i]));
  }
}

absl::Status Graph::Ask(const BeforeCommit& before_commit,
                        absl::Span<PyObject* const> inputs,
                        absl::Span<PyObject* const> states,
                        absl::Span<const double> numbers, Computed& run,
                        std::vector<PyRef>* results) const {
  const absl::Status status =
      MakeResults(inputs, states, run.runner->moved, run.outputs, results);
  if (absl::IsDataLoss(status)) {
    PyErr_Clear();
    return absl::ResourceExhaustedError(status.message());
  }
  MICA_RETURN_IF_ERROR(status);
  if (before_commit(*results, numbers)) return absl::OkStatus();
  return absl::UnavailableError("a call into the world outside raised");
}

absl::Status Graph::Commit(Job& job, absl::Span<PyObject* const> inputs,
                           absl::Span<PyObject* const> states) const {
  const absl::Status status =
      tape_.mutated.empty() ? absl::OkStatus() : job.Commit();
  for (const auto& [i, count] : counted_inputs_) BumpVersion(inputs[i], count);
  for (const auto& [i, count] : counted_states_) BumpVersion(states[i], count);
  return status;
}

absl::StatusOr<Graph::Computed> Graph::Compute(
    absl::Span<PyObject* const> inputs, absl::Span<PyObject* const> states,
    absl::Span<const double> numbers, absl::Span<PyObject* const> lenders) {
  if (options_.frozen && IsStale(states)) MICA_RETURN_IF_ERROR(Bind(states));
  Computed run{.outputs = std::vector<PyRef>(outputs_.size())};
  MICA_ASSIGN_OR_RETURN(run.runner, Acquire());
  Job& job = *run.runner->job;
  FeedJob(inputs, states, numbers, *run.runner);
  MICA_RETURN_IF_ERROR(PlaceOutputs(lenders, job, &run.outputs, &run.lent));
  if (!generators_.empty()) run.random.emplace(generators_);
  if (is_short_) {
    run.status = job.Compute();
  } else {
    Py_BEGIN_ALLOW_THREADS;
    run.status = job.Compute();
    Py_END_ALLOW_THREADS;
  }
  if (run.status.ok()) run.status = CheckHostReads(*run.runner);
  if (absl::IsAborted(run.status)) {
    const auto read = absl::c_find_if(host_reads_, [&](const HostRead& one) {
      return one.output == job.unexpected_output();
    });
    if (read != host_reads_.end()) run.status = ReadAnother(*read);
  }
  return run;
}

absl::Status Graph::TakeBack(Computed& run) {
  if (run.random.has_value()) run.random->Restore();
  return run.runner->job->Discard();
}

absl::Status Graph::Run(
    absl::Span<PyObject* const> inputs, absl::Span<PyObject* const> states,
    absl::Span<const double> numbers, absl::Span<PyObject* const> lenders,
    const BeforeCommit& before_commit, std::vector<PyRef>* results,
    std::vector<double>* host_results, std::shared_ptr<Computed> done) {
  if (runner_) {
    return RunOutside(inputs, states, numbers, before_commit, results,
                      host_results);
  }
  std::vector<std::shared_ptr<void>> held;
  const auto hold = [&] {
    for (PyObject* input : inputs) held.push_back(HoldMemory(input));
    for (PyObject* state : states) held.push_back(HoldMemory(state));
  };
  SignalScope signals(hold);
  // Another thread may have given the Graph other weights meanwhile.
  const bool is_done = done != nullptr && done->runner->binding == binding_;
  if (!is_done) {
    MICA_ASSIGN_OR_RETURN(Computed computed,
                          Compute(inputs, states, numbers, lenders));
    done = std::make_shared<Computed>(std::move(computed));
  }
  Computed& run = *done;
  absl::Status status = std::move(run.status);
  // Signals waited while it was compared.
  if (is_done && status.ok()) status = SignalInterrupt().ask();
  for (size_t i = 0; status.ok() && i < lowered_.host_results.size(); ++i) {
    host_results->push_back(HostResult(*run.runner, i));
  }
  if (status.ok() && before_commit) {
    status = Ask(before_commit, inputs, states, *host_results, run, results);
  }
  if (!status.ok()) {
    status.Update(TakeBack(run));
    for (PyObject* leaf : run.lent) SetGrad(leaf, nullptr);
  } else {
    status = Commit(*run.runner->job, inputs, states);
  }
  const std::vector<double> moved = run.runner->moved;
  idle_.push_back(std::move(run.runner));
  if (absl::IsUnavailable(status)) return status;
  if (!status.ok() && signals.Raise()) return absl::CancelledError("a signal");
  MICA_RETURN_IF_ERROR(status);
  if (!is_settled() && is_checked()) Settle(states);
  if (before_commit) return absl::OkStatus();
  return MakeResults(inputs, states, moved, run.outputs, results);
}

void Graph::SetVersions(absl::Span<const int64_t> versions) {
  for (size_t i = 0; i < versions.size(); ++i) {
    if (results_[i].place.source != LoweredResult::Source::kOutput) continue;
    results_[i].version = versions[i];
  }
}

void Graph::SetNodes(absl::Span<const std::string> nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) results_[i].node = nodes[i];
}

absl::Status Graph::MakeResults(absl::Span<PyObject* const> inputs,
                                absl::Span<PyObject* const> states,
                                absl::Span<const double> moved,
                                std::vector<PyRef>& outputs,
                                std::vector<PyRef>* results) const {
  results->reserve(results_.size());
  for (const Result& result : results_) {
    const int64_t offset = result.place.moved < 0
                               ? result.place.offset
                               : static_cast<int64_t>(moved[results->size()]);
    const int index = result.place.index;
    if (result.is_whole) {
      results->push_back(std::move(outputs[index]));
    } else {
      PyObject* base = nullptr;
      switch (result.place.source) {
        case LoweredResult::Source::kOutput:
          base = outputs[index].get();
          break;
        case LoweredResult::Source::kInput:
          base = inputs[index];
          break;
        case LoweredResult::Source::kState:
          base = states[index];
          break;
      }
      PyRef view = PyRef::Steal(NewView(base, result.meta, offset));
      if (!view) {
        PyErr_Clear();
        return absl::DataLossError("no memory for a view");
      }
      results->push_back(std::move(view));
    }
    PyObject* made = results->back().get();
    // Views of one tensor count as one.
    const int64_t version = VersionOf(made);
    if (version >= 0) BumpVersion(made, result.version - version);
    if (result.meta.requires_grad) {
      MICA_RETURN_IF_ERROR(AddGraph(result.node, &results->back()));
    }
  }
  return absl::OkStatus();
}

}  // namespace mica
