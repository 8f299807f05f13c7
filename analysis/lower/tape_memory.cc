#include "analysis/lower/tape_memory.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {

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
  const auto num_elements = [this](TapeTensorId tensor) {
    int64_t count = 1;
    for (int64_t size : tape_.tensors[tensor].sizes) count *= size;
    return count;
  };
  tensors_[id] = {.value = value, .version = 0};
  Storage& storage = storages_[tape_.tensors[id].storage];
  // Of several tensors over one memory the largest stands for it.
  if (storage.root == kNoTapeTensor ||
      num_elements(id) > num_elements(storage.root)) {
    storage = {.root = id, .value = value};
  }
}

absl::Status TapeMemory::CheckInsideRoot(TapeTensorId id) const {
  MICA_ASSIGN_OR_RETURN(TensorType type, TypeOf(id));
  const TapeTensorId root = storages_.at(tape_.tensors[id].storage).root;
  MICA_ASSIGN_OR_RETURN(TensorType root_type, TypeOf(root));
  if (root_type.dtype != type.dtype) {
    return absl::UnimplementedError(absl::StrCat(
        "one memory as ", root_type.ToString(), " and as ", type.ToString()));
  }
  const int64_t offset = OffsetInRoot(id);
  if (offset < 0 || offset * ElementBytes(type.dtype) + type.extent_bytes() >
                        root_type.extent_bytes()) {
    return absl::UnimplementedError(absl::StrCat(
        "a view that reaches beyond the tensor that it is made of: ",
        type.ToString(), " at ", offset, " of ", root_type.ToString()));
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueId> TapeMemory::ViewOfRoot(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  const Storage& storage = storages_.at(tensor.storage);
  MICA_RETURN_IF_ERROR(CheckInsideRoot(id));
  MICA_ASSIGN_OR_RETURN(TensorType root_type, TypeOf(storage.root));
  MICA_ASSIGN_OR_RETURN(TensorType type, TypeOf(id));
  if (root_type == type && OffsetInRoot(id) == 0) return storage.value;
  if (storage.version > 0 && !root_type.is_dense()) {
    return absl::UnimplementedError("a view of memory with gaps after a write");
  }
  return AddOneResult(
      "aten.as_strided",
      {ValueRef{storage.value}, tensor.sizes, tensor.strides, OffsetInRoot(id)},
      type);
}

absl::StatusOr<ValueId> TapeMemory::Current(TapeTensorId id) {
  const TapeTensor& tensor = tape_.tensors[id];
  if (!storages_.contains(tensor.storage)) {
    return absl::InternalError(
        absl::StrCat("tensor ", id, " is read before anything made it"));
  }
  const Storage& storage = storages_.at(tensor.storage);
  if (storage.root == id) return storage.value;
  TensorValue& state = tensors_[id];
  if (state.value == kNoValue || state.version != storage.version) {
    MICA_ASSIGN_OR_RETURN(state.value, ViewOfRoot(id));
    state.version = storage.version;
  }
  return state.value;
}

absl::Status TapeMemory::SetFresh(TapeTensorId id, ValueId value) {
  Storage& storage = storages_[tape_.tensors[id].storage];
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
  const bool is_root = storages_.at(tape_.tensors[id].storage).root == id;
  if (!is_root) type.strides.clear();
  return type;
}

absl::Status TapeMemory::Write(TapeTensorId id, ValueId value) {
  const TapeTensor& tensor = tape_.tensors[id];
  Storage& storage = storages_.at(tensor.storage);
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
  MICA_ASSIGN_OR_RETURN(
      storage.value,
      AddOneResult("mica.scatter_view",
                   {ValueRef{storage.value}, ValueRef{value}, tensor.sizes,
                    tensor.strides, OffsetInRoot(id)},
                   root_type));
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
      if (storages_.at(tape_.tensors[id].storage).version == 0) continue;
      MICA_RETURN_IF_ERROR(CheckInsideRoot(id));
    }
    return absl::OkStatus();
  };
  MICA_RETURN_IF_ERROR(check_written(tape_.inputs));
  return check_written(tape_.states);
}

}  // namespace mica
