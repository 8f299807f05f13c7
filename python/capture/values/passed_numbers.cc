#include "python/capture/values/passed_numbers.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "framework/base/same_bits.h"
#include "framework/tensor/dtype.h"

namespace mica {
namespace {

// True for a number of Python's in the dispatcher's coat.
bool IsWrappedNumber(const TapeTensor& tensor) {
  return tensor.is_wrapped_number && tensor.origin == TapeOrigin::kConstant &&
         (tensor.dtype == "f64" || tensor.dtype == "i64");
}

template <typename T>
T Load(const TapeTensor& tensor) {
  T number;
  std::memcpy(&number, tensor.bytes->data(), sizeof number);
  return number;
}

TapeValue WrappedNumber(const TapeTensor& tensor) {
  if (tensor.dtype == "i64") return Load<int64_t>(tensor);
  return Load<double>(tensor);
}

// True for the new tensor that torch.tensor() makes of one number.
bool IsMadeOfNumber(const TapeCall& call, const TapeTensor& tensor) {
  return call.op == "aten.lift_fresh" && !tensor.is_wrapped_number &&
         tensor.origin == TapeOrigin::kConstant &&
         ((tensor.dtype == "f32" && tensor.bytes->size() == sizeof(float)) ||
          (tensor.dtype == "f64" && tensor.bytes->size() == sizeof(double)) ||
          (tensor.dtype == "i64" && tensor.bytes->size() == sizeof(int64_t)));
}

// Whether a tensor's elements are these numbers, in order, as torch converts
// them.
bool HoldsAll(const TapeTensor& tensor, const PassedNumbers& passed) {
  const std::vector<TapeHostOperand>& numbers = passed.items;
  const auto holds = [&](auto zero) {
    using Element = decltype(zero);
    if (tensor.bytes->size() != numbers.size() * sizeof(Element)) return false;
    for (size_t i = 0; i < numbers.size(); ++i) {
      Element element;
      std::memcpy(&element, tensor.bytes->data() + i * sizeof(Element),
                  sizeof(Element));
      const auto number = static_cast<Element>(numbers[i].constant);
      if (std::memcmp(&element, &number, sizeof(Element)) != 0) return false;
    }
    return true;
  };
  if (tensor.dtype == "f32") return holds(float{});
  if (tensor.dtype == "f64") return holds(double{});
  return tensor.dtype == "i64" && passed.is_int && holds(int64_t{});
}

bool IsSame(const PassedNumbers& passed, const TapeValue& arg) {
  if (passed.is_int) {
    const auto* whole = std::get_if<int64_t>(&arg);
    return whole != nullptr &&
           *whole == static_cast<int64_t>(passed.items[0].constant);
  }
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

// True if `arg`, a list, holds the int: it may be the one that was passed.
bool Holds(const TapeValue& arg, const PassedNumbers& passed) {
  const auto* list = std::get_if<std::vector<int64_t>>(&arg);
  return passed.is_int && list != nullptr &&
         absl::c_linear_search(*list,
                               static_cast<int64_t>(passed.items[0].constant));
}

// True if the schema takes any number for the argument, not an int only. Not
// for a variance's correction: torch warns of some, which no other number
// repeats.
bool IsScalar(const TapeCall& call, size_t arg) {
  const std::string& name = call.arg_names[arg];
  if (name == "correction") return false;
  for (absl::string_view word :
       absl::StrSplit(call.schema, absl::ByAnyChar("(,"))) {
    word = absl::StripAsciiWhitespace(word);
    for (const char* type : {"Scalar ", "Scalar? "}) {
      absl::string_view rest = word;
      if (!absl::ConsumePrefix(&rest, type)) continue;
      if (rest.substr(0, rest.find_first_of("=)")) == name) return true;
    }
  }
  return false;
}

// Where Python's own a + b puts its operands; the rest is the operator's own.
bool IsOperand(absl::string_view arg_name) {
  return arg_name == "self" || arg_name == "other" || arg_name == "exponent";
}

bool HoldsFloats(const TapeTensor& tensor) {
  const std::optional<DType> dtype = ParseDType(tensor.dtype);
  return dtype.has_value() && IsFloating(*dtype);
}

// True if it makes no difference to the call whether it gets an int or a float
// of the same value.
bool TakesAnyKind(const TapeCall& call, const Tape& tape) {
  bool gives_floats = true, gives_bools = true, takes_floats = true;
  for (const TapeValue& output : call.outputs) {
    const auto* ref = std::get_if<TapeTensorRef>(&output);
    if (ref == nullptr || ref->id == kNoTapeTensor) return false;
    gives_floats &= HoldsFloats(tape.tensors[ref->id]);
    gives_bools &= tape.tensors[ref->id].dtype == "bool";
  }
  for (const TapeValue& arg : call.args) {
    const auto* ref = std::get_if<TapeTensorRef>(&arg);
    if (ref == nullptr || ref->id == kNoTapeTensor) continue;
    const TapeTensor& tensor = tape.tensors[ref->id];
    takes_floats &= tensor.is_wrapped_number || HoldsFloats(tensor);
  }
  return gives_floats || (gives_bools && takes_floats);
}

// True if the two can't be told apart by what an operator got of them.
bool IsAmbiguous(const PassedNumbers& a, const PassedNumbers& b) {
  if (a.is_list != b.is_list || a.is_int != b.is_int ||
      a.items.size() != b.items.size()) {
    return false;
  }
  bool same_values = true, same_ids = true;
  for (size_t i = 0; i < a.items.size(); ++i) {
    same_values &= SameBits(a.items[i].constant, b.items[i].constant);
    same_ids &= a.items[i].id == b.items[i].id;
  }
  return same_values && !same_ids;
}

// The new tensor that a call lifts; null if it does something else.
TapeTensor* LiftedBy(const TapeCall& call, TapeTensorId first_new, Tape& tape) {
  const auto* made =
      call.args.empty() ? nullptr : std::get_if<TapeTensorRef>(&call.args[0]);
  return call.op == "aten.lift_fresh" && made != nullptr &&
                 made->id >= first_new
             ? &tape.tensors[made->id]
             : nullptr;
}

// Whether the call takes what `place` says of a tensor.
bool Takes(const TapeCall& call, const PassedPlace& place) {
  const auto is = [&](size_t arg, const TapeHostOperand& number) {
    const auto* whole = std::get_if<int64_t>(&call.args[arg]);
    return whole != nullptr && static_cast<double>(*whole) == number.constant;
  };
  if (!place.is_slice)
    return call.op == "aten.select.int" && is(2, place.start);
  return call.op == "aten.slice.Tensor" && is(2, place.start) &&
         is(3, place.end);
}

}  // namespace

bool PlacePlaces(absl::Span<const PassedPlace> places, size_t first_call,
                 Tape& tape, std::vector<int64_t>* sizes) {
  std::vector<TapeCall*> calls;
  for (size_t i = first_call; i < tape.calls.size(); ++i) {
    TapeCall& call = tape.calls[i];
    const bool is_next =
        calls.size() < places.size() && Takes(call, places[calls.size()]);
    // Of constant slices nobody asks.
    if (!is_next && call.op == "aten.select.int") return false;
    if (is_next) calls.push_back(&call);
  }
  if (calls.size() != places.size()) return false;
  for (size_t i = 0; i < places.size(); ++i) {
    const TapeCall& call = *calls[i];
    const TapeTensor& tensor =
        tape.tensors[std::get<TapeTensorRef>(call.args[0]).id];
    const int64_t dim = std::get<int64_t>(call.args[1]);
    const auto rank = static_cast<int64_t>(tensor.sizes.size());
    sizes->push_back(tensor.sizes[dim < 0 ? dim + rank : dim]);
    // A slice that reaches beyond the dim ends there.
    if (places[i].is_slice &&
        places[i].end.constant > static_cast<double>(sizes->back())) {
      return false;
    }
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const int32_t id = places[i].start.id;
    if (id >= 0) calls[i]->args[2] = TapeHostRef{id};
  }
  return true;
}

bool PlaceStored(const PassedNumbers& number, size_t first_call,
                 TapeTensorId first_new, Tape& tape) {
  TapeTensor* value = nullptr;
  for (size_t i = first_call; i < tape.calls.size(); ++i) {
    TapeTensor* made = LiftedBy(tape.calls[i], first_new, tape);
    // Indices of one number are bools.
    if (made == nullptr || !made->sizes.empty()) continue;
    if (value != nullptr || !IsMadeOfNumber(tape.calls[i], *made)) return false;
    value = made;
  }
  if (value == nullptr || !HoldsAll(*value, number)) return false;
  value->numbers = number.items;
  return true;
}

bool PlaceData(const PassedNumbers& data, TapeTensorId first_new, Tape& tape) {
  TapeTensor* made = nullptr;
  for (size_t i = first_new; i < tape.tensors.size(); ++i) {
    TapeTensor& tensor = tape.tensors[i];
    if (tensor.origin != TapeOrigin::kConstant) continue;
    if (made != nullptr) return false;
    made = &tensor;
  }
  if (made == nullptr || !HoldsAll(*made, data)) return false;
  made->numbers = data.items;
  return true;
}

bool PlaceNumbers(absl::Span<const PassedNumbers> numbers,
                  TapeTensorId first_new, bool is_tracked, size_t index,
                  Tape& tape) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (IsAmbiguous(numbers[i], numbers[j])) return false;
    }
  }
  TapeCall& call = tape.calls[index];
  std::vector<std::pair<TapeValue*, const PassedNumbers*>> args;
  std::vector<std::pair<TapeTensor*, const PassedNumbers*>> tensors;
  for (size_t i = 0; i < call.args.size(); ++i) {
    TapeValue& arg = call.args[i];
    const auto* ref = std::get_if<TapeTensorRef>(&arg);
    TapeTensor* wrapped = nullptr;
    if (ref != nullptr && ref->id >= first_new &&
        IsWrappedNumber(tape.tensors[ref->id])) {
      wrapped = &tape.tensors[ref->id];
    }
    const TapeValue value = wrapped != nullptr ? WrappedNumber(*wrapped) : arg;
    const PassedNumbers* found = nullptr;
    for (const PassedNumbers& passed : numbers) {
      if (passed.is_operand && !IsOperand(call.arg_names[i])) continue;
      if (IsSame(passed, value)) found = &passed;
      // An int may be anything: a dim, a size, a Scalar.
      if (Holds(value, passed)) return false;
    }
    if (found == nullptr) continue;
    if (found->is_int && !((wrapped != nullptr || IsScalar(call, i)) &&
                           TakesAnyKind(call, tape))) {
      return false;
    }
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
    tensor->numbers = passed->items;
  }
  return true;
}

}  // namespace mica
