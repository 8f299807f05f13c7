// How a call becomes part of the tape.

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "python/torch_side/recorder/op_facts.h"
#include "python/torch_side/recorder/recorder_impl.h"

namespace mica {
namespace {

bool IsHostValue(const c10::IValue& value) {
  return value.isBool() || value.isInt() || value.isDouble() ||
         value.isComplexDouble() || value.isString() || value.isIntList() ||
         value.isDoubleList() || value.isBoolList();
}

}  // namespace

std::string TapeOpName(const c10::OperatorName& name) {
  std::string text = name.name;
  const size_t colons = text.find("::");
  if (colons != std::string::npos) text.replace(colons, 2, ".");
  if (!name.overload_name.empty()) {
    absl::StrAppend(&text, ".", name.overload_name);
  }
  return text;
}

// One call that has returned.
class Recorder::Impl::CallWriter {
 public:
  // All outlive this. The results are on the stack.
  CallWriter(Impl& impl, Recorder& owner, const c10::OperatorHandle& op,
             const std::vector<c10::IValue>& args,
             const torch::jit::Stack& stack)
      : impl_(impl),
        owner_(owner),
        op_(op),
        args_(args),
        stack_(stack),
        name_(TapeOpName(op.operator_name())),
        facts_(FindOpFacts(name_)) {}

  // Appends it to the tape, unless it is refused or only changes metadata.
  void Write();

 private:
  void Refuse(const std::string& why, std::string mend = "") {
    owner_.Refuse({.reason = absl::StrCat(name_, ": ", why),
                   .mend = std::move(mend),
                   .at = line_});
  }
  const c10::IValue& Output(size_t index) const {
    return stack_[stack_.size() - num_outputs() + index];
  }
  size_t num_outputs() const { return op_.schema().returns().size(); }
  // True if it makes tensors, all of which have a form alone.
  bool IsOnMeta() const;
  // True if the run made its memory, in this call perhaps.
  bool IsOwn(const at::Tensor& tensor) const;
  // False, refused, for a tensor that no tape has.
  bool Check(const at::Tensor& tensor, const char* how);
  // Each false if it is refused.
  bool TakeResized();
  bool AddArguments();
  bool AddOutputs();
  void AddHiddenWrites();
  // Tensors that the call made get their origin; those that it passed through
  // (in place, or unchanged) are known.
  void AddMade(const c10::IValue& output, int32_t index);
  // Aliases as they are, whatever the schema says.
  void AddAliases();

  Impl& impl_;
  Recorder& owner_;
  const c10::OperatorHandle& op_;
  const std::vector<c10::IValue>& args_;
  const torch::jit::Stack& stack_;
  const std::string name_;
  const OpFacts facts_;
  UserLine line_;
  TapeCall call_;
};

void Recorder::Impl::RecordCall(const c10::OperatorHandle& op,
                                const std::vector<c10::IValue>& args,
                                const torch::jit::Stack& stack,
                                Recorder* owner) {
  CallWriter(*this, *owner, op, args, stack).Write();
}

void Recorder::Impl::CallWriter::Write() {
  if (facts_.is_metadata_only) return;
  line_ = CurrentUserLine();
  call_.op = name_;
  call_.file = line_.file;
  call_.line = line_.line;
  call_.place = impl_.AddPlace();
  if (facts_.refuse != nullptr) return Refuse(facts_.refuse);
  if (facts_.resizes) {
    TakeResized();
    return;
  }
  // Tensor.t_() and its like change metadata only: what comes of it is an
  // alias over the storage, which IdOf() finds at the next use.
  if (op_.hasTag(at::Tag::inplace_view)) return;
  // Torch asks for a result's form, before it makes the result.
  if (IsOnMeta()) return;
  // Zeros without memory are zeros to who reads them.
  if (name_ == "aten._efficientzerotensor") call_.op = "aten.zeros";
  if (!TakeResized()) return;
  // Generators are their numbers, from here on.
  call_.schema =
      absl::StrReplaceAll(c10::toString(op_.schema()), {{"Generator", "int"}});
  call_.is_nondeterministic_seeded =
      op_.hasTag(at::Tag::nondeterministic_seeded);
  call_.has_dynamic_output_shape = op_.hasTag(at::Tag::dynamic_output_shape);
  if (!AddArguments()) return;
  if (owner_.refuses_sizes_of_data_ && HasSizeOfData(impl_.tape, call_)) {
    return Refuse("the size of its result, which data decide, varies");
  }
  AddHiddenWrites();
  if (!AddOutputs()) return;
  AddAliases();
  impl_.AppendCall(std::move(call_));
}

bool Recorder::Impl::CallWriter::IsOnMeta() const {
  bool makes = false, on_meta = true;
  for (size_t i = 0; i < num_outputs(); ++i) {
    on_meta &= Output(i).isTensor() || Output(i).isTensorList();
    VisitTensors(Output(i), [&](const at::Tensor& tensor) {
      makes = true;
      on_meta &= tensor.is_meta();
    });
  }
  return makes && on_meta;
}

bool Recorder::Impl::CallWriter::IsOwn(const at::Tensor& tensor) const {
  const Storage* storage = impl_.FindStorage(tensor);
  return storage == nullptr || storage->root == kNoTapeTensor ||
         impl_.tape.tensors[storage->root].origin == TapeOrigin::kCall;
}

bool Recorder::Impl::CallWriter::Check(const at::Tensor& tensor,
                                       const char* how) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  auto why = UnsupportedTensorImpl(impl);
  if (why && IsOwn(tensor)) why = UnsupportedInside(impl);
  if (why) Refuse(absl::StrCat(how, " a tensor that is ", *why));
  return !why;
}

// An out-variant gives an empty tensor the memory that its result takes, and
// resize_() what it is asked for: from here on that is another tensor, and what
// was there before had no elements. Whatever else changes the form of what it
// writes can't be told by writes.
bool Recorder::Impl::CallWriter::TakeResized() {
  for (size_t i = 0; i < args_.size(); ++i) {
    const c10::AliasInfo* alias = op_.schema().arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    VisitTensors(args_[i], [&](const at::Tensor& tensor) {
      const auto it = impl_.ids.find(tensor.unsafeGetTensorImpl());
      if (it == impl_.ids.end() && facts_.resizes) {
        return Refuse("gives a tensor that isn't new other memory in place");
      }
      if (it == impl_.ids.end() || impl_.IsCurrent(it->second, tensor)) return;
      const TapeTensor& before = impl_.tape.tensors[it->second];
      const bool was_empty = absl::c_linear_search(before.sizes, 0);
      const bool is_own = before.origin == TapeOrigin::kCall ||
                          before.origin == TapeOrigin::kConstant;
      const bool gives_memory =
          facts_.resizes || op_.schema().arguments()[i].is_out();
      if (was_empty && is_own && gives_memory) {
        impl_.MakeAnew(tensor, call_);
        // Nothing has written it so far.
        impl_.StorageOf(tensor).raw = facts_.resizes;
      } else {
        Refuse("changes the form of a tensor that it writes",
               "give it a tensor of its result's size");
      }
    });
  }
  return !owner_.refusal();
}

bool Recorder::Impl::CallWriter::AddArguments() {
  for (size_t i = 0; i < args_.size(); ++i) {
    const c10::Argument& argument = op_.schema().arguments()[i];
    const c10::AliasInfo* alias = argument.alias_info();
    VisitTensors(args_[i],
                 [&](const at::Tensor& tensor) { Check(tensor, "takes"); });
    if (owner_.refusal()) return false;
    bool foreign = false;
    call_.arg_names.push_back(argument.name());
    call_.args.push_back(
        impl_.ValueOf(args_[i], argument.real_type(), name_, &foreign));
    if (foreign) {
      Refuse(absl::StrCat("argument ", argument.name(), " is a ",
                          args_[i].tagKind()),
             argument.name() == "generator" ? "use the default generator" : "");
      return false;
    }
    if (alias != nullptr && alias->isWrite()) {
      call_.mutated_args.push_back(static_cast<int32_t>(i));
    }
  }
  return true;
}

void Recorder::Impl::CallWriter::AddHiddenWrites() {
  for (const int hidden : facts_.hidden_writes) {
    // Instance norm gives none as a tensor that isn't defined.
    if (hidden < static_cast<int>(args_.size()) && args_[hidden].isTensor() &&
        args_[hidden].toTensor().defined() &&
        (facts_.writes_if < 0 || args_[facts_.writes_if].toBool())) {
      call_.mutated_args.push_back(hidden);
      call_.concealed_args.push_back(hidden);
    }
  }
}

void Recorder::Impl::CallWriter::AddMade(const c10::IValue& output,
                                         int32_t index) {
  int32_t item = -1;
  const bool is_list = output.isList();
  VisitTensors(output, [&](const at::Tensor& tensor) {
    if (is_list) ++item;
    if (owner_.refusal() || !Check(tensor, "makes")) return;
    // Its metadata may have changed in place; IdOf() sees to it.
    if (impl_.ids.contains(tensor.unsafeGetTensorImpl())) return;
    const bool shares = impl_.FindStorage(tensor) != nullptr;
    const TapeTensorId id = impl_.Append(tensor);
    TapeTensor& record = impl_.tape.tensors[id];
    record.origin = TapeOrigin::kCall;
    record.call = static_cast<int32_t>(impl_.tape.calls.size());
    record.output = index;
    record.item = item;
    if (shares || !facts_.is_uninitialized) return;
    Storage& made = impl_.StorageOf(tensor);
    made.raw = true;
    made.of_python = impl_.callbacks.is_making_tensor();
    made.of_program = impl_.callbacks.is_allocating();
  });
}

bool Recorder::Impl::CallWriter::AddOutputs() {
  for (size_t i = 0; i < num_outputs(); ++i) {
    const c10::IValue& output = Output(i);
    const auto index = static_cast<int32_t>(i);
    AddMade(output, index);
    if (owner_.refusal()) return false;
    bool foreign = false;
    call_.outputs.push_back(impl_.ValueOf(
        output, op_.schema().returns()[i].real_type(), name_, &foreign));
    if (foreign) {
      Refuse(absl::StrCat("yields a ", output.tagKind()));
      return false;
    }
    if (IsHostValue(output)) {
      impl_.tape.host_reads.push_back(
          {static_cast<int32_t>(impl_.tape.calls.size()), index});
    }
  }
  return true;
}

void Recorder::Impl::CallWriter::AddAliases() {
  const std::vector<TapeTensor>& tensors = impl_.tape.tensors;
  for (size_t i = 0; i < num_outputs(); ++i) {
    const auto* made = std::get_if<TapeTensorRef>(&call_.outputs[i]);
    TapeTensorId first = made != nullptr ? made->id : kNoTapeTensor;
    if (const auto* list = std::get_if<TapeTensorList>(&call_.outputs[i])) {
      if (!list->ids.empty()) first = list->ids[0];
    }
    if (first == kNoTapeTensor) continue;
    for (size_t j = 0; j < call_.args.size(); ++j) {
      const auto* arg = std::get_if<TapeTensorRef>(&call_.args[j]);
      if (arg == nullptr ||
          tensors[arg->id].storage != tensors[first].storage) {
        continue;
      }
      const bool writes =
          std::find(call_.mutated_args.begin(), call_.mutated_args.end(),
                    static_cast<int32_t>(j)) != call_.mutated_args.end();
      call_.aliases.push_back(
          {static_cast<int32_t>(i), static_cast<int32_t>(j), writes});
      break;
    }
  }
}

}  // namespace mica
