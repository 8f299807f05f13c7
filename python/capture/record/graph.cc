#include "python/capture/record/graph.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/tensor/dtype.h"
#include "ops/all.h"
#include "python/bridge/helpers.h"
#include "python/bridge/opaque.h"
#include "python/bridge/plans.h"
#include "python/bridge/signals.h"
#include "python/capture/progress.h"
#include "python/torch_side/autograd/autograd_access.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

// A host value as the memory of a Program's output holds it.
template <typename T>
int64_t BitsOf(T value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// As WordsOf(), of a number that isn't complex.
std::optional<int64_t> BitsOf(const TapeValue& value, DType dtype) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    if (dtype == DType::kBool) return BitsOf<bool>(*flag);
  } else if (const auto* number = std::get_if<int64_t>(&value)) {
    switch (dtype) {
      case DType::kI64:
        return BitsOf<int64_t>(*number);
      case DType::kI32:
        return BitsOf(static_cast<int32_t>(*number));
      case DType::kI16:
        return BitsOf(static_cast<int16_t>(*number));
      case DType::kI8:
        return BitsOf(static_cast<int8_t>(*number));
      case DType::kU8:
        return BitsOf(static_cast<uint8_t>(*number));
      default:
        return std::nullopt;
    }
  } else if (const auto* real = std::get_if<double>(&value)) {
    if (dtype == DType::kF64) return BitsOf<double>(*real);
    if (dtype == DType::kF32) return BitsOf(static_cast<float>(*real));
  }
  return std::nullopt;
}

// The recorded `value` in `dtype`; nothing if it can't be held so.
std::optional<HostWords> WordsOf(const TapeValue& value, DType dtype) {
  if (const auto* number = std::get_if<std::complex<double>>(&value)) {
    if (dtype == DType::kC128) {
      return HostWords{BitsOf(number->real()), BitsOf(number->imag())};
    }
    if (dtype != DType::kC64) return std::nullopt;
    return HostWords{BitsOf(std::complex<float>(*number))};
  }
  const std::optional<int64_t> bits = BitsOf(value, dtype);
  if (!bits.has_value()) return std::nullopt;
  return HostWords{*bits};
}

TensorMeta MetaOf(const TensorType& type, const TensorMeta& like) {
  TensorMeta meta = like;
  meta.dtype = TorchDtype(DTypeName(type.dtype));
  const Dims strides = type.EffectiveStrides();
  meta.sizes.assign(type.dims.begin(), type.dims.end());
  meta.strides.assign(strides.begin(), strides.end());
  return meta;
}

// What is compared of a large frozen state: so many pieces of so many bytes.
constexpr int64_t kSamples = 8;
constexpr int64_t kSampleBytes = 16;

// A result that requires grad has a graph that is used up.
absl::Status AddGraph(const TensorMeta& meta, PyRef* result) {
  if (!meta.requires_grad) return absl::OkStatus();
  *result = PyRef::Steal(WithReleasedGraph(result->get()));
  if (*result) return absl::OkStatus();
  PyErr_Clear();
  return absl::DataLossError("no memory for a result");
}

// The memories that a call writes and torch counts that.
absl::flat_hash_set<int32_t> CountedStorages(const Tape& tape) {
  absl::flat_hash_set<int32_t> storages;
  for (const TapeCall& call : tape.calls) {
    for (const int32_t arg : call.mutated_args) {
      if (absl::c_linear_search(call.concealed_args, arg)) continue;
      ForEachTensor(call.args[arg], [&](TapeTensorId id) {
        storages.insert(tape.tensors[id].storage);
      });
    }
  }
  return storages;
}

// The generators whose states its calls read or change, each once.
std::vector<int64_t> GeneratorsOf(const Tape& tape) {
  std::vector<int64_t> numbers;
  const auto add = [&](int64_t number) {
    if (!absl::c_linear_search(numbers, number)) numbers.push_back(number);
  };
  for (const TapeCall& call : tape.calls) {
    if (!call.is_nondeterministic_seeded) continue;
    int64_t drawn_from = kDefaultGenerator;
    for (size_t i = 0; i < call.args.size(); ++i) {
      const auto* number = std::get_if<int64_t>(&call.args[i]);
      if (number == nullptr || call.arg_names[i] != "generator") continue;
      drawn_from = *number;
    }
    add(drawn_from);
  }
  return numbers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> Graph::Build(
    const Tape& tape, absl::Span<const TensorMeta> results,
    absl::Span<PyObject* const> states, const GraphOptions& options) {
  std::unique_ptr<Graph> graph(new Graph);
  graph->tape_ = tape;
  graph->frozen_ = options.frozen;
  graph->generators_ = GeneratorsOf(tape);
  graph->has_dynamic_sizes_ = std::any_of(
      tape.calls.begin(), tape.calls.end(),
      [](const TapeCall& call) { return call.has_dynamic_output_shape; });
  MICA_RETURN_IF_ERROR(graph->Analyse(options));
  MICA_RETURN_IF_ERROR(graph->PlaceResults(results));
  MICA_RETURN_IF_ERROR(graph->PlaceHostReads());
  MICA_RETURN_IF_ERROR(graph->CheckHostResults());
  MICA_RETURN_IF_ERROR(graph->Bind(states));
  const absl::flat_hash_set<int32_t> counted = CountedStorages(tape);
  for (const TapeTensorId id : tape.mutated) {
    const TapeTensor& tensor = tape.tensors[id];
    if (!counted.contains(tensor.storage)) continue;
    if (tensor.origin == TapeOrigin::kInput) {
      graph->counted_inputs_.push_back({.index = tensor.input});
    } else {
      const auto at = std::find(tape.states.begin(), tape.states.end(), id);
      graph->counted_states_.push_back(
          {.index = static_cast<int>(at - tape.states.begin())});
    }
  }
  graph->ForgetArguments();
  return graph;
}

void Graph::CountWrites(absl::Span<const int64_t> inputs,
                        absl::Span<const int64_t> states) {
  for (Written& one : counted_inputs_) {
    if (inputs[one.index] >= 0) one.count = inputs[one.index];
  }
  for (Written& one : counted_states_) {
    if (states[one.index] >= 0) one.count = states[one.index];
  }
}

void Graph::ForgetArguments() {
  absl::flat_hash_set<int32_t> read;
  for (const HostRead& host_read : host_reads_) read.insert(host_read.call);
  for (size_t i = 0; i < tape_.calls.size(); ++i) {
    TapeCall& call = tape_.calls[i];
    TapeCall kept{.op = std::move(call.op),
                  .file = std::move(call.file),
                  .line = call.line};
    if (read.contains(static_cast<int32_t>(i))) {
      kept.args = std::move(call.args);
      kept.outputs = std::move(call.outputs);
    }
    call = std::move(kept);
  }
}

absl::Status Graph::Analyse(const GraphOptions& options) {
  Progress::SetPhase("lowering and planning");
  MICA_ASSIGN_OR_RETURN(lowered_, LowerTape(tape_, AllOps(),
                                            {.keep_calls = options.exact,
                                             .keep_discrete_results = true}));
  program_ = std::make_shared<const Program>(std::move(lowered_.program));
  MICA_ASSIGN_OR_RETURN(
      plan_, Plans()->Get(program_, {.num_threads = options.num_threads,
                                     .queue = options.queue,
                                     .num_streams = options.num_streams,
                                     .frozen = options.frozen,
                                     .prepare_opaque = &PrepareOpaque}));
  return absl::OkStatus();
}

absl::Status Graph::PlaceResults(absl::Span<const TensorMeta> results) {
  if (results.size() != lowered_.results.size()) {
    return absl::InternalError("lowering lost a result");
  }
  outputs_.resize(program_->outputs().size(), TensorMeta{.dtype = -1});
  std::vector<int> uses(outputs_.size());
  for (size_t i = 0; i < results.size(); ++i) {
    results_.push_back({.place = lowered_.results[i], .meta = results[i]});
    if (lowered_.results[i].source != LoweredResult::Source::kOutput) continue;
    const int output = lowered_.results[i].index;
    ++uses[output];
    outputs_[output] = MetaOf(plan_->output_type(output), results[i]);
  }
  for (Result& result : results_) {
    if (result.place.source != LoweredResult::Source::kOutput) continue;
    const int output = result.place.index;
    if (uses[output] > 1 || result.place.offset != 0) continue;
    // All of the memory in whatever order is a tensor, no view.
    const TensorType type = plan_->output_type(output);
    if (result.place.dtype != type.dtype || result.meta.has_lazy_bits()) {
      continue;
    }
    const TensorType seen{
        .dtype = type.dtype,
        .dims = {result.meta.sizes.begin(), result.meta.sizes.end()},
        .strides = {result.meta.strides.begin(), result.meta.strides.end()}};
    if (seen.is_dense() && type.is_dense() &&
        seen.num_elements() == type.num_elements()) {
      outputs_[output].sizes = result.meta.sizes;
      outputs_[output].strides = result.meta.strides;
    }
    result.is_whole = result.meta.sizes == outputs_[output].sizes &&
                      result.meta.strides == outputs_[output].strides;
  }
  return absl::OkStatus();
}

absl::Status Graph::PlaceHostReads() {
  for (size_t i = 0; i < lowered_.host_reads.size(); ++i) {
    const TapeHostRead& read = tape_.host_reads[i];
    const TapeCall& call = tape_.calls[read.call];
    const int output = lowered_.host_reads[i];
    if (output == LoweredTape::kProven) continue;
    const TensorType type = plan_->output_type(output);
    const std::optional<HostWords> words =
        WordsOf(call.outputs[read.output], type.dtype);
    if (!words.has_value() || type.num_elements() != 1) {
      return absl::UnimplementedError(
          absl::StrCat(call.op, ": a host value of type ", type.ToString()));
    }
    host_reads_.push_back({.output = output,
                           .call = read.call,
                           .bytes = static_cast<int>(ElementBytes(type.dtype)),
                           .words = *words});
  }
  return absl::OkStatus();
}

absl::Status Graph::CheckHostResults() const {
  for (const int32_t output : lowered_.host_results) {
    const TensorType type = plan_->output_type(output);
    if (type.dtype == DType::kF32 || type.dtype == DType::kF64) continue;
    return absl::UnimplementedError(
        absl::StrCat("a result read from a tensor of ", type.ToString()));
  }
  return absl::OkStatus();
}

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

absl::Status Graph::Bind(absl::Span<PyObject* const> states) {
  std::vector<TensorView> views;
  frozen_states_.clear();
  for (size_t i = 0; i < states.size(); ++i) {
    // The guards hold states to their recorded types.
    const ValueId value = program_->variables()[i].value;
    views.push_back({DataOf(states[i]), program_->type(value)});
    if (frozen_) {
      frozen_states_.push_back(FreezeState(states[i], program_->type(value)));
    }
  }
  for (size_t i = 0; i < lowered_.large_constants.size(); ++i) {
    const TapeTensor& tensor = tape_.tensors[lowered_.large_constants[i]];
    const ValueId value = program_->variables()[states.size() + i].value;
    views.push_back(
        {const_cast<char*>(tensor.bytes->data()), program_->type(value)});
  }
  idle_.clear();
  const Progress progress("a hit");  // Of a capture, if it is part of one.
  Progress::SetPhase("packing weights");
  MICA_ASSIGN_OR_RETURN(binding_, Binding::Create(plan_, views, program_));
  return absl::OkStatus();
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
    runner->job->SetOutput(host_reads_[i].output, &runner->host_values[i]);
  }
  for (size_t i = 0; i < lowered_.host_results.size(); ++i) {
    runner->job->SetOutput(lowered_.host_results[i],
                           &runner->host_values[num_reads + i]);
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
                    static_cast<size_t>(read.bytes)) == 0) {
      continue;
    }
    const TapeCall& call = tape_.calls[read.call];
    return absl::AbortedError(absl::StrCat(
        absl::StartsWith(call.op, "mica.")
            ? "the outcome of the comparison of numbers at "
            : "the number that the program reads from a tensor at ",
        call.file, ":", call.line));
  }
  return absl::OkStatus();
}

absl::Status Graph::Run(absl::Span<PyObject* const> inputs,
                        absl::Span<PyObject* const> states,
                        absl::Span<const double> numbers,
                        absl::Span<PyObject* const> lenders,
                        const BeforeCommit& before_commit,
                        std::vector<PyRef>* results,
                        std::vector<double>* host_results) {
  if (runner_) {
    return RunOutside(inputs, states, numbers, before_commit, results,
                      host_results);
  }
  if (frozen_ && IsStale(states)) MICA_RETURN_IF_ERROR(Bind(states));
  MICA_ASSIGN_OR_RETURN(std::unique_ptr<Runner> runner, Acquire());
  Job& job = *runner->job;
  for (size_t i = 0; i < inputs.size(); ++i) {
    job.SetInput(static_cast<int>(i), DataOf(inputs[i]));
  }
  std::copy(numbers.begin(), numbers.end(), runner->numbers.begin());
  if (!frozen_) {
    for (size_t i = 0; i < states.size(); ++i) {
      job.SetVariable(static_cast<int>(i), DataOf(states[i]));
    }
  }
  std::vector<PyRef> outputs(outputs_.size());
  // A run that may be discarded for what it reads must leave all as it was.
  std::vector<PyObject*> lent;
  const bool may_lend = host_reads_.empty() && !has_dynamic_sizes_;
  for (size_t i = 0; i < lenders.size() && may_lend; ++i) {
    if (lenders[i] == nullptr || !results_[i].is_whole) continue;
    const int output = results_[i].place.index;
    void* data = nullptr;
    outputs[output] = TakeGradMemory(lenders[i], outputs_[output], &data);
    if (!outputs[output]) continue;
    lent.push_back(lenders[i]);
    job.SetOutput(output, data);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].dtype < 0 || outputs[i]) continue;  // A host value.
    void* data = nullptr;
    outputs[i] = PyRef::Steal(NewTensor(outputs_[i], &data));
    if (!outputs[i]) {
      PyErr_Clear();
      return absl::ResourceExhaustedError("no memory for a result");
    }
    job.SetOutput(static_cast<int>(i), data);
  }
  // A run that is discarded, since a number that the program reads differs or
  // a kernel failed, is followed by an eager one: that draws the same numbers.
  std::optional<TorchGeneratorStates> random;
  if (!generators_.empty()) random.emplace(generators_);
  std::vector<std::shared_ptr<void>> held;
  const auto hold = [&] {
    for (PyObject* input : inputs) held.push_back(HoldMemory(input));
    for (PyObject* state : states) held.push_back(HoldMemory(state));
  };
  SignalScope signals(hold);
  absl::Status status;
  Py_BEGIN_ALLOW_THREADS;
  status = job.Compute();
  Py_END_ALLOW_THREADS;
  if (status.ok()) status = CheckHostReads(*runner);
  for (size_t i = 0; status.ok() && i < lowered_.host_results.size(); ++i) {
    host_results->push_back(HostResult(*runner, i));
  }
  if (status.ok() && before_commit) {
    status = MakeResults(inputs, states, outputs, results);
    if (absl::IsDataLoss(status)) {
      PyErr_Clear();
      status = absl::ResourceExhaustedError(status.message());
    }
    if (status.ok() && !before_commit(*results, *host_results)) {
      status = absl::UnavailableError("a call into the world outside raised");
    }
  }
  if (!status.ok() && random.has_value()) random->Restore();
  if (!status.ok()) {
    for (PyObject* leaf : lent) SetGrad(leaf, nullptr);
  }
  if (status.ok() && !tape_.mutated.empty()) {
    status = job.Commit();
    for (const auto& [i, count] : counted_inputs_)
      BumpVersion(inputs[i], count);
    for (const auto& [i, count] : counted_states_)
      BumpVersion(states[i], count);
  }
  idle_.push_back(std::move(runner));
  if (absl::IsUnavailable(status)) return status;
  if (!status.ok() && signals.Raise()) return absl::CancelledError("a signal");
  MICA_RETURN_IF_ERROR(status);
  if (before_commit) return absl::OkStatus();
  return MakeResults(inputs, states, outputs, results);
}

void Graph::SetVersions(absl::Span<const int64_t> versions) {
  for (size_t i = 0; i < versions.size(); ++i) {
    if (results_[i].place.source != LoweredResult::Source::kOutput) continue;
    results_[i].version = versions[i];
  }
}

absl::Status Graph::MakeResults(absl::Span<PyObject* const> inputs,
                                absl::Span<PyObject* const> states,
                                std::vector<PyRef>& outputs,
                                std::vector<PyRef>* results) const {
  results->reserve(results_.size());
  for (const Result& result : results_) {
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
      PyRef view =
          PyRef::Steal(NewView(base, result.meta, result.place.offset));
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
    MICA_RETURN_IF_ERROR(AddGraph(result.meta, &results->back()));
  }
  return absl::OkStatus();
}

}  // namespace mica
