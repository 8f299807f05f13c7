#include <complex>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/base/same_bits.h"
#include "framework/ir/control_flow.h"
#include "framework/text/literal.h"
#include "framework/text/text.h"

namespace mica {
namespace {

// Constants of more elements that are all equal are printed as one.
constexpr int64_t kLongestList = 8;

bool SameArgument(const Argument& a, const Argument& b) {
  const auto* a_float = std::get_if<double>(&a);
  const auto* b_float = std::get_if<double>(&b);
  if (a_float && b_float) return SameBits(*a_float, *b_float);
  const auto* a_complex = std::get_if<std::complex<double>>(&a);
  const auto* b_complex = std::get_if<std::complex<double>>(&b);
  if (a_complex && b_complex) return SameBits(*a_complex, *b_complex);
  const auto* a_list = std::get_if<std::vector<double>>(&a);
  const auto* b_list = std::get_if<std::vector<double>>(&b);
  if (!a_list || !b_list) return a == b;
  return std::equal(a_list->begin(), a_list->end(), b_list->begin(),
                    b_list->end(),
                    [](double x, double y) { return SameBits(x, y); });
}

bool AllElementsEqual(const std::vector<uint8_t>& bytes, int64_t element) {
  return std::memcmp(bytes.data(), bytes.data() + element,
                     bytes.size() - element) == 0;
}

// What functions are called, each in its own way.
using FunctionNames = absl::flat_hash_map<const Program*, std::string>;

class Printer {
 public:
  Printer(const Program& program, const TextOptions& options,
          const FunctionNames& functions, int depth = 0)
      : program_(program),
        options_(options),
        functions_(functions),
        indent_(4 * depth, ' ') {}

  std::string Print() {
    out_.append("program ");
    AppendTitle(program_.name());
    AppendBlock();
    return std::move(out_);
  }

  std::string PrintFunction() {
    out_.append("function ");
    AppendTitle(functions_.at(&program_));
    AppendBlock();
    return std::move(out_);
  }

  // A body of a branch or a loop.
  std::string PrintBody(absl::string_view name) {
    absl::StrAppend(&out_, indent_, name);
    AppendBlock();
    return std::move(out_);
  }

 private:
  void AppendBlock() {
    AppendInputs();
    for (const OpDef* def : program_.OpaqueDefs()) {
      AppendIndent();
      out_.append("opaque ");
      AppendQuoted(ToText(def->schema()), &out_);
      out_.push_back('\n');
    }
    for (const Variable& variable : program_.variables()) {
      AppendVariable(variable);
    }
    for (const Constant& constant : program_.constants()) {
      AppendConstant(constant);
    }
    for (const Op& op : program_.ops()) AppendOp(op);
    for (const Update& update : program_.updates()) AppendUpdate(update);
    AppendIndent();
    out_.append("return");
    AppendList(program_.outputs(), " ", [this](ValueId id) { AppendName(id); });
    absl::StrAppend(&out_, "\n", indent_, "}\n");
  }

  // Before a statement.
  void AppendIndent() { absl::StrAppend(&out_, indent_, "  "); }

  // Calls `append` for each item, with `prefix` before the first and ", "
  // between two.
  template <typename Items, typename Append>
  void AppendList(const Items& items, absl::string_view prefix, Append append) {
    absl::string_view separator = prefix;
    for (const auto& item : items) {
      out_.append(separator.data(), separator.size());
      append(item);
      separator = ", ";
    }
  }

  template <typename Items, typename Append>
  void AppendBracketed(const Items& items, Append append) {
    out_.push_back('[');
    AppendList(items, "", append);
    out_.push_back(']');
  }

  void AppendTitle(const std::string& name) {
    out_.push_back('@');
    if (IsWord(name)) {
      out_.append(name);
    } else {
      AppendQuoted(name, &out_);
    }
  }

  void AppendName(ValueId id) {
    if (id == kNoValue) {
      out_.append("none");
      return;
    }
    const std::string& name = program_.value(id).name;
    out_.push_back('%');
    // Names that are numbers need no quotes: the "%" tells them apart.
    if (IsWord(absl::StrCat("_", name)) && !name.empty()) {
      out_.append(name);
    } else {
      AppendQuoted(name, &out_);
    }
  }

  void AppendDim(Dim dim) {
    if (IsSymbol(dim)) {
      AppendSymbol(DimToString(dim), &out_);
    } else {
      absl::StrAppend(&out_, dim);
    }
  }

  void AppendDims(const Dims& dims, char open, char close) {
    out_.push_back(open);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i > 0) out_.push_back(',');
      AppendDim(dims[i]);
    }
    out_.push_back(close);
  }

  void AppendType(const TensorType& type) {
    absl::StrAppend(&out_, DTypeName(type.dtype));
    if (type.is_scalar) return;
    AppendDims(type.dims, '[', ']');
    if (type.strides.empty()) return;
    if (type.is_static() && type.is_row_major()) return;
    AppendDims(type.strides, '{', '}');
  }

  void AppendTyped(ValueId id) {
    AppendName(id);
    out_.append(": ");
    AppendType(program_.type(id));
  }

  void AppendInputs() {
    out_.push_back('(');
    AppendList(program_.inputs(), "", [this](ValueId id) { AppendTyped(id); });
    out_.append(") {\n");
  }

  void AppendVariable(const Variable& variable) {
    AppendIndent();
    AppendName(variable.value);
    out_.append(" = variable ");
    AppendQuoted(variable.name, &out_);
    out_.append(" : ");
    AppendType(program_.type(variable.value));
    out_.push_back('\n');
  }

  void AppendConstant(const Constant& constant) {
    const TensorType& type = program_.type(constant.value);
    const int64_t element = ElementBytes(type.dtype);
    const int64_t count = static_cast<int64_t>(constant.bytes.size()) / element;
    const uint8_t* bytes = constant.bytes.data();
    AppendIndent();
    AppendName(constant.value);
    out_.append(" = constant ");
    if (type.is_scalar) {
      AppendElement(type.dtype, bytes, &out_);
    } else if (count > kLongestList &&
               AllElementsEqual(constant.bytes, element)) {
      out_.append("splat ");
      AppendElement(type.dtype, bytes, &out_);
    } else {
      out_.push_back('[');
      for (int64_t i = 0; i < count; ++i) {
        if (i > 0) out_.append(", ");
        AppendElement(type.dtype, bytes + i * element, &out_);
      }
      out_.push_back(']');
    }
    out_.append(" : ");
    AppendType(type);
    out_.push_back('\n');
  }

  void Append(std::monostate) { out_.append("none"); }
  void Append(ValueRef ref) { AppendName(ref.id); }
  void Append(int64_t number) { AppendDim(number); }
  void Append(double number) { AppendFloat(number, &out_); }
  void Append(std::complex<double> number) { AppendComplex(number, &out_); }
  void Append(bool flag) { out_.append(flag ? "true" : "false"); }
  void Append(DType dtype) { absl::StrAppend(&out_, DTypeName(dtype)); }
  void Append(const std::string& text) { AppendQuoted(text, &out_); }
  void Append(const ValueRefs& refs) {
    AppendBracketed(refs, [this](ValueRef ref) { AppendName(ref.id); });
  }
  void Append(const std::vector<int64_t>& numbers) {
    AppendBracketed(numbers, [this](int64_t number) { AppendDim(number); });
  }
  void Append(const std::vector<double>& numbers) {
    AppendBracketed(numbers, [this](double number) { Append(number); });
  }
  void Append(const std::vector<bool>& flags) {
    AppendBracketed(flags, [this](bool flag) { Append(flag); });
  }

  // Parameters up to the first with a default are given by position, later
  // ones by name, and left out where they have the default.
  void AppendArguments(const Op& op) {
    const std::vector<Param>& params = op.def->schema().params;
    absl::string_view separator = "";
    bool is_named = false;
    for (size_t i = 0; i < params.size(); ++i) {
      is_named = is_named || params[i].has_default;
      if (params[i].has_default &&
          SameArgument(op.arguments[i], params[i].default_value)) {
        continue;
      }
      absl::StrAppend(&out_, separator, is_named ? params[i].name : "",
                      is_named ? "=" : "");
      std::visit([this](const auto& argument) { Append(argument); },
                 op.arguments[i]);
      separator = ", ";
    }
  }

  void AppendOp(const Op& op) {
    AppendIndent();
    AppendList(op.results, "", [this](ValueId id) { AppendName(id); });
    if (!op.results.empty()) out_.append(" = ");
    out_.append(op.def->name());
    const bool is_call = ControlKindOf(*op.def) == ControlKind::kCall;
    if (is_call) {
      out_.push_back(' ');
      AppendTitle(functions_.at(op.bodies[0].get()));
      out_.push_back('(');
      AppendList(BodyOperands(op), "", [this](ValueId id) { AppendName(id); });
    } else {
      out_.push_back('(');
      AppendArguments(op);
    }
    out_.push_back(')');
    AppendList(op.results, " : ",
               [this](ValueId id) { AppendType(program_.type(id)); });
    if (options_.print_sources && op.source.line > 0 && op.source.file) {
      out_.append(" @ ");
      AppendQuoted(*op.source.file, &out_);
      absl::StrAppend(&out_, ":", op.source.line);
    }
    if (options_.print_sources && (op.source.scope || op.source.is_backward)) {
      out_.append(op.source.is_backward ? " backward " : " in ");
      AppendQuoted(op.source.scope ? *op.source.scope : "", &out_);
    }
    out_.push_back('\n');
    if (!is_call) AppendBodies(op);
  }

  void AppendBodies(const Op& op) {
    const int depth = static_cast<int>(indent_.size()) / 4 + 1;
    for (size_t i = 0; i < op.bodies.size(); ++i) {
      out_.append(Printer(*op.bodies[i], options_, functions_, depth)
                      .PrintBody(BodyNames(ControlKindOf(*op.def))[i]));
    }
  }

  void AppendUpdate(const Update& update) {
    const Value& target = program_.value(update.target);
    AppendIndent();
    out_.append("update ");
    if (target.kind == ValueKind::kVariable) {
      AppendQuoted(program_.variables()[target.index].name, &out_);
    } else {
      AppendName(update.target);
    }
    out_.append(" = ");
    AppendName(update.value);
    out_.push_back('\n');
  }

  const Program& program_;
  const TextOptions& options_;
  const FunctionNames& functions_;
  const std::string indent_;  // Of the block's last line.
  std::string out_;
};

}  // namespace

std::string ToText(const Program& program, const TextOptions& options) {
  const std::vector<const Program*> functions = FunctionsOf(program);
  FunctionNames names;
  absl::flat_hash_set<std::string> taken;
  for (const Program* function : functions) {
    std::string name = function->name();
    for (int i = 2; !taken.insert(name).second; ++i) {
      name = absl::StrCat(function->name(), ".", i);
    }
    names.emplace(function, std::move(name));
  }
  std::string text;
  for (const Program* function : functions) {
    text.append(Printer(*function, options, names).PrintFunction());
  }
  return text.append(Printer(program, options, names).Print());
}

}  // namespace mica
