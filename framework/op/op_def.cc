#include "framework/op/op_def.h"

#include <complex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "glog/logging.h"

namespace mica {
namespace {

// True if a constant of this kind may stand for the parameter.
bool IsLegalConstant(const Param& param, const Argument& argument,
                     bool is_opaque) {
  if (IsNone(argument)) {
    return param.is_optional || param.kind == ParamKind::kOpaque;
  }
  switch (param.kind) {
    case ParamKind::kTensor:
    case ParamKind::kTensorList:
    case ParamKind::kOpaque:
      return false;
    case ParamKind::kScalar:
    case ParamKind::kFloat:
      return std::holds_alternative<int64_t>(argument) ||
             std::holds_alternative<double>(argument) ||
             (param.kind == ParamKind::kScalar &&
              (std::holds_alternative<bool>(argument) ||
               // Ours compute with real numbers.
               (is_opaque &&
                std::holds_alternative<std::complex<double>>(argument))));
    case ParamKind::kInt:
      return std::holds_alternative<int64_t>(argument);
    case ParamKind::kBool:
      return std::holds_alternative<bool>(argument);
    case ParamKind::kString:
      return std::holds_alternative<std::string>(argument);
    case ParamKind::kDType:
      return std::holds_alternative<DType>(argument);
    case ParamKind::kIntList:
      return std::holds_alternative<std::vector<int64_t>>(argument);
    case ParamKind::kFloatList:
      return std::holds_alternative<std::vector<double>>(argument);
    case ParamKind::kBoolList:
      return std::holds_alternative<std::vector<bool>>(argument);
  }
  return false;
}

// Parameters written in place that no result hands out.
std::vector<int> FindHiddenResults(const Schema& schema) {
  std::vector<int> hidden;
  for (size_t i = 0; i < schema.params.size(); ++i) {
    const Param& param = schema.params[i];
    bool is_returned = !param.is_mutated;
    for (const Result& result : schema.results) {
      is_returned = is_returned || result.alias_set == param.alias_set;
    }
    if (!is_returned) hidden.push_back(static_cast<int>(i));
  }
  return hidden;
}

// -1 if a list of tensors is among the results.
int CountResults(const Schema& schema, const std::vector<int>& hidden) {
  for (const Result& result : schema.results) {
    if (result.kind == ParamKind::kTensorList) return -1;
  }
  for (int param : hidden) {
    if (schema.params[param].kind == ParamKind::kTensorList) return -1;
  }
  return static_cast<int>(schema.results.size() + hidden.size());
}

bool IsLegal(const Param& param, const Argument& argument, bool is_opaque) {
  if (std::holds_alternative<ValueRef>(argument)) {
    return param.kind == ParamKind::kTensor || param.kind == ParamKind::kScalar;
  }
  if (const auto* refs = std::get_if<ValueRefs>(&argument)) {
    if (param.kind != ParamKind::kTensorList) return false;
    for (ValueRef ref : *refs) {
      if (ref.id == kNoValue && !param.has_optional_elements) return false;
    }
    return true;
  }
  return IsLegalConstant(param, argument, is_opaque);
}

bool TakesComplex(const OpCall& call) {
  bool takes = false;
  for (size_t i = 0; i < call.arguments().size(); ++i) {
    const int param = static_cast<int>(i);
    if (call.IsValue(param)) {
      takes = takes || IsComplex(call.Type(param).dtype);
    } else if (std::holds_alternative<ValueRefs>(call.arguments()[i])) {
      for (const TensorType* type : call.Types(param)) {
        takes = takes || (type != nullptr && IsComplex(type->dtype));
      }
    }
  }
  return takes;
}

}  // namespace

TensorType AbsentResultType() {
  return TensorType{.dtype = DType::kF32, .dims = {0}};
}

bool OpCall::Has(int param) const {
  return param < static_cast<int>(arguments_.size()) &&
         !IsNone(arguments_[param]);
}

bool OpCall::IsValue(int param) const {
  return param < static_cast<int>(arguments_.size()) &&
         std::holds_alternative<ValueRef>(arguments_[param]);
}

const TensorType& OpCall::Type(int param) const {
  return type_of_(std::get<ValueRef>(arguments_[param]).id);
}

std::vector<const TensorType*> OpCall::Types(int param) const {
  std::vector<const TensorType*> types;
  for (ValueRef ref : std::get<ValueRefs>(arguments_[param])) {
    types.push_back(ref.id == kNoValue ? nullptr : &type_of_(ref.id));
  }
  return types;
}

int64_t OpCall::Int(int param) const {
  return std::get<int64_t>(arguments_[param]);
}

bool OpCall::Bool(int param) const { return std::get<bool>(arguments_[param]); }

double OpCall::Number(int param) const {
  const Argument& argument = arguments_[param];
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return static_cast<double>(*integer);
  }
  if (const auto* flag = std::get_if<bool>(&argument)) return *flag;
  return std::get<double>(argument);
}

absl::Span<const int64_t> OpCall::Ints(int param) const {
  return std::get<std::vector<int64_t>>(arguments_[param]);
}

const std::string& OpCall::String(int param) const {
  return std::get<std::string>(arguments_[param]);
}

DType OpCall::GetDType(int param) const {
  return std::get<DType>(arguments_[param]);
}

DType OpCall::NumberDType(int param) const {
  if (IsValue(param)) return Type(param).dtype;
  const Argument& argument = arguments_[param];
  if (std::holds_alternative<bool>(argument)) return DType::kBool;
  return std::holds_alternative<int64_t>(argument) ? DType::kI64 : DType::kF64;
}

absl::Status OpCall::Wants(absl::string_view wanted) const {
  std::string got;
  ForEachValue(arguments_, [&](ValueId id) {
    absl::StrAppend(&got, got.empty() ? "" : ", ", type_of_(id).ToString());
  });
  return absl::InvalidArgumentError(
      absl::StrCat(def_.name(), ": wants ", wanted, ", got ",
                   got.empty() ? "no values" : got));
}

OpDef::OpDef(absl::string_view schema) {
  absl::StatusOr<Schema> parsed = ParseSchema(schema);
  CHECK(parsed.ok()) << parsed.status();
  schema_ = *std::move(parsed);
  num_results_ = CountResults(schema_, hidden_results_);
}

OpDef OpDef::Opaque(Schema schema) {
  OpDef def;
  def.schema_ = std::move(schema);
  def.is_opaque_ = true;
  def.has_effect_ = true;  // Not known to be free of any, so never dropped.
  def.hidden_results_ = FindHiddenResults(def.schema_);
  def.num_results_ = CountResults(def.schema_, def.hidden_results_);
  return def;
}

OpDef& OpDef::Doc(absl::string_view doc) {
  doc_ = std::string(doc);
  return *this;
}

OpDef& OpDef::Infer(InferFn infer) {
  infer_ = std::move(infer);
  return *this;
}

OpDef& OpDef::ViewOf(ViewFn view) {
  view_ = std::move(view);
  return *this;
}

OpDef& OpDef::Elementwise() {
  is_elementwise_ = true;
  return *this;
}

OpDef& OpDef::Contraction() {
  is_contraction_ = true;
  return *this;
}

OpDef& OpDef::Effect() {
  has_effect_ = true;
  return *this;
}

OpDef& OpDef::RaisesByValues() {
  raises_by_values_ = true;
  return *this;
}

OpDef& OpDef::Label(absl::string_view param) {
  label_param_ = FindParam(param);
  CHECK_GE(label_param_, 0) << name() << " has no parameter " << param;
  return *this;
}

OpDef& OpDef::WritesPart(PartWrite part) {
  part_write_ = std::move(part);
  return *this;
}

OpDef& OpDef::Bounded() {
  is_bounded_ = true;
  return *this;
}

int OpDef::FindParam(absl::string_view name) const {
  for (size_t i = 0; i < schema_.params.size(); ++i) {
    if (schema_.params[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

absl::Status CheckArguments(const OpDef& def, const Arguments& arguments) {
  const std::vector<Param>& params = def.schema().params;
  if (arguments.size() != params.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(def.name(), ": wants ", params.size(), " arguments, got ",
                     arguments.size()));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    // A declared default is legal whatever its kind (a word for an int).
    if (params[i].has_default && arguments[i] == params[i].default_value) {
      continue;
    }
    if (!IsLegal(params[i], arguments[i], def.is_opaque())) {
      return absl::InvalidArgumentError(
          absl::StrCat(def.name(), ": argument '", params[i].name,
                       "' is of the wrong kind; wants ", ToText(def.schema())));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorTypes> InferTypes(const OpCall& call) {
  const OpDef& def = call.def();
  TensorTypes types;
  if (!def.is_view() && TakesComplex(call)) {
    return call.Wants("real numbers");
  }
  if (def.is_view()) {
    const TensorType& base = call.Type(0);
    absl::StatusOr<View> view = def.view()(call);
    if (!view.ok()) return view.status();
    types.push_back(TensorType{.dtype = view->dtype.value_or(base.dtype),
                               .dims = view->dims,
                               .strides = view->strides});
  } else {
    if (def.infer() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          def.name(), ": has no inference; its types must be given"));
    }
    absl::StatusOr<TensorTypes> inferred = def.infer()(call);
    if (!inferred.ok()) return inferred.status();
    types = *std::move(inferred);
  }
  for (const TensorType& type : types) {
    // A constant dtype may ask for one, such as that of aten.zeros.
    if (!def.is_view() && IsComplex(type.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          def.name(), ": wants a real dtype, got ", DTypeName(type.dtype)));
    }
    if (!HasLegalSize(type)) {
      return absl::InvalidArgumentError(absl::StrCat(
          def.name(), ": result too large or negative: ", type.ToString()));
    }
  }
  return types;
}

}  // namespace mica
