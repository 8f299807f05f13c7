#include "python/capture/recorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "python/capture/interpreter.h"
#include "python/capture/op_facts.h"
#include "python/capture/torch_compat.h"

namespace mica {
namespace {

// Larger contents than these aren't copied into a tape.
constexpr int64_t kMaxConstantBytes = int64_t{64} << 20;
// Larger storages aren't watched element by element.
constexpr int64_t kMaxWatchedElements = int64_t{16} << 20;

std::string TapeOpName(const c10::OperatorName& name) {
  std::string text = name.name;
  const size_t colons = text.find("::");
  if (colons != std::string::npos) text.replace(colons, 2, ".");
  if (!name.overload_name.empty()) {
    absl::StrAppend(&text, ".", name.overload_name);
  }
  return text;
}

}  // namespace

// All that knows torch.
struct Recorder::Impl {
  struct Storage {
    int32_t id = 0;
    TapeTensorId root = kNoTapeTensor;  // The first tensor seen over it.
    // Allocated by an empty-like call and not written by a recorded one yet:
    // what it holds came from elsewhere (torch.tensor fills by plain stores).
    bool raw = false;
    // Allocated while Python's values were made a tensor.
    bool of_python = false;
    // If raw: which elements recorded calls have written since.
    std::vector<bool> written;
  };
  // The tensor is held weakly: its address stays taken while its memory may
  // go, and autograd finds it as unshared as in a run that nobody watches.
  struct Seen {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const c10::TensorImpl* impl = nullptr;
    const c10::StorageImpl* storage_impl = nullptr;
    bool has_python_object = false;
    bool unresolved = false;  // Its origin is settled by Finish().
    bool is_remade = false;   // Its metadata changed in place since `ids`.
    UserLine first_use;
    std::string first_op;
  };

  Callbacks callbacks;
  Tape tape;
  std::deque<Seen> seen;  // By TapeTensorId.
  absl::flat_hash_map<const c10::TensorImpl*, TapeTensorId> ids;
  absl::flat_hash_map<const c10::StorageImpl*, Storage> storages;
  absl::flat_hash_set<int32_t> dead_calls;
  bool started = false;
  bool saved_included = false;

  Storage& StorageOf(const at::Tensor& tensor) {
    const c10::StorageImpl* impl =
        tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    auto [it, is_new] = storages.try_emplace(impl);
    if (is_new) it->second.id = static_cast<int32_t>(storages.size()) - 1;
    return it->second;
  }
  Storage* FindStorage(const at::Tensor& tensor) {
    const auto it = storages.find(
        tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
    return it == storages.end() ? nullptr : &it->second;
  }

  // Appends a record of `tensor` as it is now, of origin kCall without a call.
  TapeTensorId Append(const at::Tensor& tensor) {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    const auto id = static_cast<TapeTensorId>(tape.tensors.size());
    TapeTensor record;
    record.dtype = ScalarTypeName(c10::typeMetaToScalarType(impl->dtype()));
    record.device = impl->device().str();
    record.sizes = impl->sizes().vec();
    record.strides = impl->strides().vec();
    record.offset = impl->storage_offset();
    Storage& storage = StorageOf(tensor);
    record.storage = storage.id;
    record.storage_bytes =
        static_cast<int64_t>(impl->unsafe_storage().nbytes());
    record.requires_grad = impl->requires_grad();
    record.is_wrapped_number = impl->is_wrapped_number();
    if (storage.root == kNoTapeTensor) storage.root = id;
    tape.tensors.push_back(std::move(record));
    seen.push_back(
        {.tensor =
             c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(
                 tensor.getIntrusivePtr()),
         .storage = impl->unsafe_storage().getWeakStorageImpl(),
         .impl = impl,
         .storage_impl = impl->unsafe_storage().unsafeGetStorageImpl(),
         .has_python_object = impl->pyobj_slot()->load_pyobj() != nullptr});
    ids[impl] = id;
    return id;
  }

  bool IsCurrent(TapeTensorId id, const at::Tensor& tensor) const {
    const TapeTensor& record = tape.tensors[id];
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    return seen[id].storage_impl ==
               impl->unsafe_storage().unsafeGetStorageImpl() &&
           record.offset == impl->storage_offset() &&
           impl->sizes() == c10::IntArrayRef(record.sizes) &&
           impl->strides() == c10::IntArrayRef(record.strides);
  }

  // The tensor's id; a tensor not seen before becomes one without origin.
  TapeTensorId IdOf(const at::Tensor& tensor, const std::string& op) {
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    const auto it = ids.find(impl);
    if (it != ids.end() && IsCurrent(it->second, tensor)) return it->second;
    Storage* storage = FindStorage(tensor);
    const TapeTensorId root =
        storage == nullptr ? kNoTapeTensor : storage->root;
    const bool is_remade = it != ids.end();
    const TapeTensorId id = Append(tensor);
    seen[id].is_remade = is_remade;
    TapeTensor& record = tape.tensors[id];
    if (root != kNoTapeTensor) {
      // Tensor.data, or a tensor whose metadata changed in place.
      record.origin = TapeOrigin::kAlias;
      record.base = root;
      return id;
    }
    record.origin = TapeOrigin::kState;
    seen[id].unresolved = true;
    seen[id].first_op = op;
    seen[id].first_use = CurrentUserLine();
    if (record.requires_grad) {
      const GilHolder gil;  // Operators run without it.
      const PyRef object = PyRef::Steal(THPVariable_Wrap(tensor));
      if (object) callbacks.on_leaf(object.get());
    }
    // A Python number on its way into an op: nobody else holds it.
    if (record.is_wrapped_number ||
        (record.sizes.empty() && !seen[id].has_python_object)) {
      MakeConstant(id, tensor);
    }
    return id;
  }

  // Copies the present contents of tensor `id` into the tape; `view` is a
  // tensor over its memory.
  bool MakeConstant(TapeTensorId id, const at::Tensor& view) {
    TapeTensor& record = tape.tensors[id];
    const at::NoGradGuard no_grad;
    const at::Tensor tensor =
        view.as_strided(record.sizes, record.strides, record.offset);
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes > kMaxConstantBytes) return false;
    const at::Tensor dense = tensor.contiguous();
    record.origin = TapeOrigin::kConstant;
    record.call = record.output = record.item = -1;
    record.bytes = std::make_shared<const std::string>(
        bytes == 0 ? std::string()
                   : std::string(static_cast<const char*>(dense.data_ptr()),
                                 static_cast<size_t>(bytes)));
    seen[id].unresolved = false;
    return true;
  }

  TapeValue ValueOf(const c10::IValue& value, const c10::TypePtr& type,
                    const std::string& op, bool* foreign);
  void RecordCall(const c10::OperatorHandle& op,
                  const std::vector<c10::IValue>& args,
                  const torch::jit::Stack& stack, Recorder* owner);
  void NoteOverwrite(const at::Tensor& tensor);
  bool IsWritten(const at::Tensor& tensor, const Storage& storage) const;
  void SettleRaw(const at::Tensor& tensor, Recorder* owner,
                 const std::string& op);
};

namespace {

thread_local Recorder* current_recorder = nullptr;

std::string NameOfEnum(const c10::TypePtr& type, int64_t value) {
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return ScalarTypeName(static_cast<c10::ScalarType>(value));
    case c10::TypeKind::LayoutType: {
      std::ostringstream out;
      out << static_cast<c10::Layout>(value);
      return absl::AsciiStrToLower(out.str());
    }
    default:
      switch (static_cast<c10::MemoryFormat>(value)) {
        case c10::MemoryFormat::Contiguous:
          return "contiguous_format";
        case c10::MemoryFormat::Preserve:
          return "preserve_format";
        case c10::MemoryFormat::ChannelsLast:
          return "channels_last";
        case c10::MemoryFormat::ChannelsLast3d:
          return "channels_last_3d";
        default:
          return "unknown_format";
      }
  }
}

c10::TypePtr WithoutOptional(c10::TypePtr type) {
  while (type->kind() == c10::TypeKind::OptionalType) {
    type = type->expectRef<c10::OptionalType>().getElementType();
  }
  return type;
}

TapeValue Foreign(const c10::IValue& value, bool* foreign) {
  *foreign = true;
  return TapeForeign{value.tagKind()};
}

}  // namespace

TapeValue Recorder::Impl::ValueOf(const c10::IValue& value,
                                  const c10::TypePtr& outer,
                                  const std::string& op, bool* foreign) {
  const c10::TypePtr type = WithoutOptional(outer);
  if (value.isNone()) return std::monostate{};
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return std::monostate{};
    return TapeTensorRef{IdOf(tensor, op)};
  }
  if (value.isBool()) return value.toBool();
  if (value.isInt()) {
    const int64_t number = value.toInt();
    switch (type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        return TapeDtype{NameOfEnum(type, number)};
      case c10::TypeKind::LayoutType:
        return TapeEnum{TapeEnum::Kind::kLayout, NameOfEnum(type, number)};
      case c10::TypeKind::MemoryFormatType:
        return TapeEnum{TapeEnum::Kind::kMemoryFormat,
                        NameOfEnum(type, number)};
      default:
        return number;
    }
  }
  if (value.isDouble()) return value.toDouble();
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return std::complex<double>(number.real(), number.imag());
  }
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) {
    return TapeEnum{TapeEnum::Kind::kDevice, value.toDevice().str()};
  }
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return value.toDoubleVector();
  if (!value.isList()) return Foreign(value, foreign);
  const auto items = value.toListRef();
  bool tensors = true, bools = true, ints = true, numbers = true,
       strings = true;
  for (const c10::IValue& item : items) {
    tensors &= item.isTensor() || item.isNone();
    bools &= item.isBool();
    ints &= item.isInt();
    numbers &= item.isInt() || item.isDouble() || item.isBool();
    strings &= item.isString();
  }
  const c10::TypePtr element =
      type->kind() == c10::TypeKind::ListType
          ? WithoutOptional(type->expectRef<c10::ListType>().getElementType())
          : type;
  const bool of_tensors = element->kind() == c10::TypeKind::TensorType;
  if (of_tensors || (tensors && !items.empty())) {
    if (!tensors) return Foreign(value, foreign);
    TapeTensorList list;
    for (const c10::IValue& item : items) {
      list.ids.push_back(item.isNone() || !item.toTensor().defined()
                             ? kNoTapeTensor
                             : IdOf(item.toTensor(), op));
    }
    return list;
  }
  if (items.empty()) return std::vector<int64_t>{};
  if (bools) {
    std::vector<bool> list;
    for (const c10::IValue& item : items) list.push_back(item.toBool());
    return list;
  }
  if (ints) {
    std::vector<int64_t> list;
    for (const c10::IValue& item : items) list.push_back(item.toInt());
    return list;
  }
  if (numbers) {
    std::vector<double> list;
    for (const c10::IValue& item : items) {
      list.push_back(item.toScalar().toDouble());
    }
    return list;
  }
  if (strings) {
    std::vector<std::string> list;
    for (const c10::IValue& item : items) list.push_back(item.toStringRef());
    return list;
  }
  return Foreign(value, foreign);
}

namespace {

// Calls `visit(index)` for each element of a strided tensor, by its distance
// from the storage's start, until that returns false; false if it did.
template <typename F>
bool ForEachElement(const c10::TensorImpl& impl, size_t dim, int64_t offset,
                    F&& visit) {
  if (dim == impl.sizes().size()) return visit(offset);
  for (int64_t i = 0; i < impl.sizes()[dim]; ++i) {
    if (!ForEachElement(impl, dim + 1, offset + i * impl.strides()[dim],
                        visit)) {
      return false;
    }
  }
  return true;
}

int64_t NumStorageElements(const c10::TensorImpl& impl) {
  const auto item = static_cast<int64_t>(impl.itemsize());
  return item == 0
             ? 0
             : static_cast<int64_t>(impl.unsafe_storage().nbytes()) / item;
}

}  // namespace

// A recorded call is about to overwrite `tensor`.
void Recorder::Impl::NoteOverwrite(const at::Tensor& tensor) {
  Storage* storage = FindStorage(tensor);
  if (storage == nullptr || !storage->raw) return;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const int64_t count = NumStorageElements(impl);
  if (impl.is_non_overlapping_and_dense() && impl.numel() >= count) {
    storage->raw = false;
    return;
  }
  if (count > kMaxWatchedElements) return;
  storage->written.resize(static_cast<size_t>(count));
  ForEachElement(impl, 0, impl.storage_offset(), [&](int64_t at) {
    storage->written[static_cast<size_t>(at)] = true;
    return true;
  });
}

// True if recorded calls wrote all that `tensor` shows.
bool Recorder::Impl::IsWritten(const at::Tensor& tensor,
                               const Storage& storage) const {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.numel() == 0) return true;
  if (static_cast<int64_t>(storage.written.size()) !=
      NumStorageElements(impl)) {
    return false;
  }
  return ForEachElement(impl, 0, impl.storage_offset(), [&](int64_t at) {
    return storage.written[static_cast<size_t>(at)];
  });
}

// Contents that no recorded call wrote become a constant at their first use.
void Recorder::Impl::SettleRaw(const at::Tensor& tensor, Recorder* owner,
                               const std::string& op) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) {
    return;
  }
  Storage* storage = FindStorage(tensor);
  if (storage == nullptr || !storage->raw || IsWritten(tensor, *storage)) {
    return;
  }
  storage->raw = false;
  if (!storage->of_python) {
    owner->Refuse({.reason = absl::StrCat(
                       op, ": reads memory that no recorded operator wrote"),
                   .mend = "an operator that computes in C++ by itself "
                           "(max_pool1d does), or torch.empty, made it",
                   .at = CurrentUserLine()});
    return;
  }
  const int32_t call = tape.tensors[storage->root].call;
  if (!MakeConstant(storage->root, tensor)) {
    owner->Refuse({.reason = absl::StrCat(op,
                                          ": reads more than 64 MiB that "
                                          "no recorded operator wrote"),
                   .at = CurrentUserLine()});
    return;
  }
  dead_calls.insert(call);
}

namespace {

template <typename F>
void ForEachTensor(const c10::IValue& value, F&& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) {
        visit(item.toTensor());
      }
    }
  }
}

bool IsHostValue(const c10::IValue& value) {
  return value.isBool() || value.isInt() || value.isDouble() ||
         value.isComplexDouble() || value.isString() || value.isIntList() ||
         value.isDoubleList() || value.isBoolList();
}

}  // namespace

void Recorder::Impl::RecordCall(const c10::OperatorHandle& op,
                                const std::vector<c10::IValue>& args,
                                const torch::jit::Stack& stack,
                                Recorder* owner) {
  const c10::FunctionSchema& schema = op.schema();
  TapeCall call;
  call.op = TapeOpName(op.operator_name());
  const OpFacts facts = FindOpFacts(call.op);
  if (facts.is_metadata_only) return;
  const UserLine line = CurrentUserLine();
  call.file = line.file;
  call.line = line.line;
  const auto refuse = [&](std::string why, std::string mend = "") {
    owner->Refuse({.reason = absl::StrCat(call.op, ": ", why),
                   .mend = std::move(mend),
                   .at = line});
  };
  if (facts.refuse != nullptr) return refuse(facts.refuse);
  // Tensor.t_() and its like change metadata only: what comes of it is an
  // alias over the storage, which IdOf() finds at the next use.
  if (op.hasTag(at::Tag::inplace_view)) return;
  call.schema = c10::toString(schema);
  call.is_nondeterministic_seeded = op.hasTag(at::Tag::nondeterministic_seeded);
  call.has_dynamic_output_shape = op.hasTag(at::Tag::dynamic_output_shape);

  bool foreign = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const c10::AliasInfo* alias = argument.alias_info();
    const bool writes = alias != nullptr && alias->isWrite();
    ForEachTensor(args[i], [&](const at::Tensor& tensor) {
      if (const auto why =
              UnsupportedTensorImpl(*tensor.unsafeGetTensorImpl())) {
        refuse(absl::StrCat("takes a tensor that is ", *why));
      }
    });
    if (owner->refusal()) return;
    call.arg_names.push_back(argument.name());
    call.args.push_back(
        ValueOf(args[i], argument.real_type(), call.op, &foreign));
    if (foreign) {
      return refuse(
          absl::StrCat("argument ", argument.name(), " is a ",
                       args[i].tagKind()),
          argument.name() == "generator" ? "use the default generator" : "");
    }
    if (writes) call.mutated_args.push_back(static_cast<int32_t>(i));
  }
  for (const int hidden : facts.hidden_writes) {
    if (hidden < static_cast<int>(args.size()) && !args[hidden].isNone() &&
        (facts.writes_if < 0 || args[facts.writes_if].toBool())) {
      call.mutated_args.push_back(hidden);
    }
  }

  const auto call_index = static_cast<int32_t>(tape.calls.size());
  const size_t num_outputs = schema.returns().size();
  for (size_t i = 0; i < num_outputs; ++i) {
    const c10::IValue& output = stack[stack.size() - num_outputs + i];
    const auto index = static_cast<int32_t>(i);
    // Tensors that the call made get their origin first; those that it passed
    // through (in place, or unchanged) are known.
    int32_t item = -1;
    const bool is_list = output.isList();
    ForEachTensor(output, [&](const at::Tensor& tensor) {
      if (is_list) ++item;
      if (owner->refusal()) return;
      if (const auto why =
              UnsupportedTensorImpl(*tensor.unsafeGetTensorImpl())) {
        return refuse(absl::StrCat("makes a tensor that is ", *why));
      }
      const auto known = ids.find(tensor.unsafeGetTensorImpl());
      if (known != ids.end()) {
        // Its metadata may have changed in place; IdOf() below sees to it.
        return;
      }
      Storage* storage = FindStorage(tensor);
      const bool shares = storage != nullptr;
      const TapeTensorId id = Append(tensor);
      TapeTensor& record = tape.tensors[id];
      record.origin = TapeOrigin::kCall;
      record.call = call_index;
      record.output = index;
      record.item = item;
      if (!shares && facts.is_uninitialized) {
        Storage& made = StorageOf(tensor);
        made.raw = true;
        made.of_python = callbacks.is_making_tensor();
      }
    });
    if (owner->refusal()) return;
    call.outputs.push_back(
        ValueOf(output, schema.returns()[i].real_type(), call.op, &foreign));
    if (foreign) {
      return refuse(absl::StrCat("yields a ", output.tagKind()));
    }
    if (IsHostValue(output)) tape.host_reads.push_back({call_index, index});
  }

  // Aliases as they are, whatever the schema says.
  for (size_t i = 0; i < num_outputs; ++i) {
    const auto* made = std::get_if<TapeTensorRef>(&call.outputs[i]);
    TapeTensorId first = made != nullptr ? made->id : kNoTapeTensor;
    if (const auto* list = std::get_if<TapeTensorList>(&call.outputs[i])) {
      if (!list->ids.empty()) first = list->ids[0];
    }
    if (first == kNoTapeTensor) continue;
    for (size_t j = 0; j < call.args.size(); ++j) {
      const auto* arg = std::get_if<TapeTensorRef>(&call.args[j]);
      if (arg == nullptr ||
          tape.tensors[arg->id].storage != tape.tensors[first].storage) {
        continue;
      }
      const bool writes =
          std::find(call.mutated_args.begin(), call.mutated_args.end(),
                    static_cast<int32_t>(j)) != call.mutated_args.end();
      call.aliases.push_back(
          {static_cast<int32_t>(i), static_cast<int32_t>(j), writes});
      break;
    }
  }
  tape.calls.push_back(std::move(call));
}

// The handler has to see arguments before the call changes them; the parts
// that need the results come after it.
struct RecorderAccess {
  static void Handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                     torch::jit::Stack* stack) {
    constexpr auto kBelow =
        c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecorderKey);
    Recorder* recorder = current_recorder;
    if (recorder == nullptr || recorder->refusal()) {
      c10::impl::ExcludeDispatchKeyGuard exclude(kRecorderKey);
      op.redispatchBoxed(keys & kBelow, stack);
      return;
    }
    if (IsComposite(op)) {
      // Whole only in inference mode: its parts come by here again.
      op.redispatchBoxed(keys & kBelow, stack);
      return;
    }
    c10::impl::ExcludeDispatchKeyGuard exclude(kRecorderKey);
    const size_t num_args = op.schema().arguments().size();
    const std::vector<c10::IValue> args(stack->end() - num_args, stack->end());
    Before(op, args, recorder);
    try {
      op.redispatchBoxed(keys & kBelow, stack);
    } catch (...) {
      recorder->Refuse({.reason = absl::StrCat(TapeOpName(op.operator_name()),
                                               " raised an exception"),
                        .at = CurrentUserLine()});
      throw;
    }
    if (recorder->refusal()) return;
    recorder->impl_->RecordCall(op, args, *stack, recorder);
  }

  static bool IsComposite(const c10::OperatorHandle& op) {
    return op.hasKernelForDispatchKey(
               c10::DispatchKey::CompositeImplicitAutograd) &&
           !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
           !op.hasKernelForDispatchKey(
               c10::DispatchKey::CompositeExplicitAutograd);
  }

  static void Before(const c10::OperatorHandle& op,
                     const std::vector<c10::IValue>& args, Recorder* recorder) {
    Recorder::Impl& impl = *recorder->impl_;
    const c10::FunctionSchema& schema = op.schema();
    const std::string name = TapeOpName(op.operator_name());
    const OpFacts facts = FindOpFacts(name);
    if (facts.is_metadata_only) return;
    for (size_t i = 0; i < args.size(); ++i) {
      const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
      const bool writes = alias != nullptr && alias->isWrite();
      const bool view = alias != nullptr && !writes;
      ForEachTensor(args[i], [&](const at::Tensor& tensor) {
        if (UnsupportedTensorImpl(*tensor.unsafeGetTensorImpl())) return;
        const TapeTensorId id = impl.IdOf(tensor, name);  // As it is before.
        if (name == "aten.lift_fresh" && impl.seen[id].unresolved &&
            !impl.MakeConstant(id, tensor)) {
          recorder->Refuse({.reason = "makes a constant of more than 64 MiB",
                            .at = CurrentUserLine()});
        }
        if (writes && facts.overwrites) {
          impl.NoteOverwrite(tensor);
        } else if (!view || name == "aten.lift_fresh") {
          impl.SettleRaw(tensor, recorder, name);
        }
      });
    }
  }
};

absl::flat_hash_set<std::string> AtenNames() {
  absl::flat_hash_set<std::string> names;
  for (const c10::OperatorName& op :
       c10::Dispatcher::singleton().getAllOpNames()) {
    absl::string_view name = op.name;
    if (absl::ConsumePrefix(&name, "aten::")) names.emplace(name);
  }
  return names;
}

absl::Status Recorder::Install() {
  static const absl::Status* status = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    if (dispatcher.hasBackendFallbackForDispatchKey(kRecorderKey)) {
      return new absl::Status(absl::UnimplementedError(
          "capture: this torch uses the recorder's dispatch key itself"));
    }
    try {
      static auto* registration =
          new c10::RegistrationHandleRAII(dispatcher.registerFallback(
              kRecorderKey,
              c10::KernelFunction::makeFromBoxedFunction<
                  &RecorderAccess::Handle>(),
              "mica"));
      (void)registration;
    } catch (const std::exception& error) {
      return new absl::Status(
          absl::UnimplementedError(absl::StrCat("capture: ", error.what())));
    }
    return new absl::Status();
  }();
  return *status;
}

Recorder::Recorder(std::string name, Callbacks callbacks)
    : impl_(std::make_unique<Impl>()) {
  impl_->callbacks = std::move(callbacks);
  impl_->tape.name = std::move(name);
}

Recorder::~Recorder() { Stop(); }

void Recorder::AddInput(PyObject* tensor, std::string path) {
  const at::Tensor& value = THPVariable_Unpack(tensor);
  const TapeTensorId id = impl_->Append(value);
  TapeTensor& record = impl_->tape.tensors[id];
  record.origin = TapeOrigin::kInput;
  record.input = static_cast<int32_t>(impl_->tape.inputs.size());
  record.name = std::move(path);
  impl_->tape.inputs.push_back(id);
}

void Recorder::AddConstant(PyObject* tensor) {
  const at::Tensor& value = THPVariable_Unpack(tensor);
  const c10::TensorImpl* impl = value.unsafeGetTensorImpl();
  if (impl_->ids.contains(impl) || UnsupportedTensorImpl(*impl) ||
      impl_->FindStorage(value) != nullptr) {
    return;
  }
  c10::impl::ExcludeDispatchKeyGuard exclude(kRecorderKey);
  const TapeTensorId id = impl_->Append(value);
  impl_->tape.tensors[id].origin = TapeOrigin::kState;
  impl_->seen[id].unresolved = true;
  impl_->MakeConstant(id, value);
}

void Recorder::Start() {
  current_recorder = this;
  impl_->started = true;
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, true);
}

void Recorder::Stop() {
  if (!impl_->started) return;
  impl_->started = false;
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, false);
  current_recorder = nullptr;
}

void Recorder::Refuse(Refusal refusal) {
  if (!refusal_) refusal_ = std::move(refusal);
}

Recorder::Mark Recorder::now() const {
  const Tape& tape = impl_->tape;
  return {tape.calls.size(), tape.tensors.size(), tape.host_reads.size()};
}

const double* Recorder::FloatRead(size_t index, int32_t* call) const {
  const TapeHostRead& read = impl_->tape.host_reads[index];
  *call = read.call;
  if (read.output != 0) return nullptr;
  return std::get_if<double>(&impl_->tape.calls[read.call].outputs[0]);
}

bool Recorder::PlaceNumbers(const Mark& mark,
                            absl::Span<const PassedNumbers> numbers,
                            bool is_tracked) {
  Tape& tape = impl_->tape;
  return tape.calls.size() == mark.calls + 1 &&
         mica::PlaceNumbers(numbers, static_cast<TapeTensorId>(mark.tensors),
                            is_tracked, tape);
}

void Recorder::SetHostValues(std::vector<TapeHostValue> values,
                             std::vector<int32_t> results) {
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
}

int64_t Recorder::num_calls() const {
  return static_cast<int64_t>(impl_->tape.calls.size());
}

namespace {

// Drops the calls in `dead` and renumbers what points at calls.
void DropCalls(Tape& tape, const absl::flat_hash_set<int32_t>& dead) {
  if (dead.empty()) return;
  std::vector<int32_t> moved(tape.calls.size(), -1);
  std::vector<TapeCall> kept;
  for (size_t i = 0; i < tape.calls.size(); ++i) {
    if (dead.contains(static_cast<int32_t>(i))) continue;
    moved[i] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(tape.calls[i]));
  }
  tape.calls = std::move(kept);
  for (TapeTensor& tensor : tape.tensors) {
    if (tensor.call >= 0) tensor.call = moved[tensor.call];
  }
  for (TapeHostRead& read : tape.host_reads) read.call = moved[read.call];
  for (TapeHostValue& value : tape.host_values) {
    if (value.call >= 0) value.call = moved[value.call];
  }
}

// First and last element from the storage's start.
std::pair<int64_t, int64_t> Extent(const TapeTensor& tensor) {
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return {tensor.offset, tensor.offset - 1};
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return {tensor.offset, last};
}

// An alias may reach no further than what it is said to be a view of.
absl::Status CheckAlias(const Tape& tape, TapeTensorId id) {
  const TapeTensor& alias = tape.tensors[id];
  const TapeTensor& base = tape.tensors[alias.base];
  const auto [first, last] = Extent(alias);
  const auto [base_first, base_last] = Extent(base);
  if (alias.dtype != base.dtype ||
      (first <= last && (first < base_first || last > base_last))) {
    return absl::FailedPreconditionError(
        "a tensor was made from another's memory by no recorded operator");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Recorder::Result> Recorder::Finish(
    const std::vector<StateTensor>& states,
    const std::vector<PyObject*>& results) {
  Impl& impl = *impl_;
  Tape& tape = impl.tape;
  Result out;
  absl::flat_hash_map<const c10::TensorImpl*, const StateTensor*> by_impl;
  absl::flat_hash_map<const c10::StorageImpl*, const StateTensor*> by_storage;
  for (const StateTensor& state : states) {
    const c10::TensorImpl* tensor =
        THPVariable_Unpack(state.tensor).unsafeGetTensorImpl();
    by_impl.try_emplace(tensor, &state);
    if (tensor->has_storage()) {
      by_storage.try_emplace(tensor->unsafe_storage().unsafeGetStorageImpl(),
                             &state);
    }
  }
  const auto make_state = [&](TapeTensorId id, const StateTensor& state) {
    TapeTensor& record = tape.tensors[id];
    record.origin = TapeOrigin::kState;
    record.name = state.name;
    impl.seen[id].unresolved = false;
    tape.states.push_back(id);
    out.states.push_back(state.tensor);
  };
  const auto settle = [&](TapeTensorId id) -> absl::Status {
    const TapeOrigin origin = tape.tensors[id].origin;
    if (!impl.seen[id].unresolved && origin != TapeOrigin::kAlias) {
      return absl::OkStatus();
    }
    const auto it = by_impl.find(impl.seen[id].impl);
    if (it != by_impl.end() && !impl.seen[id].is_remade) {
      make_state(id, *it->second);
      return absl::OkStatus();
    }
    if (origin == TapeOrigin::kAlias) return CheckAlias(tape, id);
    const auto owner_it = by_storage.find(impl.seen[id].storage_impl);
    if (owner_it != by_storage.end()) {
      // A view, by Tensor.data, of a state that no call takes by itself.
      const at::Tensor& owner = THPVariable_Unpack(owner_it->second->tensor);
      const auto known = impl.ids.find(owner.unsafeGetTensorImpl());
      TapeTensorId base;
      if (known != impl.ids.end()) {
        base = known->second;
      } else {
        base = impl.Append(owner);
        make_state(base, *owner_it->second);
      }
      impl.StorageOf(owner).root = base;
      tape.tensors[id].origin = TapeOrigin::kAlias;
      tape.tensors[id].base = base;
      impl.seen[id].unresolved = false;
      return CheckAlias(tape, id);
    }
    return absl::FailedPreconditionError(absl::StrCat(
        impl.seen[id].first_op, " takes a tensor ", tape.tensors[id].dtype, "[",
        absl::StrJoin(tape.tensors[id].sizes, ","),
        "] of unknown origin: not an argument, no state that the program "
        "reads from Python objects, and made by no recorded operator",
        impl.seen[id].first_use.line == 0
            ? ""
            : absl::StrCat(" (", impl.seen[id].first_use.ToString(), ")")));
  };
  const auto num_seen = static_cast<TapeTensorId>(tape.tensors.size());
  for (TapeTensorId id = 0; id < num_seen; ++id) {
    absl::Status status = settle(id);
    if (!status.ok()) return status;
  }

  for (PyObject* result : results) {
    const at::Tensor& tensor = THPVariable_Unpack(result);
    if (const auto why = UnsupportedTensorImpl(*tensor.unsafeGetTensorImpl())) {
      return absl::FailedPreconditionError(
          absl::StrCat("the result holds a tensor that is ", *why));
    }
    impl.SettleRaw(tensor, this, "the result");
    if (refusal_) return absl::FailedPreconditionError(refusal_.reason);
    const TapeTensorId id = impl.IdOf(tensor, "the result");
    absl::Status status = settle(id);
    if (!status.ok()) return status;
    out.results.push_back(id);
  }

  // Alias chains end at a base that isn't one.
  for (TapeTensor& tensor : tape.tensors) {
    while (tensor.origin == TapeOrigin::kAlias &&
           tape.tensors[tensor.base].origin == TapeOrigin::kAlias) {
      tensor.base = tape.tensors[tensor.base].base;
    }
  }
  absl::flat_hash_set<int32_t> written;
  for (const TapeCall& call : tape.calls) {
    const auto mark = [&](TapeTensorId id) {
      if (id != kNoTapeTensor) written.insert(tape.tensors[id].storage);
    };
    for (const int32_t arg : call.mutated_args) {
      if (const auto* one = std::get_if<TapeTensorRef>(&call.args[arg])) {
        mark(one->id);
      } else if (const auto* list =
                     std::get_if<TapeTensorList>(&call.args[arg])) {
        for (const TapeTensorId id : list->ids) mark(id);
      }
    }
  }
  for (const auto* ids : {&tape.inputs, &tape.states}) {
    for (const TapeTensorId id : *ids) {
      if (written.contains(tape.tensors[id].storage)) {
        tape.mutated.push_back(id);
      }
    }
  }
  DropCalls(tape, impl.dead_calls);
  out.tape = std::move(tape);
  return out;
}

}  // namespace mica
