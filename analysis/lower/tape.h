#ifndef MICA_ANALYSIS_LOWER_TAPE_H_
#define MICA_ANALYSIS_LOWER_TAPE_H_

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mica {

// What the dispatcher did in one real run of a user's program, in order: the
// hand-over from capture to lowering. Plain data; knows neither torch nor
// Python.

// Index into Tape::tensors.
using TapeTensorId = int32_t;
// Stands for None in a list of optional tensors.
inline constexpr TapeTensorId kNoTapeTensor = -1;

enum class TapeOrigin {
  kInput,     // Fed at each run: `name` is the access path, `input` its number.
  kState,     // A module's or a closure's tensor, read where it is at each run.
  kConstant,  // Made by Python alone (torch.tensor(3)): `bytes` holds it.
  kCall,      // Output `output` of call `call`.
  kAlias,     // Metadata over the storage of `base`, made by no recorded call
              // (Tensor.data, Tensor.set_data): a view of it, never a copy.
};

// A number of Python's.
struct TapeHostOperand {
  int32_t id = -1;  // In Tape::host_values; -1: the constant.
  double constant = 0;
  friend bool operator==(const TapeHostOperand&,
                         const TapeHostOperand&) = default;
};

// A tensor as eager made it. Two tensors with one `storage` share memory.
struct TapeTensor {
  std::string dtype;  // As framework prints it, "f32"; torch's name elsewhere.
  std::string device = "cpu";
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // In elements, always given.
  int64_t offset = 0;            // In elements, from the storage's start.
  int32_t storage = -1;          // Equal ids share memory.
  int64_t storage_bytes = 0;
  bool requires_grad = false;
  // torch's lazy bits: what it says are the complex conjugates, or the
  // negatives, of the elements in its memory.
  bool is_conj = false;
  bool is_neg = false;
  // Python's number in the dispatcher's coat: a tensor without dims that takes
  // part in type promotion as a scalar does (c10's "wrapped number").
  bool is_wrapped_number = false;

  TapeOrigin origin = TapeOrigin::kCall;
  int32_t input = -1;   // kInput: dense, in order of `Tape::inputs`.
  std::string name;     // kInput, kState: a readable path, "layers.0.weight".
  int32_t call = -1;    // kCall.
  int32_t output = -1;  // kCall: which of the call's outputs,
  int32_t item = -1;    // and which item of it, if that is a list; else -1.
  TapeTensorId base = kNoTapeTensor;  // kAlias: never itself an alias.
  // kConstant: its memory, from the first element to the last.
  std::shared_ptr<const std::string> bytes;
  // kConstant that Python's numbers were made into: by element, which; empty if
  // they are the same at each run.
  std::vector<TapeHostOperand> numbers;
};

// A number that Python held, and that may be another at each run; an int as the
// float64 that is the same number.
struct TapeHostValue {
  enum class Kind {
    kInput,  // Fed at each run: `name` is its path, `input` its number.
    kRead,   // What Python read of output `output` of call `call`.
    kOp,     // `op`, one of mica.scalar_* and mica.int_*, of `operands`.
  };
  Kind kind = Kind::kInput;
  int32_t input = -1;
  std::string name;
  int32_t call = -1;
  int32_t output = -1;
  std::string op;
  std::vector<TapeHostOperand> operands;
  double value = 0;          // As recorded.
  bool is_constant = false;  // It is `value` at each run, after all.
  int32_t size = -1;         // Then: this number of SizeFacts, if not -1.
};

struct TapeTensorRef {
  TapeTensorId id = kNoTapeTensor;
  friend bool operator==(const TapeTensorRef&, const TapeTensorRef&) = default;
};
// A Scalar or float argument: an entry of Tape::host_values.
struct TapeHostRef {
  int32_t id = -1;
  friend bool operator==(const TapeHostRef&, const TapeHostRef&) = default;
};
// Scalar[] and float[] of which some numbers are entries of Tape::host_values.
struct TapeHostList {
  std::vector<TapeHostOperand> items;
  friend bool operator==(const TapeHostList&, const TapeHostList&) = default;
};
// Tensor[] and Tensor?[]: kNoTapeTensor stands for None.
struct TapeTensorList {
  std::vector<TapeTensorId> ids;
  friend bool operator==(const TapeTensorList&,
                         const TapeTensorList&) = default;
};
struct TapeDtype {
  std::string name;  // As TapeTensor::dtype.
  friend bool operator==(const TapeDtype&, const TapeDtype&) = default;
};
// A layout ("strided"), device ("cpu") or memory format ("channels_last").
struct TapeEnum {
  enum class Kind { kLayout, kDevice, kMemoryFormat };
  Kind kind = Kind::kLayout;
  std::string name;
  friend bool operator==(const TapeEnum&, const TapeEnum&) = default;
};
// A value with no form here (a Generator, an object); `what` names it. Capture
// refuses such a call, so lowering never sees one.
struct TapeForeign {
  std::string what;
  friend bool operator==(const TapeForeign&, const TapeForeign&) = default;
};

// monostate is None. A Scalar argument keeps the kind of number that it was.
using TapeValue =
    std::variant<std::monostate, TapeTensorRef, TapeTensorList, bool, int64_t,
                 double, std::complex<double>, std::string, TapeDtype, TapeEnum,
                 std::vector<bool>, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, TapeHostRef, TapeHostList,
                 TapeForeign>;

// Calls visit on the id of each tensor in it.
template <typename Visit>
void ForEachTensor(const TapeValue& value, const Visit& visit) {
  if (const auto* one = std::get_if<TapeTensorRef>(&value)) {
    if (one->id != kNoTapeTensor) visit(one->id);
  } else if (const auto* list = std::get_if<TapeTensorList>(&value)) {
    for (const TapeTensorId id : list->ids) {
      if (id != kNoTapeTensor) visit(id);
    }
  }
}

// From the schema: output `output` is a view of argument `arg`, or, when
// `is_write`, is that argument itself, written in place.
struct TapeAlias {
  int32_t output = 0;
  int32_t arg = 0;
  bool is_write = false;
};

// One call of an ATen overload, below autograd.
struct TapeCall {
  std::string op;      // "aten.add.Tensor"; a trailing ".default" is dropped.
  std::string schema;  // torch's text of it.
  // In schema order with keyword-only ones last, defaults filled in.
  std::vector<std::string> arg_names;
  std::vector<TapeValue> args;
  std::vector<TapeValue> outputs;  // Tensors, lists of them, or host values.
  // Arguments whose bytes the call writes: the schema's, and those that it
  // conceals (aten.native_batch_norm's running statistics when training).
  std::vector<int32_t> mutated_args;
  // Those of them that torch's counters of writes don't count.
  std::vector<int32_t> concealed_args;
  std::vector<TapeAlias> aliases;
  // The innermost line of the user's own code.
  std::string file;
  int32_t line = 0;
  int32_t place = -1;  // The recorder's own number for where it was made.
  // The innermost module that made it; "" for none. Of a call that autograd
  // made, `is_backward`: the one whose gradients it computes.
  std::string scope;
  bool is_backward = false;
  // Which part of the backward pass that comes after the run makes it
  // (SplitAtBackward()); -1 for a call of the run itself.
  int32_t later_part = -1;

  bool is_nondeterministic_seeded = false;  // Draws random numbers.
  bool has_dynamic_output_shape = false;    // nonzero, masked_select, unique.
};

// Calls visit on the id of each tensor that the call writes.
template <typename Visit>
void ForEachWritten(const TapeCall& call, const Visit& visit) {
  for (const int32_t arg : call.mutated_args) {
    ForEachTensor(call.args[arg], visit);
  }
}

// The argument of this name; null if there is none.
inline const TapeValue* FindArgument(const TapeCall& call,
                                     absl::string_view name) {
  for (size_t i = 0; i < call.arg_names.size(); ++i) {
    if (call.arg_names[i] == name) return &call.args[i];
  }
  return nullptr;
}

// Whether autograd makes it, in the run or after it.
inline bool IsBackward(const TapeCall& call) {
  return call.is_backward || call.later_part >= 0;
}

// The user's line as messages add it, " (model.py:3)"; "" if nobody knows.
inline std::string LineOf(const TapeCall& call) {
  return call.line == 0 ? ""
                        : absl::StrCat(" (", call.file, ":", call.line, ")");
}

// Whether a call counts from the start of its argument's storage
// (aten.as_strided with an offset), which a Program doesn't know.
inline bool CountsFromStorage(const TapeCall& call) {
  const TapeValue* offset = FindArgument(call, "storage_offset");
  return offset != nullptr && !std::holds_alternative<std::monostate>(*offset);
}

// A call whose result left the dispatcher as a Python number (bool(t),
// t.item()): the recorded path holds only while the call yields `value` again.
struct TapeHostRead {
  int32_t call = 0;
  int32_t output = 0;  // Index in TapeCall::outputs; holds the value.
};

struct Tape {
  std::string name;  // The callable's, an identifier.
  std::vector<TapeTensor> tensors;
  std::vector<TapeTensorId> inputs;  // In order of TapeTensor::input.
  std::vector<TapeTensorId> states;  // Every tensor of origin kState.
  std::vector<TapeCall> calls;
  std::vector<TapeHostRead> host_reads;    // In call order.
  std::vector<TapeHostValue> host_values;  // Operands before results.
  // Entries of host_values that the user gets, in order.
  std::vector<int32_t> host_results;
  // Tensors that the user gets, in order of the result's leaves, without
  // repeats. Those of origin kInput or kState are the caller's own objects
  // and not listed here; views of them (by storage) are.
  std::vector<TapeTensorId> results;
  // Inputs and states whose bytes some call writes, directly or by a view.
  std::vector<TapeTensorId> mutated;
};

// Whether the size of what the call gives depends on elements: of an index by
// numbers it doesn't, of one by a mask it does.
inline bool HasSizeOfData(const Tape& tape, const TapeCall& call) {
  if (!call.has_dynamic_output_shape) return false;
  if (!absl::StartsWith(call.op, "aten.index")) return true;
  bool has_mask = false;
  for (size_t i = 1; i < call.args.size(); ++i) {
    ForEachTensor(call.args[i], [&](TapeTensorId id) {
      const std::string& dtype = tape.tensors[id].dtype;
      has_mask |= dtype == "bool" || dtype == "u8";
    });
  }
  return has_mask;
}

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_TAPE_H_
