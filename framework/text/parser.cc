#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ir/program_builder.h"
#include "framework/text/lexer.h"
#include "framework/text/literal.h"
#include "framework/text/text.h"

namespace mica {
namespace {

// As in torch.
constexpr size_t kMaxRank = 64;
// Symbols live as long as the process, so that a text may not make many.
constexpr size_t kMaxSymbols = 10'000;
// What all "splat" constants of a text may take: of other constants the text
// itself holds every element.
constexpr int64_t kMaxSplatBytes = int64_t{256} << 20;

bool IsFloatNumber(const Token& token) {
  return token.text.find_first_of(".en") != absl::string_view::npos;
}

absl::string_view KindText(const Param& param) {
  switch (param.kind) {
    case ParamKind::kTensor:
      return "a tensor";
    case ParamKind::kTensorList:
      return "a list of tensors";
    case ParamKind::kScalar:
      return "a number or a host scalar";
    case ParamKind::kInt:
      return "an integer";
    case ParamKind::kIntList:
      return "a list of integers";
    case ParamKind::kFloat:
      return "a float";
    case ParamKind::kFloatList:
      return "a list of floats";
    case ParamKind::kBool:
      return "true or false";
    case ParamKind::kBoolList:
      return "a list of true and false";
    case ParamKind::kString:
      return "a string";
    case ParamKind::kDType:
      return "a dtype";
    case ParamKind::kOpaque:
      return "none";
  }
  return "";
}

// Reads one Program, statement by statement, looking one token ahead. Nothing
// in the grammar nests but lists in argument lists, so that nothing recurses.
class Parser {
 public:
  Parser(absl::string_view text, const OpRegistry& registry)
      : text_(text), registry_(registry), lexer_(text) {
    Advance();
  }

  absl::StatusOr<Program> Parse() {
    MICA_RETURN_IF_ERROR(ParseHeader());
    while (!current_.IsWord("return")) MICA_RETURN_IF_ERROR(ParseStatement());
    return ParseReturn();
  }

 private:
  // Tokens.

  Token Advance() {
    Token token = current_;
    current_ = lexer_.Next();
    return token;
  }

  bool Take(char punctuation) {
    if (!current_.Is(punctuation)) return false;
    Advance();
    return true;
  }

  absl::Status ErrorAt(
      size_t offset, absl::string_view message,
      absl::StatusCode code = absl::StatusCode::kInvalidArgument) const {
    return absl::Status(
        code, absl::StrCat(LineAndColumn(text_, offset), ": ", message));
  }

  // The place and, inside an op, its name before a message from elsewhere.
  absl::Status At(size_t offset, const absl::Status& status) const {
    if (status.ok()) return status;
    return ErrorAt(offset, status.message(), status.code());
  }

  absl::Status Wants(absl::string_view wanted) const {
    return ErrorAt(current_.offset,
                   absl::StrCat(op_ == nullptr ? "" : op_->name(),
                                op_ == nullptr ? "" : ": ", "wants ", wanted,
                                ", got ", Describe(current_)));
  }

  absl::Status Expect(char punctuation) {
    if (Take(punctuation)) return absl::OkStatus();
    return Wants(absl::StrCat("'", std::string(1, punctuation), "'"));
  }

  absl::Status ExpectWord(absl::string_view word) {
    if (!current_.IsWord(word)) return Wants(absl::StrCat("'", word, "'"));
    Advance();
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Unquote(const Token& token) const {
    std::optional<std::string> text = Unescape(token.text);
    if (!text.has_value()) {
      return ErrorAt(token.offset,
                     absl::StrCat("unknown escape in ", Describe(token)));
    }
    return *std::move(text);
  }

  absl::StatusOr<std::string> ParseString(absl::string_view what) {
    if (current_.kind != TokenKind::kString) return Wants(what);
    return Unquote(Advance());
  }

  // A name after "%" as it is defined or used.
  absl::StatusOr<std::string> ParseName() {
    if (current_.kind == TokenKind::kName) return std::string(Advance().text);
    if (current_.kind != TokenKind::kQuotedName) return Wants("a %name");
    const size_t offset = current_.offset;
    MICA_ASSIGN_OR_RETURN(std::string name, Unquote(Advance()));
    if (name.empty()) return ErrorAt(offset, "a value's name is empty");
    return name;
  }

  absl::StatusOr<ValueId> ParseUse() {
    const size_t offset = current_.offset;
    ValueId id = kNoValue;
    if (current_.kind == TokenKind::kName) {
      id = builder_->FindValue(Advance().text);
    } else {
      MICA_ASSIGN_OR_RETURN(std::string name, ParseName());
      id = builder_->FindValue(name);
    }
    if (id != kNoValue) return id;
    const Token name = Lexer(text_, offset).Next();
    return ErrorAt(offset,
                   absl::StrCat(op_ == nullptr ? "" : op_->name(),
                                op_ == nullptr ? "" : ": ", Describe(name),
                                " is not defined before its use"));
  }

  // Types.

  absl::StatusOr<Dim> ParseSymbol() {
    std::string name(current_.text);
    if (current_.kind == TokenKind::kString) {
      MICA_ASSIGN_OR_RETURN(name, Unquote(current_));
    }
    if (symbols_.insert(name).second && symbols_.size() > kMaxSymbols) {
      return ErrorAt(current_.offset,
                     absl::StrCat("more than ", kMaxSymbols, " symbols"));
    }
    Advance();
    return SymbolDim(name);
  }

  // An integer or a symbol.
  absl::StatusOr<int64_t> ParseDimOrInt(absl::string_view what) {
    if (current_.kind == TokenKind::kWord ||
        current_.kind == TokenKind::kString) {
      return ParseSymbol();
    }
    if (current_.kind != TokenKind::kNumber) return Wants(what);
    const std::optional<int64_t> number = ParseInt(current_.text);
    // The lowest integers stand for symbols.
    if (!number.has_value() || IsSymbol(*number)) return Wants(what);
    Advance();
    return *number;
  }

  absl::Status ParseDims(char open, char close, Dims* dims) {
    MICA_RETURN_IF_ERROR(Expect(open));
    while (!Take(close)) {
      if (!dims->empty()) MICA_RETURN_IF_ERROR(Expect(','));
      if (dims->size() == kMaxRank) {
        return ErrorAt(current_.offset,
                       absl::StrCat("more than ", kMaxRank, " dims"));
      }
      MICA_ASSIGN_OR_RETURN(Dim dim, ParseDimOrInt("a dim"));
      dims->push_back(dim);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TensorType> ParseType() {
    const size_t offset = current_.offset;
    const std::optional<DType> dtype = current_.kind == TokenKind::kWord
                                           ? ParseDType(current_.text)
                                           : std::nullopt;
    if (!dtype.has_value()) return Wants("a type, such as f32[2,3]");
    Advance();
    if (!current_.Is('[')) return ScalarType(*dtype);
    TensorType type{.dtype = *dtype};
    MICA_RETURN_IF_ERROR(ParseDims('[', ']', &type.dims));
    if (current_.Is('{')) {
      MICA_RETURN_IF_ERROR(ParseDims('{', '}', &type.strides));
      if (type.strides.size() != type.dims.size()) {
        return ErrorAt(offset,
                       absl::StrCat("wants ", type.rank(), " strides, got ",
                                    type.strides.size()));
      }
      if (std::any_of(type.strides.begin(), type.strides.end(), IsSymbol)) {
        return ErrorAt(offset, "strides can't be symbols");
      }
    }
    if (!HasLegalSize(type)) {
      return ErrorAt(offset, absl::StrCat("a size that is negative or above ",
                                          kMaxTensorBytes, " bytes"));
    }
    return type;
  }

  // Statements.

  absl::Status ParseHeader() {
    MICA_RETURN_IF_ERROR(ExpectWord("program"));
    MICA_RETURN_IF_ERROR(Expect('@'));
    std::string name;
    if (current_.kind == TokenKind::kWord) {
      name = std::string(Advance().text);
    } else {
      MICA_ASSIGN_OR_RETURN(name, ParseString("the program's name"));
    }
    builder_.emplace(registry_, name);
    MICA_RETURN_IF_ERROR(Expect('('));
    bool is_first = true;
    while (!Take(')')) {
      if (!is_first) MICA_RETURN_IF_ERROR(Expect(','));
      is_first = false;
      MICA_RETURN_IF_ERROR(ParseInput());
    }
    return Expect('{');
  }

  absl::Status ParseInput() {
    const size_t offset = current_.offset;
    MICA_ASSIGN_OR_RETURN(std::string name, ParseName());
    MICA_RETURN_IF_ERROR(Expect(':'));
    MICA_ASSIGN_OR_RETURN(TensorType type, ParseType());
    return At(offset, builder_->AddInput(name, std::move(type)).status());
  }

  absl::Status ParseStatement() {
    op_ = nullptr;
    if (current_.IsWord("opaque")) return ParseOpaque();
    if (current_.IsWord("update")) return ParseUpdate();
    names_.clear();
    if (current_.kind == TokenKind::kWord) return ParseOp();
    const size_t offset = current_.offset;
    do {
      if (current_.kind != TokenKind::kName &&
          current_.kind != TokenKind::kQuotedName) {
        return Wants("a statement: %name = …, update, opaque or return");
      }
      MICA_ASSIGN_OR_RETURN(std::string name, ParseName());
      names_.push_back(std::move(name));
    } while (Take(','));
    MICA_RETURN_IF_ERROR(Expect('='));
    const bool is_variable = current_.IsWord("variable");
    if (!is_variable && !current_.IsWord("constant")) return ParseOp();
    if (names_.size() != 1) return ErrorAt(offset, "one name too many");
    Advance();
    return is_variable ? ParseVariable(offset) : ParseConstant(offset);
  }

  absl::Status ParseOpaque() {
    Advance();
    const size_t offset = current_.offset;
    MICA_ASSIGN_OR_RETURN(std::string text, ParseString("a schema in quotes"));
    absl::StatusOr<Schema> schema = ParseSchema(text);
    if (!schema.ok()) return At(offset, schema.status());
    bool is_legal = IsWord(schema->op) && absl::StrContains(schema->op, ".");
    absl::flat_hash_set<absl::string_view> params;
    for (const Param& param : schema->params) {
      is_legal =
          is_legal && IsWord(param.name) && params.insert(param.name).second;
    }
    if (!is_legal) {
      return ErrorAt(offset, absl::StrCat(schema->op,
                                          ": wants names of letters and "
                                          "digits, each of them once"));
    }
    return At(offset, builder_->DeclareOpaque(*std::move(schema)));
  }

  absl::Status ParseVariable(size_t offset) {
    MICA_ASSIGN_OR_RETURN(std::string name, ParseString("a variable's name"));
    MICA_RETURN_IF_ERROR(Expect(':'));
    MICA_ASSIGN_OR_RETURN(TensorType type, ParseType());
    absl::StatusOr<ValueId> id =
        builder_->AddVariable(names_[0], name, std::move(type));
    if (!id.ok()) return At(offset, id.status());
    variables_.emplace(std::move(name), *id);
    return absl::OkStatus();
  }

  // The elements can be read only once their type, which follows them, is
  // known: they are skipped first and read by a second Lexer then.
  absl::Status ParseConstant(size_t offset) {
    const bool is_splat = current_.IsWord("splat");
    if (is_splat) Advance();
    const bool is_list = !is_splat && current_.Is('[');
    Lexer elements(text_, current_.offset + (is_list ? 1 : 0));
    int64_t count = 0;
    MICA_RETURN_IF_ERROR(is_list ? SkipElements(&count) : SkipElement());
    MICA_RETURN_IF_ERROR(Expect(':'));
    const size_t type_offset = current_.offset;
    MICA_ASSIGN_OR_RETURN(TensorType type, ParseType());
    if (!type.is_static() || type.is_scalar == (is_list || is_splat) ||
        (is_list && type.num_elements() != count)) {
      return ErrorAt(
          type_offset,
          absl::StrCat(
              "constant: wants a value for each element of the type, got ",
              type.ToString(), " for ",
              is_list    ? absl::StrCat("a list of ", count)
              : is_splat ? "a splat"
                         : "a number"));
    }
    if (is_splat && (splat_bytes_ += type.num_bytes()) > kMaxSplatBytes) {
      return ErrorAt(type_offset,
                     absl::StrCat("constant: splats take more than ",
                                  kMaxSplatBytes, " bytes"));
    }
    std::vector<uint8_t> bytes(type.num_bytes());
    MICA_RETURN_IF_ERROR(ReadElements(
        type.dtype, is_splat ? 1 : type.num_elements(), elements, &bytes));
    return At(
        offset,
        builder_->AddConstant(names_[0], std::move(type), std::move(bytes))
            .status());
  }

  absl::Status SkipElement() {
    if (current_.kind != TokenKind::kNumber &&
        current_.kind != TokenKind::kWord) {
      return Wants("a number, true or false");
    }
    Advance();
    return absl::OkStatus();
  }

  absl::Status SkipElements(int64_t* count) {
    Advance();
    while (!Take(']')) {
      if (*count > 0) MICA_RETURN_IF_ERROR(Expect(','));
      MICA_RETURN_IF_ERROR(SkipElement());
      ++*count;
    }
    return absl::OkStatus();
  }

  // Reads `count` elements and repeats them until `bytes` is full.
  absl::Status ReadElements(DType dtype, int64_t count, Lexer elements,
                            std::vector<uint8_t>* bytes) const {
    const int64_t size = ElementBytes(dtype);
    uint8_t splat[8];
    for (int64_t i = 0; i < count; ++i) {
      const Token token = elements.Next();
      elements.Next();
      if (!ParseElement(dtype, token.text, splat)) {
        return ErrorAt(
            token.offset,
            absl::StrCat("constant: wants an element of ", DTypeName(dtype),
                         ", got ", Describe(token)));
      }
      if (!bytes->empty()) std::copy_n(splat, size, &(*bytes)[i * size]);
    }
    const int64_t total = static_cast<int64_t>(bytes->size());
    for (int64_t i = count * size; i < total; ++i) {
      (*bytes)[i] = (*bytes)[i - size];
    }
    return absl::OkStatus();
  }

  absl::Status ParseUpdate() {
    Advance();
    const size_t offset = current_.offset;
    ValueId target = kNoValue;
    if (current_.kind == TokenKind::kString) {
      MICA_ASSIGN_OR_RETURN(std::string name, ParseString("a variable"));
      const auto it = variables_.find(name);
      if (it == variables_.end()) {
        return ErrorAt(offset, absl::StrCat("update: no variable \"", name,
                                            "\" before this line"));
      }
      target = it->second;
    } else {
      MICA_ASSIGN_OR_RETURN(target, ParseUse());
    }
    MICA_RETURN_IF_ERROR(Expect('='));
    MICA_ASSIGN_OR_RETURN(ValueId value, ParseUse());
    has_update_ = true;
    return At(offset, builder_->AddUpdate(target, value));
  }

  absl::StatusOr<Program> ParseReturn() {
    op_ = nullptr;
    Advance();
    std::vector<ValueId> outputs;
    while (!current_.Is('}')) {
      if (!outputs.empty()) MICA_RETURN_IF_ERROR(Expect(','));
      MICA_ASSIGN_OR_RETURN(ValueId id, ParseUse());
      outputs.push_back(id);
    }
    Advance();
    if (current_.kind != TokenKind::kEnd) return Wants("the end of the text");
    return builder_->Build(outputs);
  }

  // Ops.

  absl::Status ParseOp() {
    const size_t offset = current_.offset;
    if (current_.kind != TokenKind::kWord) return Wants("an operator");
    if (has_update_) return Wants("update or return after an update");
    absl::StatusOr<const OpDef*> def = builder_->FindOp(current_.text);
    if (!def.ok()) return At(offset, def.status());
    op_ = *def;
    Advance();
    ProgramBuilder::OpSpec spec{.def = op_};
    MICA_RETURN_IF_ERROR(ParseArguments(&spec.arguments));
    if (Take(':')) {
      do {
        MICA_ASSIGN_OR_RETURN(TensorType type, ParseType());
        spec.types.push_back(std::move(type));
      } while (Take(','));
    }
    if (spec.types.size() != names_.size()) {
      return ErrorAt(offset, absl::StrCat(op_->name(),
                                          ": wants a type for each"
                                          " of ",
                                          names_.size(), " results, got ",
                                          spec.types.size()));
    }
    if (Take('@')) MICA_RETURN_IF_ERROR(ParseSource(&spec.source));
    spec.names = std::move(names_);
    names_.clear();
    return At(offset, builder_->AddOp(std::move(spec)).status());
  }

  absl::Status ParseSource(SourceLine* source) {
    const Token file = current_;
    MICA_ASSIGN_OR_RETURN(std::string name, ParseString("a file in quotes"));
    MICA_RETURN_IF_ERROR(Expect(':'));
    const std::optional<int64_t> line = current_.kind == TokenKind::kNumber
                                            ? ParseInt(current_.text)
                                            : std::nullopt;
    if (!line.has_value() || *line < 1 || *line > INT32_MAX) {
      return Wants("a line, from 1 on");
    }
    Advance();
    // Equal text means an equal name, and most ops come from the last file.
    if (file_ == nullptr || file.text != file_text_) {
      file_ = builder_->InternFile(name);
      file_text_ = file.text;
    }
    *source = {.file = file_, .line = static_cast<int32_t>(*line)};
    return absl::OkStatus();
  }

  absl::Status ParseArguments(Arguments* arguments) {
    const std::vector<Param>& params = op_->schema().params;
    const size_t offset = current_.offset;
    MICA_RETURN_IF_ERROR(Expect('('));
    arguments->resize(params.size());
    given_.assign(params.size(), false);
    size_t position = 0;
    bool is_named = false;
    while (!Take(')')) {
      if (position > 0 || is_named) MICA_RETURN_IF_ERROR(Expect(','));
      size_t param = position;
      const Token word = current_;
      // A word is a parameter's name if "=" follows it.
      if (word.kind == TokenKind::kWord && Lexer(lexer_).Next().Is('=')) {
        const int found = op_->FindParam(word.text);
        if (found < 0) return Wants("one of its parameters");
        if (given_[found]) return Wants("each argument once");
        Advance();
        Advance();
        is_named = true;
        param = found;
      } else if (is_named || position >= params.size()) {
        return Wants(
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
        return ErrorAt(
            offset, absl::StrCat(op_->name(), ": wants ", KindText(params[i]),
                                 " for ", params[i].name, ", got nothing"));
      }
      (*arguments)[i] = params[i].default_value;
    }
    return absl::OkStatus();
  }

  absl::Status WantsFor(const Param& param) const {
    return Wants(absl::StrCat(KindText(param),
                              param.is_optional ? " or none" : "", " for ",
                              param.name));
  }

  // None of the kinds but lists and dtypes depends on the parameter: whether
  // the argument fits it is CheckArguments' to say.
  absl::StatusOr<Argument> ParseArgument(const Param& param) {
    switch (current_.kind) {
      case TokenKind::kName:
      case TokenKind::kQuotedName: {
        MICA_ASSIGN_OR_RETURN(ValueId id, ParseUse());
        return Argument(ValueRef{id});
      }
      case TokenKind::kString: {
        MICA_ASSIGN_OR_RETURN(std::string text, Unquote(Advance()));
        return Argument(std::move(text));
      }
      case TokenKind::kNumber:
        return ParseNumber(param);
      case TokenKind::kWord:
        return ParseWord(param);
      default:
        if (current_.Is('[')) return ParseList(param);
        return WantsFor(param);
    }
  }

  absl::StatusOr<Argument> ParseNumber(const Param& param) {
    Argument argument;
    if (IsFloatNumber(current_)) {
      const std::optional<double> number = ParseFloat(current_.text);
      if (!number.has_value()) return WantsFor(param);
      argument = *number;
    } else {
      const std::optional<int64_t> number = ParseInt(current_.text);
      if (!number.has_value()) return WantsFor(param);
      argument = *number;
    }
    Advance();
    return argument;
  }

  absl::StatusOr<Argument> ParseWord(const Param& param) {
    Argument argument;
    if (current_.text == "true" || current_.text == "false") {
      argument = current_.text == "true";
    } else if (current_.text == "inf" || current_.text == "nan") {
      argument = *ParseFloat(current_.text);
    } else if (current_.text != "none") {
      const std::optional<DType> dtype = ParseDType(current_.text);
      if (!dtype.has_value()) return WantsFor(param);
      argument = *dtype;
    }
    Advance();
    return argument;
  }

  absl::StatusOr<Argument> ParseList(const Param& param) {
    switch (param.kind) {
      case ParamKind::kTensorList:
        return ParseItems<ValueRefs>([&]() -> absl::StatusOr<ValueRef> {
          if (current_.IsWord("none")) {
            Advance();
            return ValueRef{kNoValue};
          }
          MICA_ASSIGN_OR_RETURN(ValueId id, ParseUse());
          return ValueRef{id};
        });
      case ParamKind::kIntList:
        return ParseItems<std::vector<int64_t>>(
            [&] { return ParseDimOrInt("an integer or a symbol"); });
      case ParamKind::kFloatList:
        return ParseItems<std::vector<double>>([&]() -> absl::StatusOr<double> {
          const bool is_number = current_.kind == TokenKind::kNumber ||
                                 current_.kind == TokenKind::kWord;
          const std::optional<double> number =
              is_number ? ParseFloat(current_.text) : std::nullopt;
          if (!number.has_value()) return Wants("a float");
          Advance();
          return *number;
        });
      case ParamKind::kBoolList:
        return ParseItems<std::vector<bool>>([&]() -> absl::StatusOr<bool> {
          if (!current_.IsWord("true") && !current_.IsWord("false")) {
            return Wants("true or false");
          }
          return Advance().text == "true";
        });
      default:
        return WantsFor(param);
    }
  }

  template <typename List, typename ParseItem>
  absl::StatusOr<Argument> ParseItems(ParseItem parse_item) {
    Advance();
    List list;
    while (!Take(']')) {
      if (!list.empty()) MICA_RETURN_IF_ERROR(Expect(','));
      MICA_ASSIGN_OR_RETURN(auto item, parse_item());
      list.push_back(std::move(item));
    }
    return Argument(std::move(list));
  }

  const absl::string_view text_;
  const OpRegistry& registry_;
  Lexer lexer_;
  Token current_;
  std::optional<ProgramBuilder> builder_;
  absl::flat_hash_map<std::string, ValueId> variables_;
  absl::flat_hash_set<std::string> symbols_;
  int64_t splat_bytes_ = 0;
  bool has_update_ = false;

  // Of the statement at hand.
  std::vector<std::string> names_;
  const OpDef* op_ = nullptr;
  std::vector<bool> given_;

  // The file of the last op that had one.
  absl::string_view file_text_;
  std::shared_ptr<const std::string> file_;
};

}  // namespace

absl::StatusOr<Program> ParseProgram(absl::string_view text,
                                     const OpRegistry& registry) {
  return Parser(text, registry).Parse();
}

}  // namespace mica
