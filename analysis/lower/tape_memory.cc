#include "analysis/lower/tape_memory.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {
namespace {

struct PartsWindow {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

// A complex tensor's window on memory as real numbers: the parts on a last
// axis.
PartsWindow PartsOf(const TapeTensor& tensor) {
  PartsWindow window{tensor.sizes, tensor.strides};
  for (int64_t& stride : window.strides) stride *= 2;
  window.sizes.push_back(2);
  window.strides.push_back(1);
  return window;
}

}  // namespace

absl::StatusOr<ValueId> AddOneResult(ProgramBuilder& builder,
                                     absl::string_view op, Arguments arguments,
                                     TensorType type,
                                     const SourceLine& source) {
  MICA_ASSIGN_OR_RETURN(const OpDef* def, builder.FindOp(op));
  MICA_ASSIGN_OR_RETURN(auto results,
                        builder.AddOp({.def = def,
                                       .arguments = std::move(arguments),
                                       .types = {std::move(type)},
                                       .source = source}));
  return results[0];
}

absl::StatusOr<TensorType> TapeMemory::TypeOf(TapeTensorId id) const {
  const TapeTensor& tensor = tape_.tensors[id];
  const std::optional<DType> dtype = ParseDType(tensor.dtype);
  if (!dtype.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat("a tensor of dtype ", tensor.dtype));
  }
  if (tensor.device != "cpu") {
    return absl::UnimplementedError(
        absl::StrCat("a tensor on ", tensor.device));
  }
  return TensorType{
      .dtype = *dtype,
      .dims = Dims(tensor.sizes.begin(), tensor.sizes.end()),
      .strides = Dims(tensor.strides.begin(), tensor.strides.end())};
}

void TapeMemory::DeclareExternal(TapeTensorId id, ValueId value) {
  const auto num_bytes = [this](TapeTensorId tensor) {
    const std::optional<DType> dtype = ParseDType(tape_.tensors[tensor].dtype);
    int64_t count = dtype.has_value() ? ElementBytes(*dtype) : 1;
    for (int64_t size : tape_.tensors[tensor].sizes) count *= size;
    return count;
  };
  tensors_[id] = {.value = value, .version = 0};
  Storage& storage = storages_[memories_[id]];
  // Of several tensors over one memory the largest stands for it.
  if (storage.root == kNoTapeTensor ||
      num_bytes(id) > num_bytes(storage.root)) {
    storage = {.root = id, .value = value};
  }
}

absl::Status TapeMemory::CheckInsideRoot(TapeTensorId id) const {
  MICA_ASSIGN_OR_RETURN(TensorType type, TypeOf(id));
  const TapeTensorId root = storages_.at(memories_[id]).root;
  MICA_ASSIGN_OR_RETURN(TensorType root_type, TypeOf(root));
  if (RealDType(root_type.dtype) != RealDType(type.dtype)) {
    return absl::UnimplementedError(absl::StrCat(
        "one memory as ", root_type.ToString(), " and as ", type.ToString()));
  }
  if (type.num_elements() == 0) return absl::OkStatus();
  const int64_t offset =
      tape_.tensors[id].offset * ElementBytes(type.dtype) -
      tape_.tensors[root].offset * ElementBytes(root_type.dtype);
  if (offset < 0 || offset + type.extent_bytes() > root_type.extent_bytes()) {
    return absl::UnimplementedError(absl::StrCat(
        "a view that reaches beyond the tensor that it is made of: ",
        type.ToString(), " at byte ", offset, " of ", root_type.ToString()));
  }
  return absl::OkStatus();
}

int64_t TapeMemory::OffsetInRoot(TapeTensorId id) const {
  const TapeTensor& tensor = tape_.tensors[id];
  const TapeTensor& root = tape_.tensors[storage(id).root];
  if (tensor.dtype == root.dtype) return tensor.offset - root.offset;
  // Where nothing lies doesn't matter, but has to be inside.
  if (absl::c_linear_search(tensor.sizes, 0)) return 0;
  const auto parts = [](const TapeTensor& of) {
    return of.offset * (IsComplex(*ParseDType(of.dtype)) ? 2 : 1);
  };
  return parts(tensor) - parts(root);
}

const std::vector<TapeMemory::Move>& TapeMemory::MovesOf(
    TapeTensorId id) const {
  static const auto& none = *new std::vector<Move>;
  if (const auto it = moves_.find(id); it != moves_.end()) return it->second;
  const TapeTensor& tensor = tape_.tensors[id];
  return tensor.origin == TapeOrigin::kAlias ? MovesOf(tensor.base) : none;
}

absl::StatusOr<Argument> TapeMemory::AddNumber(absl::string_view op, Argument a,
                                               Argument b) {
  MICA_ASSIGN_OR_RETURN(
      const ValueId value,
      AddOneResult(op, {std::move(a), std::move(b)}, ScalarType(DType::kF64)));
  return Argument(ValueRef{value});
}

absl::StatusOr<Argument> TapeMemory::DistanceOf(const Move& move) {
  Argument& known = distances_[{move.number, move.stride, move.size}];
  if (!IsNone(known)) return known;
  const auto stride = static_cast<double>(move.stride);
  const auto size = static_cast<double>(move.size);
  MICA_ASSIGN_OR_RETURN(const Argument number, numbers_(move.number));
  MICA_ASSIGN_OR_RETURN(Argument distance,
                        AddNumber("mica.scalar_mul", number, stride));
  if (move.size == 0) return known = distance;
  // From the end on if negative.
  MICA_ASSIGN_OR_RETURN(Argument wraps,
                        AddNumber("mica.scalar_lt", number, 0.0));
  MICA_ASSIGN_OR_RETURN(
      wraps, AddNumber("mica.scalar_mul", std::move(wraps), size * stride));
  MICA_ASSIGN_OR_RETURN(known, AddNumber("mica.scalar_add", std::move(distance),
                                         std::move(wraps)));
  return known;
}

absl::StatusOr<Argument> TapeMemory::MovedOffset(TapeTensorId id) {
  const TapeTensor& root = tape_.tensors[storage(id).root];
  if (root.dtype != tape_.tensors[id].dtype ||
      IsComplex(*ParseDType(root.dtype))) {
    return absl::UnimplementedError(
        "a view by a number that varies, of memory of another dtype");
  }
  double fixed = static_cast<double>(OffsetInRoot(id));
  Argument sum;
  for (const Move& move : MovesOf(id)) {
    const double recorded = tape_.host_values[move.number].value;
    const int64_t wrapped = recorded < 0 ? move.size : 0;
    fixed -= (recorded + static_cast<double>(wrapped)) *
             static_cast<double>(move.stride);
    MICA_ASSIGN_OR_RETURN(Argument distance, DistanceOf(move));
    if (IsNone(sum)) {
      sum = std::move(distance);
    } else {
      MICA_ASSIGN_OR_RETURN(sum, AddNumber("mica.scalar_add", std::move(sum),
                                           std::move(distance)));
    }
  }
  return AddNumber("mica.scalar_add", std::move(sum), fixed);
}

absl::StatusOr<ValueId> TapeMemory::MovedView(TapeTensorId id,
                                              TensorType type) {
  const TapeTensor& tensor = tape_.tensors[id];
  const ValueId base = storages_.at(memories_[id]).value;
  MICA_ASSIGN_OR_RETURN(Argument moved, MovedOffset(id));
  const bool has_gaps = !type.is_dense() && type.num_elements() > 0;
  if (!keeps_gaps_ || !has_gaps) {
    type.strides.clear();
    return AddOneResult(
        "mica.window_at",
        {ValueRef{base}, tensor.sizes, tensor.strides, std::move(moved)}, type);
  }
  // All from the first to the last element, in order.
  std::vector<int64_t> extent = {1};
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    extent[0] += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  TensorType span = {.dtype = type.dtype, .dims = {extent[0]}};
  MICA_ASSIGN_OR_RETURN(
      const ValueId copy,
      AddOneResult("mica.window_at",
                   {ValueRef{base}, std::move(extent), std::vector<int64_t>{1},
                    std::move(moved)},
                   std::move(span)));
  return AddOneResult(
      "aten.as_strided",
      {ValueRef{copy}, tensor.sizes, tensor.strides, int64_t{0}}, type);
}

absl::StatusOr<ValueId> TapeMemory::ViewOfRoot(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  const Storage& storage = storages_.at(memories_[id]);
  MICA_RETURN_IF_ERROR(CheckInsideRoot(id));
  MICA_ASSIGN_OR_RETURN(TensorType root_type, TypeOf(storage.root));
  MICA_ASSIGN_OR_RETURN(TensorType type, TypeOf(id));
  const bool moves = !MovesOf(id).empty();
  if (root_type == type && OffsetInRoot(id) == 0 && !moves) {
    return storage.value;
  }
  if (storage.version > 0 && !root_type.is_dense()) {
    return absl::UnimplementedError("a view of memory with gaps after a write");
  }
  if (moves) return MovedView(id, std::move(type));
  const int64_t offset = OffsetInRoot(id);
  if (IsComplex(type.dtype) && !IsComplex(root_type.dtype)) {
    const PartsWindow window = PartsOf(tensor);
    MICA_ASSIGN_OR_RETURN(ValueId parts,
                          builder_.Add("aten.as_strided",
                                       {ValueRef{storage.value}, window.sizes,
                                        window.strides, offset},
                                       source_));
    return AddOneResult("aten.view_as_complex", {ValueRef{parts}}, type);
  }
  ValueId base = storage.value;
  if (type.dtype != root_type.dtype) {
    MICA_ASSIGN_OR_RETURN(
        base, builder_.Add("aten.view_as_real", {ValueRef{base}}, source_));
  }
  return AddOneResult("aten.as_strided",
                      {ValueRef{base}, tensor.sizes, tensor.strides, offset},
                      type);
}

absl::StatusOr<ValueId> TapeMemory::Current(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  if (!storages_.contains(memories_[id])) {
    return absl::InternalError(
        absl::StrCat("tensor ", id, " is read before anything made it"));
  }
  const Storage& storage = storages_.at(memories_[id]);
  if (storage.root == id) return storage.value;
  TensorValue& state = tensors_[id];
  if (state.value == kNoValue || state.version != storage.version) {
    MICA_ASSIGN_OR_RETURN(state.value, ViewOfRoot(id));
    state.version = storage.version;
  }
  return state.value;
}

absl::Status TapeMemory::SetFresh(TapeTensorId id, ValueId value) {
  Storage& storage = storages_[memories_[id]];
  if (storage.root != kNoTapeTensor) {
    return absl::UnimplementedError(
        "a result that shares memory against the operator's schema");
  }
  storage = {.root = id, .value = value};
  tensors_[id] = {.value = value, .version = 0};
  return absl::OkStatus();
}

absl::StatusOr<TensorType> TapeMemory::WriteType(TapeTensorId id) const {
  MICA_ASSIGN_OR_RETURN(TensorType type, TypeOf(id));
  const bool is_root = storages_.at(memories_[id]).root == id;
  if (!is_root) type.strides.clear();
  return type;
}

absl::Status TapeMemory::Write(TapeTensorId id, ValueId value) {
  const TapeTensor& tensor = tape_.tensors[id];
  Storage& storage = storages_.at(memories_[id]);
  ++storage.version;
  if (storage.root == id) {
    storage.value = value;
    return absl::OkStatus();
  }
  MICA_RETURN_IF_ERROR(CheckInsideRoot(id));
  MICA_ASSIGN_OR_RETURN(TensorType root_type, TypeOf(storage.root));
  if (!root_type.is_dense()) {
    return absl::UnimplementedError(
        "a write through a view of memory with gaps");
  }
  if (!MovesOf(id).empty()) {
    MICA_ASSIGN_OR_RETURN(Argument moved, MovedOffset(id));
    MICA_ASSIGN_OR_RETURN(
        storage.value,
        AddOneResult("mica.write_window_at",
                     {ValueRef{storage.value}, ValueRef{value}, tensor.sizes,
                      tensor.strides, std::move(moved)},
                     root_type));
    return absl::OkStatus();
  }
  if (IsComplex(root_type.dtype) || IsComplex(builder_.type(value).dtype)) {
    return WriteParts(id, value);
  }
  MICA_ASSIGN_OR_RETURN(
      storage.value,
      AddOneResult("mica.scatter_view",
                   {ValueRef{storage.value}, ValueRef{value}, tensor.sizes,
                    tensor.strides, OffsetInRoot(id)},
                   root_type));
  return absl::OkStatus();
}

// Real and imaginary parts are written, as real numbers.
absl::Status TapeMemory::WriteParts(TapeTensorId id, ValueId value) {
  Storage& storage = storages_.at(memories_[id]);
  const TensorType root_type = builder_.type(storage.value);
  const auto as_real = [this](ValueId of) -> absl::StatusOr<ValueId> {
    if (!IsComplex(builder_.type(of).dtype)) return of;
    return builder_.Add("aten.view_as_real", {ValueRef{of}}, source_);
  };
  const bool is_complex = IsComplex(builder_.type(value).dtype);
  const TapeTensor& tensor = tape_.tensors[id];
  const PartsWindow window =
      is_complex ? PartsOf(tensor) : PartsWindow{tensor.sizes, tensor.strides};
  const int64_t offset =
      OffsetInRoot(id) * (is_complex && IsComplex(root_type.dtype) ? 2 : 1);
  MICA_ASSIGN_OR_RETURN(const ValueId base, as_real(storage.value));
  MICA_ASSIGN_OR_RETURN(const ValueId source, as_real(value));
  MICA_ASSIGN_OR_RETURN(ValueId written,
                        AddOneResult("mica.scatter_view",
                                     {ValueRef{base}, ValueRef{source},
                                      window.sizes, window.strides, offset},
                                     builder_.type(base)));
  if (IsComplex(root_type.dtype)) {
    MICA_ASSIGN_OR_RETURN(
        written,
        AddOneResult("aten.view_as_complex", {ValueRef{written}}, root_type));
  }
  storage.value = written;
  return absl::OkStatus();
}

absl::Status TapeMemory::AddUpdates() {
  for (const auto& [id, storage] : storages_) {
    if (!IsExternal(storage.root) || storage.version == 0) continue;
    MICA_RETURN_IF_ERROR(
        builder_.AddUpdate(tensors_[storage.root].value, storage.value));
  }
  auto check_written = [this](absl::Span<const TapeTensorId> externals) {
    for (TapeTensorId id : externals) {
      if (storages_.at(memories_[id]).version == 0) continue;
      MICA_RETURN_IF_ERROR(CheckInsideRoot(id));
    }
    return absl::OkStatus();
  };
  MICA_RETURN_IF_ERROR(check_written(tape_.inputs));
  return check_written(tape_.states);
}

}  // namespace mica
