#include "python/capture/passed_numbers.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "framework/base/same_bits.h"

namespace mica {
namespace {

// True for a float in the dispatcher's coat.
bool IsWrappedFloat(const TapeTensor& tensor) {
  return tensor.is_wrapped_number && tensor.origin == TapeOrigin::kConstant &&
         tensor.dtype == "f64";
}

double WrappedFloat(const TapeTensor& tensor) {
  double number = 0;
  std::memcpy(&number, tensor.bytes->data(), sizeof number);
  return number;
}

bool IsSame(const PassedNumbers& passed, const TapeValue& arg) {
  if (!passed.is_list) {
    const auto* real = std::get_if<double>(&arg);
    return real != nullptr && SameBits(*real, passed.items[0].constant);
  }
  const auto* reals = std::get_if<std::vector<double>>(&arg);
  if (reals == nullptr || reals->size() != passed.items.size()) return false;
  for (size_t i = 0; i < reals->size(); ++i) {
    if (!SameBits((*reals)[i], passed.items[i].constant)) return false;
  }
  return true;
}

// True if the two can't be told apart by what an operator got of them.
bool IsAmbiguous(const PassedNumbers& a, const PassedNumbers& b) {
  if (a.is_list != b.is_list || a.items.size() != b.items.size()) return false;
  bool same_values = true, same_ids = true;
  for (size_t i = 0; i < a.items.size(); ++i) {
    same_values &= SameBits(a.items[i].constant, b.items[i].constant);
    same_ids &= a.items[i].id == b.items[i].id;
  }
  return same_values && !same_ids;
}

}  // namespace

bool PlaceNumbers(absl::Span<const PassedNumbers> numbers,
                  TapeTensorId first_new, bool is_tracked, Tape& tape) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (IsAmbiguous(numbers[i], numbers[j])) return false;
    }
  }
  std::vector<std::pair<TapeValue*, const PassedNumbers*>> args;
  std::vector<std::pair<TapeTensor*, const PassedNumbers*>> tensors;
  for (TapeValue& arg : tape.calls.back().args) {
    const auto* ref = std::get_if<TapeTensorRef>(&arg);
    TapeTensor* wrapped = nullptr;
    if (ref != nullptr && ref->id >= first_new &&
        IsWrappedFloat(tape.tensors[ref->id])) {
      wrapped = &tape.tensors[ref->id];
    }
    const TapeValue value =
        wrapped != nullptr ? TapeValue(WrappedFloat(*wrapped)) : arg;
    const PassedNumbers* found = nullptr;
    for (const PassedNumbers& passed : numbers) {
      if (IsSame(passed, value)) found = &passed;
    }
    if (found == nullptr) continue;
    if (wrapped != nullptr) {
      tensors.push_back({wrapped, found});
    } else {
      args.push_back({&arg, found});
    }
  }
  if (args.size() + tensors.size() != numbers.size() ||
      (is_tracked && !args.empty())) {
    return false;
  }
  for (const auto& [arg, passed] : args) {
    if (passed->is_list) {
      *arg = TapeHostList{passed->items};
    } else {
      *arg = TapeHostRef{passed->items[0].id};
    }
  }
  for (const auto& [tensor, passed] : tensors) {
    tensor->host_value = passed->items[0].id;
  }
  return true;
}

}  // namespace mica
