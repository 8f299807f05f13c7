#include "python/capture/graph/graph.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analysis/plan/step_facts.h"
#include "framework/base/status.h"
#include "framework/tensor/dtype.h"
#include "framework/tensor/half.h"
#include "ops/all.h"
#include "python/process/helpers.h"
#include "python/process/plans.h"
#include "python/process/progress.h"
#include "python/process/signals.h"
#include "python/torch_side/opaque/opaque.h"
#include "python/torch_side/tensors/autograd_access.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

// Runs that are checked, if the first tell nothing.
constexpr int kMaxChecks = 4;

// A run below this keeps the GIL: to give it away and to take it again is a
// tenth of a call, and nobody who waits for it has it sooner.
constexpr double kShortRunNanoseconds = 2000;

// Whether all is computed by the thread that asks, in next to no time. A user's
// own operator may do anything.
bool IsShort(const Plan& plan) {
  if (plan.streams().num_streams > 1 || plan.queue().num_workers > 1) {
    return false;
  }
  const auto num_steps = static_cast<StepId>(plan.steps().size());
  for (const Step& step : plan.steps()) {
    const Op* op = plan.op(step);
    const bool is_users = op != nullptr && op->def->is_opaque() &&
                          !absl::StrContains(op->def->name(), "aten.");
    if (step.control != nullptr || is_users) return false;
  }
  return absl::c_accumulate(CostsOf(plan, 0, num_steps), 0.0) <
         kShortRunNanoseconds;
}

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
    const float narrow = static_cast<float>(*real);
    if (dtype == DType::kF32) return BitsOf(narrow);
    if (dtype == DType::kBF16) return BitsOf(FloatToBFloat16(narrow));
    if (dtype == DType::kF16) return BitsOf(FloatToHalf(narrow));
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
    const TapeValue* arg = FindArgument(call, "generator");
    const auto* number = arg == nullptr ? nullptr : std::get_if<int64_t>(arg);
    add(number == nullptr ? kDefaultGenerator : *number);
  }
  return numbers;
}

// Whether an argument or a state that is written shares its memory with another
// one, which the Program knows as a tensor of its own.
bool SharesWritten(const Tape& tape) {
  absl::flat_hash_map<int32_t, int> uses;  // By storage.
  for (const auto* ids : {&tape.inputs, &tape.states}) {
    for (const TapeTensorId id : *ids) ++uses[tape.tensors[id].storage];
  }
  return absl::c_any_of(tape.mutated, [&](TapeTensorId id) {
    return uses[tape.tensors[id].storage] > 1;
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Graph>> Graph::Build(
    const Tape& tape, absl::Span<const TensorMeta> results,
    absl::Span<PyObject* const> states, const GraphOptions& options) {
  std::unique_ptr<Graph> graph(new Graph);
  graph->tape_ = tape;
  graph->options_ = options;
  graph->generators_ = GeneratorsOf(tape);
  graph->has_data_sizes_ = absl::c_any_of(
      tape.calls,
      [&](const TapeCall& call) { return HasSizeOfData(tape, call); });
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
  if (!options.exact && options.checks_accuracy) {
    graph->whole_tape_ = std::make_unique<Tape>(tape);
    graph->num_checks_left_ = kMaxChecks;
  }
  graph->ForgetArguments();
  return graph;
}

bool Graph::FailedForSize(const absl::Status& failure) {
  return IsSizeOfData(failure);
}

void Graph::CountWrites(absl::Span<const int64_t> inputs,
                        absl::Span<const int64_t> states) {
  const auto note = [](absl::Span<const int64_t> counts,
                       std::vector<Written>& written) {
    std::vector<int64_t> left(counts.begin(), counts.end());
    for (Written& one : written) {
      const int64_t count = std::exchange(left[one.index], 0);
      if (count >= 0) one.count = count;
    }
    // Operators that only change what a view shows are writes, too.
    for (size_t i = 0; i < left.size(); ++i) {
      if (left[i] <= 0) continue;
      written.push_back({.index = static_cast<int>(i), .count = left[i]});
    }
  };
  // Behind the run's own come what its later backward pass is given.
  note(inputs.subspan(0, tape_.inputs.size()), counted_inputs_);
  note(states.subspan(0, tape_.states.size()), counted_states_);
}

int64_t Graph::kept_bytes() const {
  // Kernels' states are as large again as the Plan, and so are the Program that
  // the passes began with and the tape.
  return 3 * plan_->plan_bytes();
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
                                     .precision = options.precision,
                                     .write_parts = options.writes_parts &&
                                                    !SharesWritten(tape_),
                                     .prepare_aten = &PrepareAten}));
  is_short_ = IsShort(*plan_);
  return absl::OkStatus();
}

TensorType Graph::Result::type(DType dtype) const {
  return {.dtype = dtype,
          .dims = {meta.sizes.begin(), meta.sizes.end()},
          .strides = {meta.strides.begin(), meta.strides.end()}};
}

absl::Status Graph::PlaceResults(absl::Span<const TensorMeta> results) {
  if (results.size() != lowered_.results.size()) {
    return absl::InternalError("lowering lost a result");
  }
  outputs_.resize(program_->outputs().size(), TensorMeta{.dtype = -1});
  std::vector<int> uses(outputs_.size());
  for (size_t i = 0; i < results.size(); ++i) {
    results_.push_back({.place = lowered_.results[i], .meta = results[i]});
    has_moved_ |= lowered_.results[i].moved >= 0;
    if (lowered_.results[i].source != LoweredResult::Source::kOutput) continue;
    const int output = lowered_.results[i].index;
    ++uses[output];
    outputs_[output] = MetaOf(plan_->output_type(output), results[i]);
  }
  for (Result& result : results_) {
    if (result.place.source != LoweredResult::Source::kOutput) continue;
    const int output = result.place.index;
    if (uses[output] > 1 || result.place.offset != 0 ||
        result.place.moved >= 0) {
      continue;
    }
    // All of the memory in whatever order is a tensor, no view.
    const TensorType type = plan_->output_type(output);
    if (result.place.dtype != type.dtype || result.meta.has_lazy_bits()) {
      continue;
    }
    const TensorType seen = result.type(type.dtype);
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

std::vector<TensorView> Graph::VariableViews(
    absl::Span<PyObject* const> states) const {
  std::vector<TensorView> views;
  for (size_t i = 0; i < states.size(); ++i) {
    // The guards hold states to their recorded types.
    const ValueId value = program_->variables()[i].value;
    views.push_back({DataOf(states[i]), program_->type(value)});
  }
  for (size_t i = 0; i < lowered_.large_constants.size(); ++i) {
    const TapeTensor& tensor = tape_.tensors[lowered_.large_constants[i]];
    const ValueId value = program_->variables()[states.size() + i].value;
    views.push_back(
        {const_cast<char*>(tensor.bytes->data()), program_->type(value)});
  }
  return views;
}

absl::Status Graph::Bind(absl::Span<PyObject* const> states) {
  const std::vector<TensorView> views = VariableViews(states);
  frozen_states_.clear();
  for (size_t i = 0; options_.frozen && i < states.size(); ++i) {
    frozen_states_.push_back(FreezeState(states[i], views[i].type));
  }
  idle_.clear();
  const Progress progress("a hit");  // Of a capture, if it is part of one.
  Progress::SetPhase("packing weights");
  const bool holds_like = options_.frozen && options_.holds_like != nullptr &&
                          options_.holds_like(states);
  MICA_ASSIGN_OR_RETURN(binding_,
                        Binding::Create(plan_, views, program_, nullptr,
                                        options_.like.get(), holds_like));
  return absl::OkStatus();
}

}  // namespace mica
