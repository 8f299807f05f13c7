#include "python/bridge/engine.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <utility>
#include <variant>

#include "absl/base/casts.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/base/status.h"
#include "ops/all.h"
#include "python/bridge/opaque.h"
#include "python/bridge/plans.h"
#include "python/bridge/tensors.h"

namespace mica {
namespace {

// The first element's address; for a tensor that will be written, after torch
// has made a lazy copy real.
void* DataOf(const at::Tensor& tensor, bool is_written) {
  return is_written ? tensor.mutable_data_ptr()
                    : const_cast<void*>(tensor.const_data_ptr());
}

// A host scalar's bits, widened: a float to double, an int or bool to int64.
uint64_t WidenedBits(const void* data, DType dtype) {
  switch (dtype) {
    case DType::kF32: {
      float value;
      std::memcpy(&value, data, sizeof(value));
      return absl::bit_cast<uint64_t>(static_cast<double>(value));
    }
    case DType::kI32: {
      int32_t value;
      std::memcpy(&value, data, sizeof(value));
      return static_cast<uint64_t>(static_cast<int64_t>(value));
    }
    case DType::kF64:
    case DType::kI64: {
      uint64_t value;
      std::memcpy(&value, data, sizeof(value));
      return value;
    }
    default:
      return *static_cast<const uint8_t*>(data);
  }
}

bool CanBeRead(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI64 ||
         dtype == DType::kI32 || dtype == DType::kBool || dtype == DType::kU8;
}

// What the user gets for one entry of Tape::results.
at::Tensor Window(const at::Tensor& base, const LoweredResult& result) {
  if (result.source == LoweredResult::Source::kOutput && result.offset == 0 &&
      base.sizes() == c10::IntArrayRef(result.sizes) &&
      base.strides() == c10::IntArrayRef(result.strides)) {
    return base;
  }
  return at::as_strided(base, result.sizes, result.strides,
                        base.storage_offset() + result.offset);
}

void BumpVersion(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompiledTape>> CompiledTape::Build(
    const Tape& tape, absl::Span<PyObject* const> states,
    const EngineOptions& options) {
  std::unique_ptr<CompiledTape> compiled(new CompiledTape);
  const absl::Time start = absl::Now();
  MICA_ASSIGN_OR_RETURN(compiled->lowered_, LowerTape(tape, AllOps()));
  compiled->program_ =
      std::make_shared<const Program>(compiled->lowered_.program);
  const Program& program = *compiled->program_;
  MICA_RETURN_IF_ERROR(compiled->AddHostReads(tape));
  compiled->num_tensor_outputs_ =
      static_cast<int>(program.outputs().size() - compiled->host_reads_.size());
  for (TapeTensorId id : compiled->lowered_.large_constants) {
    const ValueId value =
        program.variables()[states.size() + compiled->large_constants_.size()]
            .value;
    TensorView view{.data = const_cast<char*>(tape.tensors[id].bytes->data()),
                    .type = program.type(value)};
    MICA_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(view));
    compiled->large_constants_.push_back(std::move(copy));
  }
  compiled->input_is_updated_.resize(tape.inputs.size());
  compiled->state_is_updated_.resize(states.size());
  for (const Update& update : program.updates()) {
    const Value& target = program.value(update.target);
    (target.kind == ValueKind::kInput ? compiled->input_is_updated_
                                      : compiled->state_is_updated_)
        .at(target.index) = true;
  }
  const absl::Time lowered = absl::Now();
  MICA_ASSIGN_OR_RETURN(
      compiled->plan_,
      Plans()->Get(compiled->program_, {.num_threads = options.num_threads,
                                        .frozen = options.frozen,
                                        .prepare_opaque = &PrepareOpaque}));
  for (int i = 0; i < compiled->num_tensor_outputs_; ++i) {
    compiled->output_types_.push_back(compiled->plan_->output_type(i));
  }
  MICA_RETURN_IF_ERROR(compiled->Rebind(states));
  const absl::Time planned = absl::Now();
  compiled->lower_ms_ = absl::ToDoubleMilliseconds(lowered - start);
  compiled->plan_ms_ = absl::ToDoubleMilliseconds(planned - lowered);
  return compiled;
}

absl::Status CompiledTape::AddHostReads(const Tape& tape) {
  for (size_t i = 0; i < tape.host_reads.size(); ++i) {
    const TapeHostRead& read = tape.host_reads[i];
    const int32_t output = lowered_.host_reads[i];
    if (output == LoweredTape::kProven) continue;
    HostRead added{.output = output,
                   .dtype = program_->type(program_->outputs()[output]).dtype};
    const TapeValue& value = tape.calls[read.call].outputs[read.output];
    if (const auto* real = std::get_if<double>(&value)) {
      added.bits = absl::bit_cast<uint64_t>(*real);
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      added.bits = static_cast<uint64_t>(*integer);
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      added.bits = *flag;
    } else {
      return absl::UnimplementedError("a read of a number of this kind");
    }
    if (!CanBeRead(added.dtype)) {
      return absl::UnimplementedError(
          absl::StrCat("a read of a number of dtype ", DTypeName(added.dtype)));
    }
    host_reads_.push_back(added);
  }
  host_words_.resize(host_reads_.size());
  return absl::OkStatus();
}

absl::Status CompiledTape::Rebind(absl::Span<PyObject* const> states) {
  std::vector<TensorView> variables;
  for (PyObject* state : states) {
    MICA_ASSIGN_OR_RETURN(
        TensorView view,
        ViewOfTensor("a module's tensor", THPVariable_Unpack(state)));
    variables.push_back(std::move(view));
  }
  for (const Tensor& constant : large_constants_) {
    variables.push_back(constant.view());
  }
  MICA_ASSIGN_OR_RETURN(auto binding,
                        Binding::Create(plan_, variables, program_));
  MICA_ASSIGN_OR_RETURN(job_, Job::Create(std::move(binding)));
  for (size_t i = 0; i < host_reads_.size(); ++i) {
    job_->SetOutput(host_reads_[i].output, &host_words_[i]);
  }
  return absl::OkStatus();
}

bool CompiledTape::HostReadsAgree() const {
  for (size_t i = 0; i < host_reads_.size(); ++i) {
    if (WidenedBits(&host_words_[i], host_reads_[i].dtype) !=
        host_reads_[i].bits) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<CompiledTape::Outcome> CompiledTape::Run(
    absl::Span<PyObject* const> inputs, absl::Span<PyObject* const> states,
    std::vector<PyObject*>& results) {
  if (is_running_) return Outcome::kBusy;
  is_running_ = true;
  absl::Cleanup done = [this] { is_running_ = false; };
  try {
    for (size_t i = 0; i < inputs.size(); ++i) {
      job_->SetInput(static_cast<int>(i), DataOf(THPVariable_Unpack(inputs[i]),
                                                 input_is_updated_[i]));
    }
    for (size_t i = 0; i < states.size(); ++i) {
      job_->SetVariable(
          static_cast<int>(i),
          DataOf(THPVariable_Unpack(states[i]), state_is_updated_[i]));
    }
    absl::InlinedVector<at::Tensor, 4> outputs;
    for (int i = 0; i < num_tensor_outputs_; ++i) {
      outputs.push_back(NewTensorOf(output_types_[i]));
      job_->SetOutput(i, outputs.back().mutable_data_ptr());
    }
    MICA_RETURN_IF_ERROR(job_->Compute());
    if (!HostReadsAgree()) return Outcome::kHostReadDiffers;
    MICA_RETURN_IF_ERROR(job_->Commit());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (input_is_updated_[i]) BumpVersion(THPVariable_Unpack(inputs[i]));
    }
    for (size_t i = 0; i < states.size(); ++i) {
      if (state_is_updated_[i]) BumpVersion(THPVariable_Unpack(states[i]));
    }
    for (const LoweredResult& result : lowered_.results) {
      const at::Tensor& base =
          result.source == LoweredResult::Source::kOutput
              ? outputs[result.index]
              : THPVariable_Unpack(result.source ==
                                           LoweredResult::Source::kInput
                                       ? inputs[result.index]
                                       : states[result.index]);
      results.push_back(THPVariable_Wrap(Window(base, result)));
    }
    return Outcome::kDone;
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("torch failed: ", error.what()));
  }
}

}  // namespace mica
