#include "framework/text/argument_parser.h"

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status.h"
#include "framework/text/lexer.h"
#include "framework/text/literal.h"
#include "framework/text/param_kinds.h"

namespace mica {
namespace {

bool IsFloatNumber(const Token& token) {
  return token.text.find_first_of(".en") != absl::string_view::npos;
}

}  // namespace

absl::StatusOr<ValueId> ArgumentParser::ParseUse() {
  const size_t offset = tokens_.current().offset;
  ValueId id = kNoValue;
  if (tokens_.current().kind == TokenKind::kName) {
    id = builder_->FindValue(tokens_.Advance().text);
  } else {
    MICA_ASSIGN_OR_RETURN(std::string name, tokens_.ParseName());
    id = builder_->FindValue(name);
  }
  if (id != kNoValue) return id;
  const Token name = tokens_.LexerAt(offset).Next();
  return tokens_.OpErrorAt(
      offset, absl::StrCat(Describe(name), " is not defined before its use"));
}

absl::StatusOr<Argument> ArgumentParser::ParseOperands() {
  MICA_RETURN_IF_ERROR(tokens_.Expect('('));
  ValueRefs operands;
  while (!tokens_.Take(')')) {
    if (!operands.empty()) MICA_RETURN_IF_ERROR(tokens_.Expect(','));
    MICA_ASSIGN_OR_RETURN(const ValueId id, ParseUse());
    operands.push_back(ValueRef{id});
  }
  return Argument(std::move(operands));
}

absl::Status ArgumentParser::ParseArguments(const OpDef& op,
                                            Arguments* arguments) {
  const std::vector<Param>& params = op.schema().params;
  const size_t offset = tokens_.current().offset;
  MICA_RETURN_IF_ERROR(tokens_.Expect('('));
  arguments->resize(params.size());
  given_.assign(params.size(), false);
  size_t position = 0;
  bool is_named = false;
  while (!tokens_.Take(')')) {
    if (position > 0 || is_named) MICA_RETURN_IF_ERROR(tokens_.Expect(','));
    size_t param = position;
    const Token word = tokens_.current();
    // A word is a parameter's name if "=" follows it.
    if (word.kind == TokenKind::kWord && tokens_.PeekNext().Is('=')) {
      const int found = op.FindParam(word.text);
      if (found < 0) return tokens_.Wants("one of its parameters");
      if (given_[found]) return tokens_.Wants("each argument once");
      tokens_.Advance();
      tokens_.Advance();
      is_named = true;
      param = found;
    } else if (is_named || position >= params.size()) {
      return tokens_.Wants(
          is_named ? "name=value after the first of that form"
                   : absl::StrCat("at most ", params.size(), " arguments"));
    } else {
      ++position;
    }
    given_[param] = true;
    MICA_ASSIGN_OR_RETURN((*arguments)[param], ParseArgument(params[param]));
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (given_[i]) continue;
    if (!params[i].has_default && !params[i].is_optional) {
      return tokens_.ErrorAt(
          offset, absl::StrCat(op.name(), ": wants ", KindText(params[i]),
                               " for ", params[i].name, ", got nothing"));
    }
    (*arguments)[i] = params[i].default_value;
  }
  return absl::OkStatus();
}

absl::Status ArgumentParser::WantsFor(const Param& param) const {
  return tokens_.Wants(absl::StrCat(KindText(param),
                                    param.is_optional ? " or none" : "",
                                    " for ", param.name));
}

// None of the kinds but lists, dtypes and symbols depends on the parameter:
// whether the argument fits it is CheckArguments' to say.
absl::StatusOr<Argument> ArgumentParser::ParseArgument(const Param& param) {
  if (IsSymbolFor(param)) {
    MICA_ASSIGN_OR_RETURN(const Dim symbol, tokens_.ParseDim("a symbol"));
    return Argument(symbol);
  }
  switch (tokens_.current().kind) {
    case TokenKind::kName:
    case TokenKind::kQuotedName: {
      MICA_ASSIGN_OR_RETURN(ValueId id, ParseUse());
      return Argument(ValueRef{id});
    }
    case TokenKind::kString: {
      MICA_ASSIGN_OR_RETURN(std::string text,
                            tokens_.Unquote(tokens_.Advance()));
      return Argument(std::move(text));
    }
    case TokenKind::kNumber:
      return ParseNumber(param);
    case TokenKind::kWord:
      return ParseWord(param);
    default:
      if (tokens_.current().Is('[')) return ParseList(param);
      return WantsFor(param);
  }
}

bool ArgumentParser::IsSymbolFor(const Param& param) const {
  if (param.kind != ParamKind::kInt && param.kind != ParamKind::kScalar &&
      param.kind != ParamKind::kFloat) {
    return false;
  }
  const Token& token = tokens_.current();
  return token.kind == TokenKind::kString ||
         (token.kind == TokenKind::kWord && !IsReservedWord(token.text) &&
          !ParseDType(token.text).has_value());
}

absl::StatusOr<Argument> ArgumentParser::ParseNumber(const Param& param) {
  Argument argument;
  if (absl::StartsWith(tokens_.current().text, "complex")) {
    const std::optional<std::complex<double>> number =
        ParseComplex(tokens_.current().text);
    if (!number.has_value()) return WantsFor(param);
    argument = *number;
  } else if (IsFloatNumber(tokens_.current())) {
    const std::optional<double> number = ParseFloat(tokens_.current().text);
    if (!number.has_value()) return WantsFor(param);
    argument = *number;
  } else {
    const std::optional<int64_t> number = ParseInt(tokens_.current().text);
    if (!number.has_value() || IsSymbol(*number)) return WantsFor(param);
    argument = *number;
  }
  tokens_.Advance();
  return argument;
}

absl::StatusOr<Argument> ArgumentParser::ParseWord(const Param& param) {
  Argument argument;
  if (tokens_.current().text == "true" || tokens_.current().text == "false") {
    argument = tokens_.current().text == "true";
  } else if (tokens_.current().text == "inf" ||
             tokens_.current().text == "nan") {
    argument = *ParseFloat(tokens_.current().text);
  } else if (tokens_.current().text != "none") {
    const std::optional<DType> dtype = ParseDType(tokens_.current().text);
    if (!dtype.has_value()) return WantsFor(param);
    argument = *dtype;
  }
  tokens_.Advance();
  return argument;
}

template <typename List, typename ParseItem>
absl::StatusOr<Argument> ArgumentParser::ParseItems(ParseItem parse_item) {
  tokens_.Advance();
  List list;
  while (!tokens_.Take(']')) {
    if (!list.empty()) MICA_RETURN_IF_ERROR(tokens_.Expect(','));
    MICA_ASSIGN_OR_RETURN(auto item, parse_item());
    list.push_back(std::move(item));
  }
  return Argument(std::move(list));
}

absl::StatusOr<Argument> ArgumentParser::ParseList(const Param& param) {
  switch (param.kind) {
    case ParamKind::kTensorList:
      return ParseItems<ValueRefs>([&]() -> absl::StatusOr<ValueRef> {
        if (tokens_.current().IsWord("none")) {
          tokens_.Advance();
          return ValueRef{kNoValue};
        }
        MICA_ASSIGN_OR_RETURN(ValueId id, ParseUse());
        return ValueRef{id};
      });
    case ParamKind::kIntList:
      return ParseItems<std::vector<int64_t>>(
          [&] { return tokens_.ParseDim("an integer or a symbol"); });
    case ParamKind::kFloatList:
      return ParseItems<std::vector<double>>([&]() -> absl::StatusOr<double> {
        const bool is_number = tokens_.current().kind == TokenKind::kNumber ||
                               tokens_.current().kind == TokenKind::kWord;
        const std::optional<double> number =
            is_number ? ParseFloat(tokens_.current().text) : std::nullopt;
        if (!number.has_value()) return tokens_.Wants("a float");
        tokens_.Advance();
        return *number;
      });
    case ParamKind::kBoolList:
      return ParseItems<std::vector<bool>>([&]() -> absl::StatusOr<bool> {
        if (!tokens_.current().IsWord("true") &&
            !tokens_.current().IsWord("false")) {
          return tokens_.Wants("true or false");
        }
        return tokens_.Advance().text == "true";
      });
    default:
      return WantsFor(param);
  }
}

}  // namespace mica
