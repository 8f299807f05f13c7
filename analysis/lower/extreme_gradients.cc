#include "analysis/lower/extreme_gradients.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "analysis/lower/split_tape.h"

namespace mica {
namespace {

TapeTensorId TensorOf(const TapeValue& value) {
  const auto* one = std::get_if<TapeTensorRef>(&value);
  return one == nullptr ? kNoTapeTensor : one->id;
}

bool IsFalse(const TapeValue& value) {
  const auto* flag = std::get_if<bool>(&value);
  return flag != nullptr && !*flag;
}

// Calls that find NaNs beside the numbers that are equal.
constexpr int32_t kNumAdded = 3;

class ExtremeRewriter {
 public:
  explicit ExtremeRewriter(Tape& tape) : tape_(tape) {}

  void Run() {
    std::vector<int32_t> reads;
    for (const TapeHostRead& read : tape_.host_reads) {
      if (tape_.calls[read.call].later_part >= 0) reads.push_back(read.call);
    }
    // The last ones first: what is inserted behind them moves no other.
    std::sort(reads.rbegin(), reads.rend());
    std::vector<int32_t> found;
    for (const int32_t read : reads) {
      const std::optional<int32_t> mask = FindMask(read);
      if (!mask.has_value()) continue;
      AddNans(*mask, TensorOf(tape_.calls[read].args[0]));
      for (int32_t& later : found) later += kNumAdded;
      found.push_back(read);
    }
    const absl::flat_hash_set<int32_t> dead(found.begin(), found.end());
    auto& all = tape_.host_reads;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const TapeHostRead& read) {
                               return dead.contains(read.call);
                             }),
              all.end());
    DropCalls(tape_, dead);
  }

 private:
  // The comparison of the elements with a number that `read` found to be none
  // of the NaNs; nothing if the read is of another kind.
  std::optional<int32_t> FindMask(int32_t read) const {
    const TapeCall& call = tape_.calls[read];
    if (call.op != "aten._local_scalar_dense" || !IsFalse(call.outputs[0])) {
      return std::nullopt;
    }
    const TapeTensor& asked = tape_.tensors[TensorOf(call.args[0])];
    if (asked.origin != TapeOrigin::kCall || asked.call < 0) {
      return std::nullopt;
    }
    const TapeCall& test = tape_.calls[asked.call];
    const TapeTensorId number = TensorOf(test.args[0]);
    const bool is_nan_test =
        test.op == "aten.isnan" ||
        (test.op == "aten.ne.Tensor" && TensorOf(test.args[1]) == number);
    const size_t next = static_cast<size_t>(read) + 1;
    if (!is_nan_test || next >= tape_.calls.size()) return std::nullopt;
    const TapeCall& mask = tape_.calls[next];
    if (mask.op != "aten.eq.Tensor" || TensorOf(mask.args[1]) != number ||
        mask.later_part != call.later_part) {
      return std::nullopt;
    }
    return static_cast<int32_t>(next);
  }

  TapeTensorId AddFlags(TapeTensorId like, int32_t call) {
    TapeTensor flags = tape_.tensors[like];
    int32_t storage = 0;
    for (const TapeTensor& tensor : tape_.tensors) {
      storage = std::max(storage, tensor.storage + 1);
    }
    flags.storage = storage;
    flags.call = call;
    tape_.tensors.push_back(std::move(flags));
    return static_cast<TapeTensorId>(tape_.tensors.size()) - 1;
  }

  // Has the comparison be true for NaNs, too, if `is_nan` is.
  void AddNans(int32_t index, TapeTensorId is_nan) {
    for (TapeTensor& tensor : tape_.tensors) {
      if (tensor.call > index) tensor.call += kNumAdded;
    }
    for (TapeHostRead& read : tape_.host_reads) {
      if (read.call > index) read.call += kNumAdded;
    }
    for (TapeHostValue& value : tape_.host_values) {
      if (value.call > index) value.call += kNumAdded;
    }
    const TapeTensorId mask = TensorOf(tape_.calls[index].outputs[0]);
    const TapeTensorId equal = AddFlags(mask, index);
    const TapeTensorId nans = AddFlags(mask, index + 1);
    const TapeTensorId also = AddFlags(mask, index + 2);
    tape_.tensors[mask].call = index + kNumAdded;
    tape_.calls[index].outputs = {TapeTensorRef{equal}};
    const TapeTensorId elements = TensorOf(tape_.calls[index].args[0]);
    const auto call = [&](const char* op, TapeTensorId a, TapeTensorId b,
                          TapeTensorId made) {
      TapeCall added = tape_.calls[index];
      added.op = op;
      added.schema = "aten::" + added.op.substr(5) +
                     "(Tensor self, Tensor other) -> Tensor";
      added.args = {TapeTensorRef{a}, TapeTensorRef{b}};
      added.outputs = {TapeTensorRef{made}};
      return added;
    };
    const std::vector<TapeCall> added = {
        call("aten.ne.Tensor", elements, elements, nans),
        call("aten.logical_and", nans, is_nan, also),
        call("aten.logical_or", equal, also, mask)};
    tape_.calls.insert(tape_.calls.begin() + index + 1, added.begin(),
                       added.end());
  }

  Tape& tape_;
};

}  // namespace

void FindExtremesWithoutReads(Tape& tape) { ExtremeRewriter(tape).Run(); }

}  // namespace mica
