#include "analysis/sizes/size_rules.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/lower/constant_argument.h"
#include "framework/base/status.h"
#include "framework/op/op_def.h"
#include "framework/tensor/dtype.h"
#include "framework/tensor/tensor_type.h"

namespace mica {
namespace {

using Results = std::vector<std::optional<TensorSizes>>;

TensorSizes RowMajor(std::vector<int64_t> sizes) {
  const Dims strides = RowMajorStrides(sizes);
  return {.sizes = std::move(sizes),
          .strides = {strides.begin(), strides.end()}};
}

// One call.
class Rule {
 public:
  // All outlive this.
  Rule(const Tape& tape, int32_t index, absl::Span<const TapeValue> args,
       absl::Span<const TensorSizes> tensors, const OpRegistry& ops)
      : tape_(tape),
        call_(tape.calls[index]),
        args_(args),
        tensors_(tensors),
        ops_(ops),
        outputs_(OutputsOf(call_)) {}

  Results Find() const {
    Results results;
    if (IsViewCall(call_)) {
      results = FindView();
    } else if (call_.mutated_args.empty()) {
      results = FindComputed();
    }
    if (results.size() != outputs_.size()) results = FindByName();
    results.resize(outputs_.size());
    return results;
  }

 private:
  const TensorSizes* SizesOfArg(size_t arg) const {
    const auto* ref =
        arg < args_.size() ? std::get_if<TapeTensorRef>(&args_[arg]) : nullptr;
    return ref == nullptr || ref->id == kNoTapeTensor ? nullptr
                                                      : &tensors_[ref->id];
  }
  // Null if the call has no argument of this name and type.
  template <typename T>
  const T* FindArg(absl::string_view name) const {
    for (size_t i = 0; i < call_.arg_names.size(); ++i) {
      if (call_.arg_names[i] == name) return std::get_if<T>(&args_[i]);
    }
    return nullptr;
  }
  int64_t IntOfArg(absl::string_view name, int64_t otherwise) const {
    const auto* number = FindArg<int64_t>(name);
    return number == nullptr ? otherwise : *number;
  }

  absl::StatusOr<TensorType> TypeOf(TapeTensorId id) const {
    const std::optional<DType> dtype = ParseDType(tape_.tensors[id].dtype);
    if (!dtype.has_value()) return absl::UnimplementedError("a dtype");
    const TensorSizes& sizes = tensors_[id];
    return TensorType{.dtype = *dtype,
                      .dims = {sizes.sizes.begin(), sizes.sizes.end()},
                      .strides = {sizes.strides.begin(), sizes.strides.end()}};
  }

  absl::StatusOr<Arguments> ArgumentsOf() const {
    Arguments arguments;
    for (const TapeValue& arg : args_) {
      if (const auto* ref = std::get_if<TapeTensorRef>(&arg)) {
        arguments.push_back(ref->id == kNoTapeTensor
                                ? Argument()
                                : Argument(ValueRef{ref->id}));
      } else if (const auto* list = std::get_if<TapeTensorList>(&arg)) {
        ValueRefs refs;
        for (const TapeTensorId id : list->ids) {
          refs.push_back(ValueRef{id == kNoTapeTensor ? kNoValue : id});
        }
        arguments.push_back(std::move(refs));
      } else if (const auto* number = std::get_if<TapeHostRef>(&arg)) {
        const double value = tape_.host_values[number->id].value;
        const std::string& name = call_.arg_names[arguments.size()];
        // Where a view begins is an int.
        const bool is_place = name == "index" || name == "start";
        arguments.push_back(is_place ? Argument(static_cast<int64_t>(value))
                                     : Argument(value));
      } else {
        MICA_ASSIGN_OR_RETURN(Argument constant, ConstantArgument(arg));
        arguments.push_back(std::move(constant));
      }
    }
    return arguments;
  }

  // What `find` makes of the call as Mica's operator sees it.
  template <typename Find>
  auto WithCall(const OpDef& def, const Find& find) const
      -> decltype(find(std::declval<const OpCall&>())) {
    MICA_ASSIGN_OR_RETURN(const Arguments arguments, ArgumentsOf());
    absl::InlinedVector<std::pair<ValueId, TensorType>, 4> types;
    absl::Status status;
    ForEachValue(arguments, [&](ValueId id) {
      absl::StatusOr<TensorType> type = TypeOf(id);
      if (type.ok()) {
        types.emplace_back(id, *std::move(type));
      } else {
        status = type.status();
      }
    });
    MICA_RETURN_IF_ERROR(status);
    MICA_RETURN_IF_ERROR(CheckArguments(def, arguments));
    const OpCall::TypeOf type_of = [&](ValueId id) -> const TensorType& {
      return absl::c_find_if(types,
                             [&](const auto& one) { return one.first == id; })
          ->second;
    };
    return find(OpCall(def, arguments, type_of));
  }

  const OpDef* Known() const {
    const OpDef* def = ops_.Find(call_.op);
    return def == nullptr || def->is_bounded() ||
                   def->schema().params.size() != args_.size()
               ? nullptr
               : def;
  }

  Results FindView() const {
    const TensorSizes* base = SizesOfArg(0);
    if (base == nullptr) return {};
    if (Results parts = FindParts(*base); !parts.empty()) return parts;
    const OpDef* def = Known();
    if (def == nullptr || !def->is_view() || outputs_.size() != 1) return {};
    const absl::StatusOr<View> view =
        WithCall(*def, [&](const OpCall& call) -> absl::StatusOr<View> {
          MICA_RETURN_IF_ERROR(InferTypes(call).status());
          return def->view()(call);
        });
    if (!view.ok()) return {};
    int64_t offset =
        view->offset + (CountsFromStorage(call_) ? 0 : base->offset);
    if (view->dtype.has_value()) {
      // In elements of the base; those of the view are of another size.
      const auto* self = std::get_if<TapeTensorRef>(&args_[0]);
      const std::optional<DType> own =
          ParseDType(tape_.tensors[self->id].dtype);
      if (!own.has_value()) return {};
      offset = offset * ElementBytes(*own) / ElementBytes(*view->dtype);
    }
    return {TensorSizes{{view->dims.begin(), view->dims.end()},
                        {view->strides.begin(), view->strides.end()},
                        offset}};
  }

  // Views that come in lists: a dim is cut apart.
  Results FindParts(const TensorSizes& base) const {
    const bool unbinds = call_.op == "aten.unbind.int";
    const bool splits = call_.op == "aten.split.Tensor" ||
                        call_.op == "aten.split_with_sizes" ||
                        call_.op == "aten.unsafe_split.Tensor" ||
                        call_.op == "aten.unsafe_split_with_sizes";
    if (!unbinds && !splits) return {};
    const auto rank = static_cast<int64_t>(base.sizes.size());
    int64_t dim = IntOfArg("dim", 0);
    if (dim < 0) dim += rank;
    if (dim < 0 || dim >= rank) return {};
    std::vector<int64_t> parts;
    if (const auto* sizes = FindArg<std::vector<int64_t>>("split_sizes")) {
      parts = *sizes;
    } else {
      const int64_t size = unbinds ? 1 : IntOfArg("split_size", 0);
      if (size <= 0) return {};
      for (int64_t at = 0; at < base.sizes[dim]; at += size) {
        parts.push_back(std::min(size, base.sizes[dim] - at));
      }
    }
    Results results;
    int64_t at = 0;
    for (const int64_t size : parts) {
      TensorSizes part = base;
      part.sizes[dim] = size;
      part.offset += at * base.strides[dim];
      at += size;
      if (unbinds) {
        part.sizes.erase(part.sizes.begin() + dim);
        part.strides.erase(part.strides.begin() + dim);
      }
      results.push_back(std::move(part));
    }
    return at == base.sizes[dim] ? results : Results();
  }

  Results FindComputed() const {
    const OpDef* def = Known();
    if (def == nullptr || def->is_view() || def->infer() == nullptr) return {};
    const absl::StatusOr<TensorTypes> types =
        WithCall(*def, [](const OpCall& call) { return InferTypes(call); });
    if (!types.ok() || types->size() != outputs_.size()) return {};
    Results results;
    for (const TensorType& type : *types) {
      results.emplace_back();
      if (type == AbsentResultType()) continue;
      results.back() = RowMajor({type.dims.begin(), type.dims.end()});
    }
    return results;
  }

  // What an operator is called, and its parameters, says what it gives.
  Results FindByName() const {
    const absl::string_view op = call_.op;
    if (const TensorSizes* self = SizesOfArg(0)) {
      const bool is_like = absl::StrContains(op, "_like") ||
                           op == "aten.native_dropout" ||
                           op == "aten.bernoulli" || op == "aten.bernoulli.p" ||
                           op == "aten.clone" || op == "aten.detach" ||
                           op == "aten.alias" || op == "aten.lift_fresh" ||
                           op == "aten._conj" || op == "aten._neg_view";
      if (is_like) {
        // Of a view, as detach() gives it, all is the same.
        const TensorSizes like =
            IsViewCall(call_) ? *self : RowMajor(self->sizes);
        return Results(outputs_.size(), like);
      }
    }
    const std::vector<int64_t>* size = FindArg<std::vector<int64_t>>("size");
    const bool makes_of_size = absl::StartsWith(op, "aten.empty") ||
                               absl::StartsWith(op, "aten.new_") ||
                               absl::StartsWith(op, "aten.zeros") ||
                               absl::StartsWith(op, "aten.ones") ||
                               absl::StartsWith(op, "aten.full") ||
                               absl::StartsWith(op, "aten.rand") ||
                               absl::StartsWith(op, "aten.normal");
    if (size != nullptr && makes_of_size && outputs_.size() == 1) {
      return {RowMajor(*size)};
    }
    if (absl::StartsWith(op, "aten._foreach_")) {
      const auto* list = std::get_if<TapeTensorList>(&args_[0]);
      if (list == nullptr || list->ids.size() != outputs_.size()) return {};
      Results results;
      for (const TapeTensorId id : list->ids) {
        results.push_back(RowMajor(tensors_[id].sizes));
      }
      return results;
    }
    return {};
  }

  const Tape& tape_;
  const TapeCall& call_;
  const absl::Span<const TapeValue> args_;
  const absl::Span<const TensorSizes> tensors_;
  const OpRegistry& ops_;
  const std::vector<TapeTensorId> outputs_;
};

}  // namespace

std::string ToString(const TensorSizes& sizes) {
  return absl::StrCat("[", absl::StrJoin(sizes.sizes, ","), "]{",
                      absl::StrJoin(sizes.strides, ","), "}");
}

std::vector<TensorSizes> SizesOf(const Tape& tape) {
  std::vector<TensorSizes> all;
  all.reserve(tape.tensors.size());
  for (const TapeTensor& tensor : tape.tensors) {
    all.push_back({.sizes = tensor.sizes,
                   .strides = tensor.strides,
                   .offset = tensor.offset});
  }
  return all;
}

std::vector<TapeTensorId> OutputsOf(const TapeCall& call) {
  std::vector<TapeTensorId> outputs;
  for (const TapeValue& output : call.outputs) {
    ForEachTensor(output, [&](TapeTensorId id) { outputs.push_back(id); });
  }
  return outputs;
}

bool IsViewCall(const TapeCall& call) {
  return call.mutated_args.empty() &&
         absl::c_any_of(call.aliases,
                        [](const TapeAlias& alias) { return !alias.is_write; });
}

std::vector<std::optional<TensorSizes>> FindResultSizes(
    const Tape& tape, int32_t index, absl::Span<const TapeValue> args,
    absl::Span<const TensorSizes> tensors, const OpRegistry& ops) {
  return Rule(tape, index, args, tensors, ops).Find();
}

}  // namespace mica
