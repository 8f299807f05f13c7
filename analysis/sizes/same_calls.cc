#include "analysis/sizes/same_calls.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace mica {
namespace {

absl::Status Differ(const TapeCall& call, const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat(call.op, ": ", what, LineOf(call)));
}

bool IsRepeated(const TapeTensorList& list) {
  return list.ids.size() > 1 && absl::c_all_of(list.ids, [&](TapeTensorId id) {
           return id == list.ids[0];
         });
}

// Numbers of Python's are the same if they are computed alike. Those that a
// tape doesn't refer to don't count. What is a size in the tape of which the
// sizes are known is noted.
class SameNumbers {
 public:
  enum class Known : uint8_t { kA, kB };  // Of which tape sizes are.
  SameNumbers(const Tape& a, const Tape& b, Known known,
              NumbersThatAreSizes* sizes)
      : a_(a), b_(b), known_(known), sizes_(*sizes) {}

  bool Are(int32_t a, int32_t b) const {
    if (a < 0 || b < 0) return a == b;
    // Many ways may lead to a number; the first tells.
    if (!seen_.insert({a, b}).second) return true;
    const TapeHostValue& one = a_.host_values[a];
    const TapeHostValue& other = b_.host_values[b];
    if (one.is_constant && other.is_constant) {
      return AreConstants(one, other);
    }
    if (std::tie(one.kind, one.input, one.call, one.output, one.op,
                 one.is_constant) != std::tie(other.kind, other.input,
                                              other.call, other.output,
                                              other.op, other.is_constant)) {
      return false;
    }
    if (one.operands.size() != other.operands.size()) return false;
    for (size_t i = 0; i < one.operands.size(); ++i) {
      if (!Are(one.operands[i], other.operands[i])) return false;
    }
    return true;
  }
  bool Are(const TapeHostOperand& a, const TapeHostOperand& b) const {
    if (a.id >= 0 && b.id >= 0) return Are(a.id, b.id);
    const TapeHostValue one = ConstantOf(a_, a), other = ConstantOf(b_, b);
    return one.is_constant && other.is_constant && AreConstants(one, other);
  }

  bool Are(const std::vector<TapeHostOperand>& a,
           const std::vector<TapeHostOperand>& b) const {
    return absl::c_equal(
        a, b, [this](const TapeHostOperand& one, const TapeHostOperand& other) {
          return Are(one, other);
        });
  }

  // Of what differs in numbers alone.
  bool Are(const TapeValue& a, const TapeValue& b) const {
    if (a.index() != b.index()) {
      // A size, of the tape of which they are known alone.
      const auto one = OperandOf(a), other = OperandOf(b);
      return one.has_value() && other.has_value() && Are(*one, *other);
    }
    if (const auto* ref = std::get_if<TapeHostRef>(&a)) {
      return Are(ref->id, std::get<TapeHostRef>(b).id);
    }
    if (const auto* list = std::get_if<TapeHostList>(&a)) {
      return Are(list->items, std::get<TapeHostList>(b).items);
    }
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&a)) {
      return ints->size() == std::get<std::vector<int64_t>>(b).size();
    }
    if (const auto* reals = std::get_if<std::vector<double>>(&a)) {
      return reals->size() == std::get<std::vector<double>>(b).size();
    }
    if (std::holds_alternative<int64_t>(a) ||
        std::holds_alternative<double>(a)) {
      return true;
    }
    if (const auto* list = std::get_if<TapeTensorList>(&a)) {
      const auto& other = std::get<TapeTensorList>(b);
      // One tensor, any number of times.
      if (IsRepeated(*list) && IsRepeated(other)) {
        return list->ids[0] == other.ids[0];
      }
    }
    if (std::holds_alternative<TapeForeign>(a)) return false;
    return a == b;
  }

 private:
  static TapeHostValue ConstantOf(const Tape& tape,
                                  const TapeHostOperand& operand) {
    if (operand.id >= 0) return tape.host_values[operand.id];
    return {.value = operand.constant, .is_constant = true};
  }
  static std::optional<TapeHostOperand> OperandOf(const TapeValue& value) {
    if (const auto* ref = std::get_if<TapeHostRef>(&value)) {
      return TapeHostOperand{.id = ref->id};
    }
    const auto* constant = std::get_if<double>(&value);
    if (constant == nullptr) return std::nullopt;
    return TapeHostOperand{.constant = *constant};
  }
  bool AreConstants(const TapeHostValue& one,
                    const TapeHostValue& other) const {
    const bool knows_b = known_ == Known::kB;
    const TapeHostValue& known = knows_b ? other : one;
    if (known.size < 0) return one.value == other.value;
    sizes_.emplace_back((knows_b ? one : other).value, known.size);
    return true;
  }

  const Tape& a_;
  const Tape& b_;
  const Known known_;
  NumbersThatAreSizes& sizes_;
  mutable absl::flat_hash_set<std::pair<int32_t, int32_t>> seen_;
};

bool AreSameTensors(const TapeTensor& a, const TapeTensor& b,
                    const SameNumbers& numbers) {
  const auto form = [](const TapeTensor& tensor) {
    return std::tie(tensor.dtype, tensor.device, tensor.storage,
                    tensor.requires_grad, tensor.is_conj, tensor.is_neg,
                    tensor.is_wrapped_number, tensor.origin, tensor.input,
                    tensor.name, tensor.call, tensor.output, tensor.item,
                    tensor.base);
  };
  const auto length = [](const TapeTensor& tensor) {
    return tensor.bytes == nullptr ? 0 : tensor.bytes->size();
  };
  if (a.origin == TapeOrigin::kConstant && a.sizes != b.sizes) return false;
  return form(a) == form(b) && a.sizes.size() == b.sizes.size() &&
         length(a) == length(b) && numbers.Are(a.numbers, b.numbers);
}

// What a number that is read on the host gave is asked again at each run.
bool AreSameOutputs(const TapeValue& a, const TapeValue& b) {
  return std::holds_alternative<TapeTensorRef>(a) ||
                 std::holds_alternative<TapeTensorList>(a)
             ? a == b
             : a.index() == b.index();
}

// What the way of the program rests on.
const TapeValue& ValueRead(const Tape& tape, size_t read) {
  const TapeHostRead& host_read = tape.host_reads[read];
  return tape.calls[host_read.call].outputs[host_read.output];
}

// Numbers that the user gets and that are no sizes: which those are is known of
// a run whose sizes were followed alone.
std::vector<int32_t> ResultsOfData(const Tape& tape) {
  std::vector<int32_t> results;
  for (const int32_t id : tape.host_results) {
    if (tape.host_values[id].size < 0) results.push_back(id);
  }
  return results;
}

absl::Status CheckCall(const TapeCall& a, const TapeCall& b,
                       const SameNumbers& numbers) {
  if (a.op != b.op) {
    return Differ(a, absl::StrCat("the other run called ", b.op));
  }
  if (a.args.size() != b.args.size() || a.outputs.size() != b.outputs.size() ||
      a.mutated_args != b.mutated_args || a.later_part != b.later_part) {
    return Differ(a, "the other run called it in another way");
  }
  for (size_t i = 0; i < a.args.size(); ++i) {
    if (numbers.Are(a.args[i], b.args[i])) continue;
    return Differ(a, absl::StrCat(a.arg_names[i], " was another one"));
  }
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (AreSameOutputs(a.outputs[i], b.outputs[i])) continue;
    return Differ(a, "its results were others");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSameCalls(const Tape& a, const Tape& b,
                            NumbersThatAreSizes* sizes) {
  using Known = SameNumbers::Known;
  const SameNumbers numbers(a, b, Known::kB, sizes);
  const size_t count = std::min(a.calls.size(), b.calls.size());
  for (size_t i = 0; i < count; ++i) {
    absl::Status status =
        CheckCall(b.calls[i], a.calls[i], SameNumbers(b, a, Known::kA, sizes));
    if (!status.ok()) return status;
    if (HasSizeOfData(a, a.calls[i])) {
      return Differ(a.calls[i], "its result's size depends on data");
    }
  }
  if (a.calls.size() != b.calls.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "one run made ", a.calls.size(), " calls, the other ", b.calls.size()));
  }
  if (a.tensors.size() != b.tensors.size()) {
    return absl::FailedPreconditionError("the runs met other tensors");
  }
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    if (AreSameTensors(a.tensors[i], b.tensors[i], numbers)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the runs met other tensors",
        b.tensors[i].name.empty() ? ""
                                  : absl::StrCat(", as ", b.tensors[i].name)));
  }
  if (a.inputs != b.inputs || a.states != b.states || a.results != b.results ||
      a.mutated != b.mutated) {
    return absl::FailedPreconditionError("the runs read or gave other tensors");
  }
  const std::vector<int32_t> results = ResultsOfData(a);
  const std::vector<int32_t> other_results = ResultsOfData(b);
  if (a.host_reads.size() != b.host_reads.size() ||
      results.size() != other_results.size()) {
    return absl::FailedPreconditionError("the runs read other numbers");
  }
  for (size_t i = 0; i < a.host_reads.size(); ++i) {
    if (a.host_reads[i].call == b.host_reads[i].call &&
        a.host_reads[i].output == b.host_reads[i].output &&
        ValueRead(a, i) == ValueRead(b, i)) {
      continue;
    }
    return absl::FailedPreconditionError("the runs read other numbers");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (numbers.Are(results[i], other_results[i])) continue;
    return absl::FailedPreconditionError("the runs gave other numbers");
  }
  return absl::OkStatus();
}

}  // namespace mica
