// Python's numbers on the tape.

#include <algorithm>
#include <optional>
#include <utility>

#include "python/torch_side/recorder/recorder_impl.h"

namespace mica {
namespace {

// True if the call at `index` takes what the one before it gives, alone.
bool IsFedByTheOneBefore(const Tape& tape, size_t index) {
  if (index == 0) return false;
  const TapeCall &call = tape.calls[index], &before = tape.calls[index - 1];
  if (call.args.empty() || before.outputs.size() != 1) return false;
  const auto* arg = std::get_if<TapeTensorRef>(&call.args[0]);
  const auto* output = std::get_if<TapeTensorRef>(&before.outputs[0]);
  return arg != nullptr && output != nullptr && arg->id == output->id;
}

}  // namespace

std::optional<Recorder::Number> Recorder::NumberRead(size_t index) const {
  const TapeHostRead& read = impl_->tape.host_reads[index];
  if (read.output != 0) return std::nullopt;
  const TapeValue& value = impl_->tape.calls[read.call].outputs[0];
  if (const auto* real = std::get_if<double>(&value)) {
    return Number{&PyFloat_Type, *real, read.call};
  }
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    return Number{&PyLong_Type, static_cast<double>(*whole), read.call};
  }
  return std::nullopt;
}

bool Recorder::PlaceNumbers(const Mark& mark,
                            absl::Span<const PassedNumbers> numbers,
                            bool is_tracked) {
  Tape& tape = impl_->tape;
  if (!numbers.empty() && numbers[0].is_stored) {
    return numbers.size() == 1 &&
           PlaceStored(numbers[0], mark.calls,
                       static_cast<TapeTensorId>(mark.tensors), tape);
  }
  if (!numbers.empty() && numbers[0].is_data) {
    return numbers.size() == 1 &&
           PlaceData(numbers[0], static_cast<TapeTensorId>(mark.tensors), tape);
  }
  // Besides the operator, only reads of tensors that stand for numbers, and one
  // of its result, where the step takes the truth of it.
  size_t num_reads = tape.host_reads.size() - mark.host_reads;
  if (tape.calls.size() != mark.calls + num_reads + 1) return false;
  size_t at = tape.calls.size() - 1;
  if (num_reads > 0 &&
      tape.host_reads.back().call == static_cast<int64_t>(at) &&
      IsFedByTheOneBefore(tape, at)) {
    --num_reads;
    --at;
  }
  const size_t last = mark.host_reads + num_reads - 1;
  return (num_reads == 0 ||
          tape.host_reads[last].call + 1 == static_cast<int64_t>(at)) &&
         mica::PlaceNumbers(numbers, static_cast<TapeTensorId>(mark.tensors),
                            is_tracked, at, tape);
}

bool Recorder::GaveFloat32(const Mark& mark) const {
  const Tape& tape = impl_->tape;
  for (size_t i = mark.calls; i < tape.calls.size(); ++i) {
    for (const TapeValue& output : tape.calls[i].outputs) {
      const auto* ref = std::get_if<TapeTensorRef>(&output);
      if (ref != nullptr && ref->id != kNoTapeTensor &&
          tape.tensors[ref->id].dtype == "f32") {
        return true;
      }
    }
  }
  return false;
}

void Recorder::SetHostValues(
    std::vector<TapeHostValue> values, std::vector<int32_t> results,
    absl::Span<const HostValues::Comparison> comparisons) {
  Tape& tape = impl_->tape;
  for (const TapeHostValue& value : values) {
    if (value.kind != TapeHostValue::Kind::kRead || value.is_constant) continue;
    tape.host_reads.erase(
        std::remove_if(tape.host_reads.begin(), tape.host_reads.end(),
                       [&](const TapeHostRead& read) {
                         return read.call == value.call &&
                                read.output == value.output;
                       }),
        tape.host_reads.end());
  }
  tape.host_values = std::move(values);
  tape.host_results = std::move(results);
  for (const HostValues::Comparison& comparison : comparisons) {
    TapeCall call{.op = comparison.op,
                  .arg_names = {"a", "b"},
                  .outputs = {comparison.outcome ? 1.0 : 0.0},
                  .file = comparison.at.file,
                  .line = comparison.at.line};
    for (const TapeHostOperand& operand : {comparison.a, comparison.b}) {
      const TapeHostValue* number =
          operand.id < 0 ? nullptr : &tape.host_values[operand.id];
      if (number != nullptr && (!number->is_constant || number->size >= 0)) {
        call.args.push_back(TapeHostRef{operand.id});
      } else {
        call.args.push_back(operand.constant);
      }
    }
    tape.host_reads.push_back(
        {.call = static_cast<int32_t>(tape.calls.size())});
    tape.calls.push_back(std::move(call));
  }
}

}  // namespace mica
