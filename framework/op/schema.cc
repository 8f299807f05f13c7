#include "framework/op/schema.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "framework/base/status.h"

namespace mica {
namespace {

struct KindWord {
  absl::string_view word;
  ParamKind kind;
  ParamKind list_kind;
};

// ATen's type words. kOpaque as a list kind: there is no such list.
constexpr std::array<KindWord, 17> kKindWords = {{
    {"Tensor", ParamKind::kTensor, ParamKind::kTensorList},
    {"Scalar", ParamKind::kScalar, ParamKind::kOpaque},
    {"int", ParamKind::kInt, ParamKind::kIntList},
    {"SymInt", ParamKind::kInt, ParamKind::kIntList},
    {"float", ParamKind::kFloat, ParamKind::kFloatList},
    {"bool", ParamKind::kBool, ParamKind::kBoolList},
    {"SymBool", ParamKind::kBool, ParamKind::kBoolList},
    {"str", ParamKind::kString, ParamKind::kOpaque},
    {"ScalarType", ParamKind::kDType, ParamKind::kOpaque},
    {"Layout", ParamKind::kString, ParamKind::kOpaque},
    {"MemoryFormat", ParamKind::kString, ParamKind::kOpaque},
    {"Device", ParamKind::kString, ParamKind::kOpaque},
    {"DeviceIndex", ParamKind::kInt, ParamKind::kOpaque},
    {"Generator", ParamKind::kOpaque, ParamKind::kOpaque},
    {"Dimname", ParamKind::kOpaque, ParamKind::kOpaque},
    {"Storage", ParamKind::kOpaque, ParamKind::kOpaque},
    {"Stream", ParamKind::kOpaque, ParamKind::kOpaque},
}};

constexpr absl::string_view kSizeWord = "SymInt";

bool IsWordChar(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Reads a schema from left to right.
class SchemaParser {
 public:
  explicit SchemaParser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Schema> Parse() {
    Schema schema;
    const size_t open = text_.find('(');
    if (open == absl::string_view::npos || open == 0) return Error("name(");
    schema.op = OpNameFromAten(text_.substr(0, open));
    position_ = open + 1;
    MICA_RETURN_IF_ERROR(ParseParams(schema.params));
    if (!Take("->")) return Error("->");
    MICA_RETURN_IF_ERROR(ParseResults(schema.results));
    SkipSpace();
    if (position_ != text_.size()) return Error("end");
    return schema;
  }

 private:
  // A type with its alias annotation: "Tensor(a!)?[]".
  struct Type {
    ParamKind kind = ParamKind::kTensor;
    bool is_optional = false;
    bool has_optional_elements = false;
    bool is_fixed_list = false;  // "int[2]": one number stands for all.
    std::string alias_set;
    bool is_mutated = false;
    bool is_size = false;
  };

  absl::Status ParseParams(std::vector<Param>& params) {
    if (Take(")")) return absl::OkStatus();
    while (true) {
      if (!Take("*")) {
        MICA_ASSIGN_OR_RETURN(Type type, ParseType());
        MICA_ASSIGN_OR_RETURN(Param param, ParseParam(type));
        params.push_back(std::move(param));
      }
      if (Take(")")) return absl::OkStatus();
      if (!Take(",")) return Error(", or )");
    }
  }

  absl::StatusOr<Param> ParseParam(const Type& type) {
    Param param{.name = Word(),
                .kind = type.kind,
                .is_optional = type.is_optional,
                .has_optional_elements = type.has_optional_elements,
                .alias_set = type.alias_set,
                .is_mutated = type.is_mutated,
                .is_size = type.is_size};
    if (param.name.empty()) return Error("a parameter's name");
    if (Take("=")) {
      MICA_ASSIGN_OR_RETURN(param.default_value, ParseDefault(type));
      param.has_default = true;
    }
    return param;
  }

  absl::Status ParseResults(std::vector<Result>& results) {
    if (!Take("(")) {
      MICA_ASSIGN_OR_RETURN(Type type, ParseType());
      results.push_back(MakeResult(type, ""));
      return absl::OkStatus();
    }
    if (Take(")")) return absl::OkStatus();
    while (true) {
      MICA_ASSIGN_OR_RETURN(Type type, ParseType());
      results.push_back(MakeResult(type, Word()));
      if (Take(")")) return absl::OkStatus();
      if (!Take(",")) return Error(", or )");
    }
  }

  static Result MakeResult(const Type& type, std::string name) {
    return Result{.name = std::move(name),
                  .kind = type.kind,
                  .alias_set = type.alias_set,
                  .is_mutated = type.is_mutated};
  }

  absl::StatusOr<Type> ParseType() {
    const std::string word = Word();
    const KindWord* kind_word = nullptr;
    for (const KindWord& candidate : kKindWords) {
      if (candidate.word == word) kind_word = &candidate;
    }
    if (kind_word == nullptr) return Error("a type");
    Type type{.kind = kind_word->kind, .is_size = word == kSizeWord};
    MICA_RETURN_IF_ERROR(ParseAlias(type));
    type.is_optional = TakeChar('?');
    if (TakeChar('[')) {
      type.has_optional_elements = std::exchange(type.is_optional, false);
      while (position_ < text_.size() &&
             absl::ascii_isdigit(text_[position_])) {
        ++position_;
        type.is_fixed_list = true;
      }
      if (!TakeChar(']')) return Error("]");
      type.kind = kind_word->list_kind;
      MICA_RETURN_IF_ERROR(ParseAlias(type));
      type.is_optional = TakeChar('?');
    }
    return type;
  }

  absl::Status ParseAlias(Type& type) {
    if (!TakeChar('(')) return absl::OkStatus();
    const size_t close = text_.find(')', position_);
    if (close == absl::string_view::npos) return Error(")");
    absl::string_view alias = text_.substr(position_, close - position_);
    position_ = close + 1;
    type.is_mutated = absl::StrContains(alias, "!");
    alias = alias.substr(0, alias.find("->"));
    type.alias_set =
        absl::StrReplaceAll(absl::StripAsciiWhitespace(alias), {{"!", ""}});
    return absl::OkStatus();
  }

  absl::StatusOr<Argument> ParseDefault(const Type& type) {
    SkipSpace();
    if (TakeChar('[')) return ParseListDefault(type.kind);
    if (position_ < text_.size() &&
        (text_[position_] == '"' || text_[position_] == '\'')) {
      const char quote = text_[position_++];
      const size_t end = text_.find(quote, position_);
      if (end == absl::string_view::npos) return Error("a closing quote");
      const absl::string_view body = text_.substr(position_, end - position_);
      position_ = end + 1;
      return Argument(std::string(body));
    }
    const std::string token = DefaultToken();
    if (token == "None") return Argument();
    if (token == "True") return Argument(true);
    if (token == "False") return Argument(false);
    return ParseNumberDefault(type.kind, token);
  }

  absl::StatusOr<Argument> ParseNumberDefault(ParamKind kind,
                                              const std::string& token) {
    int64_t integer = 0;
    double real = 0;
    if (token == "Mean") integer = 1;  // Reduction's enumerators, as in ATen.
    if (token == "Mean" || absl::SimpleAtoi(token, &integer)) {
      if (kind == ParamKind::kFloat) {
        return Argument(static_cast<double>(integer));
      }
      if (kind == ParamKind::kIntList) {
        return Argument(std::vector<int64_t>{integer});
      }
      return Argument(integer);
    }
    if (absl::SimpleAtod(token, &real)) return Argument(real);
    if (kind == ParamKind::kString || kind == ParamKind::kDType ||
        kind == ParamKind::kInt) {
      return Argument(token);  // "contiguous_format", "long".
    }
    return Error("a default value");
  }

  absl::StatusOr<Argument> ParseListDefault(ParamKind kind) {
    std::vector<std::string> tokens;
    while (!TakeChar(']')) {
      tokens.push_back(DefaultToken());
      if (tokens.back().empty()) return Error("a list entry");
      Take(",");
      SkipSpace();
    }
    if (kind == ParamKind::kBoolList) {
      std::vector<bool> bools;
      for (const std::string& token : tokens) bools.push_back(token == "True");
      return Argument(std::move(bools));
    }
    if (kind == ParamKind::kFloatList) {
      std::vector<double> reals(tokens.size());
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (!absl::SimpleAtod(tokens[i], &reals[i])) return Error("a float");
      }
      return Argument(std::move(reals));
    }
    if (kind == ParamKind::kTensorList) return Argument(ValueRefs());
    std::vector<int64_t> integers(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!absl::SimpleAtoi(tokens[i], &integers[i])) return Error("an int");
    }
    return Argument(std::move(integers));
  }

  std::string DefaultToken() {
    SkipSpace();
    const size_t begin = position_;
    while (position_ < text_.size() &&
           absl::string_view(",)] ").find(text_[position_]) ==
               absl::string_view::npos) {
      ++position_;
    }
    return std::string(text_.substr(begin, position_ - begin));
  }

  std::string Word() {
    SkipSpace();
    const size_t begin = position_;
    while (position_ < text_.size() && IsWordChar(text_[position_])) {
      ++position_;
    }
    return std::string(text_.substr(begin, position_ - begin));
  }

  void SkipSpace() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }

  bool Take(absl::string_view token) {
    SkipSpace();
    if (!absl::StartsWith(text_.substr(position_), token)) return false;
    position_ += token.size();
    return true;
  }

  bool TakeChar(char c) {
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  absl::Status Error(absl::string_view wanted) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "schema '", text_, "': wants ", wanted, " at column ", position_ + 1));
  }

  absl::string_view text_;
  size_t position_ = 0;
};

absl::string_view KindText(ParamKind kind) {
  switch (kind) {
    case ParamKind::kTensor:
    case ParamKind::kTensorList:
      return "Tensor";
    case ParamKind::kScalar:
      return "Scalar";
    case ParamKind::kInt:
    case ParamKind::kIntList:
      return "int";
    case ParamKind::kFloat:
    case ParamKind::kFloatList:
      return "float";
    case ParamKind::kBool:
    case ParamKind::kBoolList:
      return "bool";
    case ParamKind::kString:
      return "str";
    case ParamKind::kDType:
      return "ScalarType";
    case ParamKind::kOpaque:
      return "Generator";
  }
  return "";
}

bool IsList(ParamKind kind) {
  return kind == ParamKind::kTensorList || kind == ParamKind::kIntList ||
         kind == ParamKind::kFloatList || kind == ParamKind::kBoolList;
}

// The word of a type, with what follows it.
std::string TypeText(absl::string_view word, ParamKind kind,
                     absl::string_view alias_set, bool is_mutated,
                     bool is_optional, bool has_optional_elements) {
  std::string text(word);
  if (!alias_set.empty()) {
    absl::StrAppend(&text, "(", alias_set, is_mutated ? "!" : "", ")");
  }
  if (IsList(kind))
    absl::StrAppend(&text, has_optional_elements ? "?" : "", "[]");
  if (is_optional) absl::StrAppend(&text, "?");
  return text;
}

// The shortest decimal that reads back to `value`.
std::string RealText(double value) {
  for (int digits = 1; digits <= 17; ++digits) {
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
    double back = 0;
    if (absl::SimpleAtod(buffer, &back) && back == value) {
      std::string text(buffer);
      const bool is_plain = text.find_first_of(".enif") == std::string::npos;
      return is_plain ? text + ".0" : text;
    }
  }
  return absl::StrCat(value);
}

struct DefaultText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(ValueRef) const { return "None"; }
  std::string operator()(const ValueRefs&) const { return "[]"; }
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return RealText(value); }
  // ParseDefault() yields none.
  std::string operator()(std::complex<double>) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(DType value) const {
    return std::string(DTypeName(value));
  }
  std::string operator()(const std::string& value) const {
    return absl::StrCat("\"", value, "\"");
  }
  std::string operator()(const std::vector<int64_t>& values) const {
    return absl::StrCat("[", absl::StrJoin(values, ", "), "]");
  }
  std::string operator()(const std::vector<double>& values) const {
    auto append = [](std::string* out, double value) {
      absl::StrAppend(out, RealText(value));
    };
    return absl::StrCat("[", absl::StrJoin(values, ", ", append), "]");
  }
  std::string operator()(const std::vector<bool>& values) const {
    auto append = [](std::string* out, bool value) {
      absl::StrAppend(out, value ? "True" : "False");
    };
    return absl::StrCat("[", absl::StrJoin(values, ", ", append), "]");
  }
};

std::string ParamText(const Param& param) {
  std::string text =
      absl::StrCat(TypeText(param.is_size ? kSizeWord : KindText(param.kind),
                            param.kind, param.alias_set, param.is_mutated,
                            param.is_optional, param.has_optional_elements),
                   " ", param.name);
  if (param.has_default) {
    absl::StrAppend(&text, "=", std::visit(DefaultText(), param.default_value));
  }
  return text;
}

}  // namespace

absl::StatusOr<Schema> ParseSchema(absl::string_view text) {
  return SchemaParser(text).Parse();
}

std::string ToText(const Schema& schema) {
  const size_t dot = schema.op.find('.');
  const std::string name = absl::StrCat(
      schema.op.substr(0, dot),
      "::", dot == std::string::npos ? "" : schema.op.substr(dot + 1));
  auto append_param = [](std::string* out, const Param& param) {
    absl::StrAppend(out, ParamText(param));
  };
  auto append_result = [](std::string* out, const Result& result) {
    absl::StrAppend(out, TypeText(KindText(result.kind), result.kind,
                                  result.alias_set, result.is_mutated,
                                  /*is_optional=*/false,
                                  /*has_optional_elements=*/false));
    if (!result.name.empty()) absl::StrAppend(out, " ", result.name);
  };
  const bool is_single =
      schema.results.size() == 1 && schema.results[0].name.empty();
  const std::string results =
      absl::StrJoin(schema.results, ", ", append_result);
  return absl::StrCat(name, "(",
                      absl::StrJoin(schema.params, ", ", append_param), ") -> ",
                      is_single ? results : "(" + results + ")");
}

std::string OpNameFromAten(absl::string_view aten_name) {
  std::string name = absl::StrReplaceAll(aten_name, {{"::", "."}});
  if (absl::EndsWith(name, ".default")) name.resize(name.size() - 8);
  return name;
}

}  // namespace mica
