#include "analysis/sizes/size_walk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/same_bits.h"
#include "framework/base/status.h"
#include "framework/tensor/tensor_type.h"
#include "ops/shape/view.h"

namespace mica {
namespace {

template <typename T>
T LoadAt(const std::string& bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void StoreAt(double value, size_t index, std::string* bytes) {
  const T stored = static_cast<T>(value);
  std::memcpy(bytes->data() + index * sizeof(T), &stored, sizeof(T));
}

// Whether a tensor is row-major, channels-last, or dense at all: contiguous()
// and reshape() copy or don't, by that.
std::array<bool, 3> FormOf(absl::Span<const int64_t> sizes,
                           absl::Span<const int64_t> strides) {
  const auto lies_by = [&](absl::Span<const int> order) {
    int64_t stride = 1;
    for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
      if (sizes[*dim] != 1 && strides[*dim] != stride) return false;
      stride *= sizes[*dim];
    }
    return true;
  };
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::array<bool, 3> form = {lies_by(order), false, false};
  if (order.size() == 4 || order.size() == 5) {
    std::vector<int> last = order;
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    form[1] = lies_by(last);
  }
  form[2] = lies_by(StrideOrder(sizes, strides));
  return form;
}

// Whether memory that lies so can be seen as row-major dims of `to`.
bool CanView(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides,
             absl::Span<const int64_t> to) {
  const TensorType type{.dims = {sizes.begin(), sizes.end()},
                        .strides = {strides.begin(), strides.end()}};
  const TensorType made{.dims = {to.begin(), to.end()}};
  Dims unused;
  return type.num_elements() == made.num_elements() &&
         ViewStrides(type, made.dims, &unused);
}

// The stride of a dim of size 1 may be any: operators keep that of their
// operand. Gives `made` those that aren't as in dense memory.
void KeepStridesOfOne(const TapeTensor& own, absl::Span<const int> order,
                      TensorSizes& made) {
  const std::vector<int64_t> dense = DenseStrides(own.sizes, order);
  for (size_t d = 0; d < own.sizes.size(); ++d) {
    if (own.sizes[d] == 1 && own.strides[d] != dense[d]) {
      made.strides[d] = own.strides[d];
    }
  }
}

// Puts a number where it stands in a call.
void PutNumber(double value, const SizeSlot& slot,
               std::vector<TapeValue>& args) {
  TapeValue& arg = args[slot.arg];
  if (auto* list = std::get_if<TapeTensorList>(&arg)) {
    const auto length = static_cast<size_t>(std::max(value, 0.0));
    list->ids.resize(length, list->ids[0]);
  } else if (auto* ints = std::get_if<std::vector<int64_t>>(&arg)) {
    (*ints)[slot.item] = static_cast<int64_t>(value);
  } else if (auto* reals = std::get_if<std::vector<double>>(&arg)) {
    (*reals)[slot.item] = value;
  } else if (std::holds_alternative<int64_t>(arg)) {
    arg = static_cast<int64_t>(value);
  } else {
    arg = value;
  }
}

}  // namespace

std::optional<int64_t> WholeOf(double number) {
  constexpr double kMax = 0x1p53;
  const bool is_whole = number >= -kMax && number <= kMax &&
                        number == std::trunc(number);  // False of NaN.
  if (!is_whole) return std::nullopt;
  return static_cast<int64_t>(number);
}

bool CanReadElement(DType dtype) {
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kF32 ||
         dtype == DType::kF64;
}

double ReadElement(const std::string& bytes, DType dtype, size_t index) {
  switch (dtype) {
    case DType::kI64:
      return static_cast<double>(LoadAt<int64_t>(bytes, index));
    case DType::kI32:
      return LoadAt<int32_t>(bytes, index);
    case DType::kF32:
      return LoadAt<float>(bytes, index);
    default:
      return LoadAt<double>(bytes, index);
  }
}

void WriteElement(double value, DType dtype, size_t index, std::string* bytes) {
  switch (dtype) {
    case DType::kI64:
      return StoreAt<int64_t>(value, index, bytes);
    case DType::kI32:
      return StoreAt<int32_t>(value, index, bytes);
    case DType::kF32:
      return StoreAt<float>(value, index, bytes);
    default:
      return StoreAt<double>(value, index, bytes);
  }
}

SizeTemplate::Walk::Walk(const SizeTemplate& made,
                         absl::Span<const double> given)
    : made_(made),
      tape_(made.tape()),
      sizes_(tape_.tensors.size()),
      is_known_(tape_.tensors.size()),
      args_(tape_.calls.size()),
      elements_(made.slots_.size()),
      numbers_(made.facts_, *made.groups_, sizes_, given) {}

absl::Status SizeTemplate::Walk::GoTo(absl::Span<const TensorSizes> inputs,
                                      int32_t end) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Set(tape_.inputs[i], inputs[i]);
  }
  for (int32_t i = 0; i < end; ++i) MICA_RETURN_IF_ERROR(MakeCall(i));
  return absl::OkStatus();
}

absl::Status SizeTemplate::Walk::Go(absl::Span<const TensorSizes> inputs) {
  MICA_RETURN_IF_ERROR(GoTo(inputs, static_cast<int32_t>(tape_.calls.size())));
  for (const auto* ids : {&tape_.inputs, &tape_.results}) {
    for (const TapeTensorId id : *ids) {
      if (!is_known_[id]) MICA_RETURN_IF_ERROR(SetOrigin(id));
    }
  }
  return absl::OkStatus();
}

absl::Status SizeTemplate::Walk::SetOrigin(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  switch (tensor.origin) {
    case TapeOrigin::kState:
    case TapeOrigin::kConstant:
      Set(id, {tensor.sizes, tensor.strides, tensor.offset});
      return absl::OkStatus();
    case TapeOrigin::kInput:
      return SetExplained(id);
    case TapeOrigin::kAlias:
      return SetAlias(id);
    default:
      return absl::FailedPreconditionError("a tensor comes after its use");
  }
}

absl::Status SizeTemplate::Walk::SetExplained(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  TensorSizes sizes{tensor.sizes, tensor.strides, 0};
  for (const SizeSlot& slot : made_.explained_.at(id)) {
    MICA_ASSIGN_OR_RETURN(const double size, ValueOf(slot));
    sizes.sizes[slot.item] = static_cast<int64_t>(size);
  }
  if (made_.lies_[id].layout == Layout::kDense) {
    sizes.strides = DenseStrides(sizes.sizes, made_.lies_[id].order);
  }
  Set(id, std::move(sizes));
  return absl::OkStatus();
}

// Other metadata of the same memory.
absl::Status SizeTemplate::Walk::SetAlias(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  const Alias& alias = made_.aliases_.at(id);
  if (alias.form == Alias::kFixed) {
    Set(id, {tensor.sizes, tensor.strides, tensor.offset});
    return absl::OkStatus();
  }
  if (alias.form == Alias::kUnknown) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the sizes of a tensor, [", absl::StrJoin(tensor.sizes, ","),
        "], were changed in place"));
  }
  if (!is_known_[tensor.base]) {
    MICA_RETURN_IF_ERROR(SetOrigin(tensor.base));
  }
  if (alias.form == Alias::kExplained) {
    MICA_RETURN_IF_ERROR(SetExplained(id));
    sizes_[id].offset = sizes_[tensor.base].offset;
    return absl::OkStatus();
  }
  const TensorSizes& base = sizes_[tensor.base];
  TensorSizes sizes = base;
  for (size_t i = 0; i < alias.order.size(); ++i) {
    sizes.sizes[i] = base.sizes[alias.order[i]];
    sizes.strides[i] = base.strides[alias.order[i]];
  }
  if (alias.form == Alias::kWhole) {
    const Lies& lies = made_.lies_[id];
    sizes.strides = lies.layout == Layout::kDense
                        ? DenseStrides(sizes.sizes, lies.order)
                        : tensor.strides;
  }
  Set(id, std::move(sizes));
  return absl::OkStatus();
}

absl::StatusOr<double> SizeTemplate::Walk::ValueOf(const SizeSlot& slot) {
  std::optional<double> value;
  for (const SizeTerm& term : slot.terms) {
    const std::optional<double> one = numbers_.Of(term);
    if (!one.has_value() || (value.has_value() && !SameBits(*value, *one))) {
      return absl::FailedPreconditionError(
          slot.call < 0
              ? "it isn't known of which size a number is"
              : absl::StrCat(tape_.calls[slot.call].op, ": ",
                             tape_.calls[slot.call].arg_names[slot.arg],
                             " may be one size or another"));
    }
    value = one;
  }
  return *value;
}

// narrow() rejects what a slice cuts off.
absl::Status SizeTemplate::Walk::CheckEnds(
    const TapeCall& call, absl::Span<const TapeValue> args) const {
  if (call.op != "aten.slice.Tensor") return absl::OkStatus();
  const TapeTensorId self = std::get<TapeTensorRef>(call.args[0]).id;
  // Counted from the end or not, in the dim or beyond it.
  const auto place_of = [&](absl::Span<const TapeValue> of, int arg,
                            const std::vector<int64_t>& sizes) {
    const auto* dim = std::get_if<int64_t>(&of[1]);
    const auto* end = std::get_if<int64_t>(&of[arg]);
    if (dim == nullptr || end == nullptr) return std::pair(false, false);
    const auto rank = static_cast<int64_t>(sizes.size());
    const int64_t size = sizes[*dim < 0 ? *dim + rank : *dim];
    return std::pair(*end<0, *end> size || *end < -size);
  };
  for (const int arg : {2, 3}) {
    if (place_of(args, arg, sizes_[self].sizes) ==
        place_of(call.args, arg, tape_.tensors[self].sizes)) {
      continue;
    }
    return Unlike("a slice ends in a dim, or beyond it, that didn't");
  }
  return absl::OkStatus();
}

absl::Status SizeTemplate::Walk::MakeCall(int32_t index) {
  const TapeCall& call = tape_.calls[index];
  std::vector<TapeValue> args = call.args;
  absl::Status status;
  for (const TapeValue& arg : args) {
    ForEachTensor(arg, [&](TapeTensorId id) {
      if (status.ok() && !is_known_[id]) status = SetOrigin(id);
    });
  }
  MICA_RETURN_IF_ERROR(status);
  for (; next_slot_ < made_.slots_.size(); ++next_slot_) {
    const SizeSlot& slot = made_.slots_[next_slot_];
    if (slot.call > index) break;
    // A constant is looked at where it is used first.
    if (slot.call < 0 && !is_known_[slot.tensor]) break;
    MICA_ASSIGN_OR_RETURN(const double value, ValueOf(slot));
    if (slot.call >= 0) {
      PutNumber(value, slot, args);
    } else {
      elements_[next_slot_] = value;
    }
  }
  args_[index] = std::move(args);
  MICA_RETURN_IF_ERROR(CheckEnds(call, args_[index]));
  // Mica's own, which compare numbers.
  if (absl::StartsWith(call.op, "mica.scalar_")) return absl::OkStatus();
  const std::vector<TapeTensorId> outputs = OutputsOf(call);
  std::vector<std::optional<TensorSizes>> given =
      FindResultSizes(tape_, index, args_[index], sizes_, made_.ops_);
  for (size_t i = 0; i < outputs.size(); ++i) {
    MICA_RETURN_IF_ERROR(Take(index, outputs[i], std::move(given[i])));
  }
  return absl::OkStatus();
}

absl::Status SizeTemplate::Walk::Take(int32_t call, TapeTensorId id,
                                      std::optional<TensorSizes> given) {
  const TapeTensor& own = tape_.tensors[id];
  // What the call only passes through, perhaps written.
  if (own.call != call) {
    return is_known_[id] ? absl::OkStatus() : SetOrigin(id);
  }
  const bool is_view = IsViewCall(tape_.calls[call]);
  if (learned_ != nullptr &&
      (!given.has_value() || given->sizes != own.sizes)) {
    if (is_view) {
      return absl::FailedPreconditionError(absl::StrCat(
          tape_.calls[call].op, ": a view for which there is no rule"));
    }
    MICA_RETURN_IF_ERROR(explain_(id, call));
  }
  if (learned_ != nullptr) {
    MICA_RETURN_IF_ERROR(LearnLayout(call, id, given));
  }
  if (made_.explained_.contains(id)) return SetExplained(id);
  if (!given.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(tape_.calls[call].op, " rejects these sizes"));
  }
  if (made_.lies_[id].layout == Layout::kDense) {
    given->strides = DenseStrides(given->sizes, made_.lies_[id].order);
    KeepStridesOfOne(tape_.tensors[id], made_.lies_[id].order, *given);
  }
  Set(id, *std::move(given));
  return absl::OkStatus();
}

absl::Status SizeTemplate::Walk::LearnLayout(
    int32_t call, TapeTensorId id, const std::optional<TensorSizes>& given) {
  const TapeTensor& own = tape_.tensors[id];
  Lies& lies = (*learned_)[id];
  lies.layout = Layout::kGiven;
  const bool is_view = IsViewCall(tape_.calls[call]);
  if (is_view && given->strides == own.strides) return absl::OkStatus();
  lies.order = StrideOrder(own.sizes, own.strides);
  TensorSizes dense{own.sizes, DenseStrides(own.sizes, lies.order)};
  KeepStridesOfOne(own, lies.order, dense);
  if (is_view || own.strides != dense.strides) {
    return absl::FailedPreconditionError(absl::StrCat(
        tape_.calls[call].op, ": its result's strides are ",
        absl::StrJoin(own.strides, ","), ", by its rule ",
        given.has_value() ? absl::StrJoin(given->strides, ",") : "unknown"));
  }
  lies.layout = Layout::kDense;
  return absl::OkStatus();
}

absl::Status SizeTemplate::Walk::CheckAlike() const {
  for (size_t id = 0; id < tape_.tensors.size(); ++id) {
    if (!is_known_[id]) continue;
    const TapeTensor& recorded = tape_.tensors[id];
    const std::vector<int64_t>& own = recorded.sizes;
    if (sizes_[id].sizes.size() != own.size()) {
      return absl::FailedPreconditionError("a tensor has other dims");
    }
    if (FormOf(own, recorded.strides) !=
        FormOf(sizes_[id].sizes, sizes_[id].strides)) {
      return absl::FailedPreconditionError(
          "a tensor lies without gaps, or with some, that didn't");
    }
    std::vector<int64_t> fixed = sizes_[id].sizes;
    for (const auto& [dim, group] :
         made_.groups_->of(static_cast<TapeTensorId>(id))) {
      const bool is_many = absl::c_all_of(
          made_.groups_->values(group), [](int64_t size) { return size >= 2; });
      if (!is_many || sizes_[id].sizes[dim] < 2) {
        return absl::FailedPreconditionError("a size becomes 0 or 1");
      }
      fixed[dim] = own[dim];
    }
    if (fixed != own) {
      return absl::FailedPreconditionError(
          "a size varies that was the same in all runs");
    }
  }
  return absl::OkStatus();
}

absl::Status SizeTemplate::Walk::CheckCopies() const {
  for (size_t i = 0; i + 1 < tape_.calls.size(); ++i) {
    const TapeCall& copy = tape_.calls[i];
    const TapeCall& view = tape_.calls[i + 1];
    if (copy.op != "aten.clone" ||
        (view.op != "aten._unsafe_view" && view.op != "aten.view") ||
        view.args[0] != copy.outputs[0]) {
      continue;
    }
    const auto* from = std::get_if<TapeTensorRef>(&copy.args[0]);
    const std::vector<TapeTensorId> to = OutputsOf(view);
    if (from == nullptr || to.size() != 1) continue;
    const TapeTensor& base = tape_.tensors[from->id];
    const bool was_view =
        CanView(base.sizes, base.strides, tape_.tensors[to[0]].sizes);
    const bool is_view = CanView(sizes_[from->id].sizes,
                                 sizes_[from->id].strides, sizes_[to[0]].sizes);
    if (was_view == is_view) continue;
    return absl::FailedPreconditionError(
        "reshape() would give a view where it copied");
  }
  return absl::OkStatus();
}

absl::StatusOr<Tape> SizeTemplate::Walk::MakeTape() {
  Tape tape = made_.own_tape_ != nullptr ? std::move(*made_.own_tape_) : tape_;
  for (TapeHostValue& number : tape.host_values) {
    if (number.size < 0) continue;
    number.value = numbers_.Of(number.size);
    if (std::isnan(number.value)) return Unlike("a number has no value");
  }
  for (size_t id = 0; id < tape.tensors.size(); ++id) {
    if (!is_known_[id]) continue;
    tape.tensors[id].sizes = sizes_[id].sizes;
    tape.tensors[id].strides = sizes_[id].strides;
    tape.tensors[id].offset = sizes_[id].offset;
  }
  for (size_t i = 0; i < tape.calls.size(); ++i) {
    tape.calls[i].args = std::move(args_[i]);
  }
  for (size_t i = 0; i < made_.slots_.size(); ++i) {
    const SizeSlot& slot = made_.slots_[i];
    if (slot.call >= 0) continue;
    TapeTensor& tensor = tape.tensors[slot.tensor];
    auto bytes = std::make_shared<std::string>(*tensor.bytes);
    WriteElement(elements_[i], *ParseDType(tensor.dtype),
                 static_cast<size_t>(slot.item), bytes.get());
    tensor.bytes = std::move(bytes);
  }
  return tape;
}

}  // namespace mica
