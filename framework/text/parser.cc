#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/program_builder.h"
#include "framework/text/argument_parser.h"
#include "framework/text/elements.h"
#include "framework/text/lexer.h"
#include "framework/text/literal.h"
#include "framework/text/repeated_lines.h"
#include "framework/text/text.h"
#include "framework/text/token_stream.h"
#include "framework/text/variable_lines.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

// What all "splat" constants of a text may take: of other constants the text
// itself holds every element.
constexpr int64_t kMaxSplatBytes = int64_t{256} << 20;

// Reads one Program, statement by statement, looking one token ahead. Nothing
// in the grammar nests but lists in argument lists, and bodies, so deep.
class Parser {
 public:
  Parser(absl::string_view text, const OpRegistry& registry)
      : text_(text),
        tokens_(text),
        lines_(text),
        variable_lines_(text),
        registry_(registry) {}

  absl::StatusOr<Program> Parse() {
    while (tokens_.current().IsWord("function")) {
      MICA_RETURN_IF_ERROR(ParseFunction());
    }
    MICA_RETURN_IF_ERROR(ParseHeader());
    Reserve();
    while (true) {
      MICA_RETURN_IF_ERROR(ParseVariableLines());
      ParseRepeatedLines();
      if (tokens_.current().IsWord("return")) return ParseReturn();
      MICA_RETURN_IF_ERROR(ParseStatement());
      LearnLine();
    }
  }

 private:
  void SetOp(const OpDef* op) {
    op_ = op;
    tokens_.set_op(op == nullptr ? absl::string_view() : op->name());
  }

  // Room for the values and ops that there may be, by the length of the next
  // lines.
  void Reserve() {
    constexpr size_t kSample = size_t{64} << 10;
    const absl::string_view rest = text_.substr(tokens_.current().offset);
    if (rest.size() < kSample) return;
    const auto lines = static_cast<size_t>(
        std::count(rest.begin(), rest.begin() + kSample, '\n'));
    // Of few bytes there aren't many lines.
    constexpr size_t kShortLine = 24;
    const size_t count =
        rest.size() / std::max(kSample / (lines + 1), kShortLine);
    builder_->Reserve(count, count);
  }

  // Goes on behind the lines that VariableLines understands.
  absl::Status ParseVariableLines() {
    SetOp(nullptr);
    const size_t begin = tokens_.current().offset;
    std::optional<size_t> offset = begin;
    for (std::optional<size_t> next = begin; next.has_value();) {
      offset = next;
      MICA_ASSIGN_OR_RETURN(next, AddVariableLine(*offset));
    }
    if (*offset > begin) tokens_.GoTo(*offset);
    return absl::OkStatus();
  }

  // Where the next statement begins; nothing if this line is to be read token
  // by token.
  absl::StatusOr<std::optional<size_t>> AddVariableLine(size_t offset) {
    if (const auto line = variable_lines_.ReadDeclaration(offset)) {
      const std::optional<Token> next = NextStatement(line->end);
      if (!next.has_value()) return std::nullopt;
      MICA_RETURN_IF_ERROR(tokens_.At(
          offset, builder_->AddVariable(line->name, line->variable, *line->type)
                      .status()));
      return next->offset;
    }
    const auto line = variable_lines_.ReadUpdate(offset);
    if (!line.has_value()) return std::nullopt;
    const std::optional<Token> next = NextStatement(line->end);
    const ValueId target = builder_->FindVariable(line->variable);
    const ValueId value = builder_->FindValue(line->value);
    if (!next.has_value() || target == kNoValue || value == kNoValue) {
      return std::nullopt;
    }
    has_update_ = true;
    MICA_RETURN_IF_ERROR(
        tokens_.At(line->variable_offset, builder_->AddUpdate(target, value)));
    return next->offset;
  }

  // Goes on behind the lines that are like ones before (RepeatedLines).
  // line_is_read_ tells whether the one behind them may be learned.
  void ParseRepeatedLines() {
    const size_t begin = tokens_.current().offset;
    size_t offset = begin;
    line_is_read_ = tokens_.current().kind == TokenKind::kName && !has_update_;
    while (line_is_read_) {
      line_is_read_ = lines_.Read(offset);
      if (!line_is_read_) break;
      const std::optional<Token> next = NextStatement(lines_.end());
      if (!next.has_value() || !AddRepeatedLine()) break;
      offset = next->offset;
      line_is_read_ = next->kind == TokenKind::kName;
    }
    if (offset > begin) tokens_.GoTo(offset);
  }

  bool AddRepeatedLine() {
    const absl::Span<const OpId> like = lines_.Find();
    if (like.empty()) return false;
    operands_.clear();
    for (const absl::string_view name : lines_.operands()) {
      operands_.push_back(builder_->FindValue(name));
      if (operands_.back() == kNoValue) return false;
    }
    return std::any_of(like.begin(), like.end(), [&](OpId op) {
      return builder_->AddOpLike(op, operands_, lines_.results());
    });
  }

  // What the next statement begins with, behind a line's end; nothing where the
  // statement goes on. Of most it is a name, of which only the offset is told.
  std::optional<Token> NextStatement(size_t line_end) const {
    size_t at = line_end;
    while (at < text_.size() && (text_[at] == '\n' || text_[at] == ' ')) ++at;
    const bool is_name = at + 1 < text_.size() && text_[at] == '%' &&
                         absl::ascii_isalnum(text_[at + 1]);
    if (is_name) return Token{.kind = TokenKind::kName, .offset = at};
    const Token token = tokens_.LexerAt(line_end).Next();
    if (BeginsStatement(token)) return token;
    return std::nullopt;
  }

  // Others may belong to the statement before.
  static bool BeginsStatement(const Token& token) {
    return token.kind == TokenKind::kName ||
           token.kind == TokenKind::kQuotedName || token.IsWord("return") ||
           token.IsWord("update");
  }

  // Notes what the line was that ParseRepeatedLines() has left, if a whole
  // statement, an op, is all that is in it.
  void LearnLine() {
    if (!line_is_read_ || builder_->ops().empty()) return;
    const Op& op = builder_->ops().back();
    if (op.results.size() != lines_.results().size() || !op.bodies.empty() ||
        tokens_.LexerAt(lines_.end()).Next().offset !=
            tokens_.current().offset) {
      return;
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (builder_->value(op.results[i]).name != lines_.results()[i]) return;
    }
    size_t count = 0;
    bool is_in_order = true;
    ForEachValue(op.arguments, [&](ValueId id) {
      is_in_order = is_in_order && count < lines_.operands().size() &&
                    builder_->value(id).name == lines_.operands()[count];
      ++count;
    });
    if (!is_in_order || count != lines_.operands().size()) return;
    lines_.Learn(static_cast<OpId>(builder_->ops().size()) - 1);
  }

  // Statements.

  absl::Status ParseHeader() {
    MICA_RETURN_IF_ERROR(tokens_.ExpectWord("program"));
    MICA_ASSIGN_OR_RETURN(const std::string name,
                          ParseTitle("the program's name"));
    builder_ = std::make_unique<ProgramBuilder>(registry_, name);
    return ParseInputs();
  }

  // "@" and a name.
  absl::StatusOr<std::string> ParseTitle(absl::string_view what) {
    MICA_RETURN_IF_ERROR(tokens_.Expect('@'));
    if (tokens_.current().kind == TokenKind::kWord) {
      return std::string(tokens_.Advance().text);
    }
    return tokens_.ParseString(what);
  }

  // In it those before it may be called.
  absl::Status ParseFunction() {
    tokens_.Advance();
    const size_t offset = tokens_.current().offset;
    MICA_ASSIGN_OR_RETURN(const std::string name,
                          ParseTitle("the function's name"));
    if (functions_.contains(name)) {
      return tokens_.ErrorAt(
          offset, absl::StrCat("function @", name, " is defined twice"));
    }
    MICA_ASSIGN_OR_RETURN(Program function, ParseBody(name));
    functions_.emplace(name,
                       std::make_shared<const Program>(std::move(function)));
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const Program>> ParseCallee() {
    const size_t offset = tokens_.current().offset;
    MICA_ASSIGN_OR_RETURN(const std::string name,
                          ParseTitle("the function's name"));
    const auto it = functions_.find(name);
    if (it != functions_.end()) return it->second;
    return tokens_.OpErrorAt(
        offset, absl::StrCat("function @", name,
                             " is not defined before its use; functions "
                             "stand before those that call them, and none "
                             "calls itself"));
  }

  absl::Status ParseInputs() {
    MICA_RETURN_IF_ERROR(tokens_.Expect('('));
    bool is_first = true;
    while (!tokens_.Take(')')) {
      if (!is_first) MICA_RETURN_IF_ERROR(tokens_.Expect(','));
      is_first = false;
      MICA_RETURN_IF_ERROR(ParseInput());
    }
    return tokens_.Expect('{');
  }

  absl::Status ParseInput() {
    const size_t offset = tokens_.current().offset;
    MICA_ASSIGN_OR_RETURN(std::string name, tokens_.ParseName());
    MICA_RETURN_IF_ERROR(tokens_.Expect(':'));
    MICA_ASSIGN_OR_RETURN(TensorType type, tokens_.ParseType());
    return tokens_.At(offset,
                      builder_->AddInput(name, std::move(type)).status());
  }

  absl::Status ParseStatement() {
    SetOp(nullptr);
    if (tokens_.current().IsWord("opaque")) return ParseOpaque();
    if (tokens_.current().IsWord("update")) return ParseUpdate();
    names_.clear();
    if (tokens_.current().kind == TokenKind::kWord) return ParseOp();
    const size_t offset = tokens_.current().offset;
    do {
      if (!tokens_.IsAtName()) {
        return tokens_.Wants(
            "a statement: %name = …, update, opaque or return");
      }
      MICA_ASSIGN_OR_RETURN(std::string name, tokens_.ParseName());
      names_.push_back(std::move(name));
    } while (tokens_.Take(','));
    MICA_RETURN_IF_ERROR(tokens_.Expect('='));
    const bool is_variable = tokens_.current().IsWord("variable");
    if (!is_variable && !tokens_.current().IsWord("constant")) return ParseOp();
    if (is_variable && depth_ > 0) {
      return tokens_.Wants("an operator: a body has no variables");
    }
    if (names_.size() != 1) return tokens_.ErrorAt(offset, "one name too many");
    tokens_.Advance();
    return is_variable ? ParseVariable(offset) : ParseConstant(offset);
  }

  absl::Status ParseOpaque() {
    tokens_.Advance();
    const size_t offset = tokens_.current().offset;
    MICA_ASSIGN_OR_RETURN(std::string text,
                          tokens_.ParseString("a schema in quotes"));
    absl::StatusOr<Schema> schema = ParseSchema(text);
    if (!schema.ok()) return tokens_.At(offset, schema.status());
    bool is_legal = IsWord(schema->op) && absl::StrContains(schema->op, ".");
    absl::flat_hash_set<absl::string_view> params;
    for (const Param& param : schema->params) {
      is_legal =
          is_legal && IsWord(param.name) && params.insert(param.name).second;
    }
    if (!is_legal) {
      return tokens_.ErrorAt(offset,
                             absl::StrCat(schema->op,
                                          ": wants names of letters and "
                                          "digits, each of them once"));
    }
    return tokens_.At(offset, builder_->DeclareOpaque(*std::move(schema)));
  }

  absl::Status ParseVariable(size_t offset) {
    MICA_ASSIGN_OR_RETURN(std::string name,
                          tokens_.ParseString("a variable's name"));
    MICA_RETURN_IF_ERROR(tokens_.Expect(':'));
    const size_t type_offset = tokens_.current().offset;
    MICA_ASSIGN_OR_RETURN(TensorType type, tokens_.ParseType());
    // It is all that is left of its line.
    const size_t line_end = variable_lines_.LineEnd(type_offset);
    if (tokens_.LexerAt(line_end).Next().offset == tokens_.current().offset) {
      variable_lines_.Learn(type_offset, type);
    }
    return tokens_.At(
        offset,
        builder_->AddVariable(names_[0], name, std::move(type)).status());
  }

  // The elements can be read only once their type, which follows them, is
  // known: they are skipped first and read by a second Lexer then.
  absl::Status ParseConstant(size_t offset) {
    const bool is_splat = tokens_.current().IsWord("splat");
    if (is_splat) tokens_.Advance();
    const bool is_list = !is_splat && tokens_.current().Is('[');
    Lexer elements =
        tokens_.LexerAt(tokens_.current().offset + (is_list ? 1 : 0));
    int64_t count = 0;
    MICA_RETURN_IF_ERROR(is_list ? SkipElements(tokens_, &count)
                                 : SkipElement(tokens_));
    MICA_RETURN_IF_ERROR(tokens_.Expect(':'));
    const size_t type_offset = tokens_.current().offset;
    MICA_ASSIGN_OR_RETURN(TensorType type, tokens_.ParseType());
    if (!type.is_static() || type.is_scalar == (is_list || is_splat) ||
        (is_list && type.num_elements() != count)) {
      return tokens_.ErrorAt(
          type_offset,
          absl::StrCat(
              "constant: wants a value for each element of the type, got ",
              type.ToString(), " for ",
              is_list    ? absl::StrCat("a list of ", count)
              : is_splat ? "a splat"
                         : "a number"));
    }
    if (is_splat && (splat_bytes_ += type.num_bytes()) > kMaxSplatBytes) {
      return tokens_.ErrorAt(type_offset,
                             absl::StrCat("constant: splats take more than ",
                                          kMaxSplatBytes, " bytes"));
    }
    std::vector<uint8_t> bytes(type.num_bytes());
    MICA_RETURN_IF_ERROR(ReadElements(tokens_, type.dtype,
                                      is_splat ? 1 : type.num_elements(),
                                      elements, &bytes));
    return tokens_.At(
        offset,
        builder_->AddConstant(names_[0], std::move(type), std::move(bytes))
            .status());
  }

  absl::Status ParseUpdate() {
    if (depth_ > 0) {
      return tokens_.Wants("an operator: only the Program has updates");
    }
    tokens_.Advance();
    const size_t offset = tokens_.current().offset;
    ValueId target = kNoValue;
    if (tokens_.current().kind == TokenKind::kString) {
      MICA_ASSIGN_OR_RETURN(std::string name,
                            tokens_.ParseString("a variable"));
      target = builder_->FindVariable(name);
      if (target == kNoValue) {
        return tokens_.ErrorAt(offset,
                               absl::StrCat("update: no variable \"", name,
                                            "\" before this line"));
      }
    } else {
      MICA_ASSIGN_OR_RETURN(target, arguments_.ParseUse());
    }
    MICA_RETURN_IF_ERROR(tokens_.Expect('='));
    MICA_ASSIGN_OR_RETURN(ValueId value, arguments_.ParseUse());
    has_update_ = true;
    return tokens_.At(offset, builder_->AddUpdate(target, value));
  }

  absl::StatusOr<Program> ParseReturn() {
    MICA_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs, ParseOutputs());
    if (tokens_.current().kind != TokenKind::kEnd)
      return tokens_.Wants("the end of the text");
    return builder_->Build(outputs);
  }

  // To the brace at the end. In a body some may be absent.
  absl::StatusOr<std::vector<ValueId>> ParseOutputs() {
    SetOp(nullptr);
    tokens_.Advance();
    std::vector<ValueId> outputs;
    while (!tokens_.current().Is('}')) {
      if (!outputs.empty()) MICA_RETURN_IF_ERROR(tokens_.Expect(','));
      if (depth_ > 0 && tokens_.current().IsWord("none")) {
        tokens_.Advance();
        outputs.push_back(kNoValue);
        continue;
      }
      MICA_ASSIGN_OR_RETURN(ValueId id, arguments_.ParseUse());
      outputs.push_back(id);
    }
    tokens_.Advance();
    return outputs;
  }

  // Bodies.

  absl::Status ParseBodies(Bodies* bodies) {
    const OpDef* op = op_;
    for (const absl::string_view name : BodyNames(ControlKindOf(*op))) {
      MICA_RETURN_IF_ERROR(tokens_.ExpectWord(name));
      if (depth_ >= kMaxBodyDepth) {
        return tokens_.Wants(absl::StrCat("bodies in bodies no more than ",
                                          kMaxBodyDepth, " deep"));
      }
      MICA_ASSIGN_OR_RETURN(Program body, ParseBody(""));
      bodies->push_back(std::make_shared<const Program>(std::move(body)));
      SetOp(op);
    }
    return absl::OkStatus();
  }

  // A Program of its own: what stands around it isn't seen in it.
  absl::StatusOr<Program> ParseBody(absl::string_view name) {
    auto outer = std::exchange(
        builder_, std::make_unique<ProgramBuilder>(registry_, name));
    ++depth_;
    SetOp(nullptr);
    MICA_RETURN_IF_ERROR(ParseInputs());
    while (!tokens_.current().IsWord("return")) {
      MICA_RETURN_IF_ERROR(ParseStatement());
    }
    MICA_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs, ParseOutputs());
    --depth_;
    std::swap(outer, builder_);
    return outer->BuildBody(outputs);
  }

  // Ops.

  absl::Status ParseOp() {
    const size_t offset = tokens_.current().offset;
    if (tokens_.current().kind != TokenKind::kWord)
      return tokens_.Wants("an operator");
    if (has_update_) return tokens_.Wants("update or return after an update");
    absl::StatusOr<const OpDef*> def = builder_->FindOp(tokens_.current().text);
    if (!def.ok()) return tokens_.At(offset, def.status());
    SetOp(*def);
    tokens_.Advance();
    ProgramBuilder::OpSpec spec{.def = op_};
    const bool is_call = ControlKindOf(*op_) == ControlKind::kCall;
    if (is_call) {
      MICA_ASSIGN_OR_RETURN(spec.bodies.emplace_back(), ParseCallee());
      MICA_ASSIGN_OR_RETURN(spec.arguments.emplace_back(),
                            arguments_.ParseOperands());
    } else {
      MICA_RETURN_IF_ERROR(arguments_.ParseArguments(*op_, &spec.arguments));
    }
    if (tokens_.Take(':')) {
      do {
        MICA_ASSIGN_OR_RETURN(TensorType type, tokens_.ParseType());
        spec.types.push_back(std::move(type));
      } while (tokens_.Take(','));
    }
    if (spec.types.size() != names_.size()) {
      return tokens_.ErrorAt(
          offset,
          absl::StrCat(op_->name(),
                       ": wants a type for each"
                       " of ",
                       names_.size(), " results, got ", spec.types.size()));
    }
    if (tokens_.Take('@')) MICA_RETURN_IF_ERROR(ParseSource(&spec.source));
    MICA_RETURN_IF_ERROR(ParseScope(&spec.source));
    spec.names = std::move(names_);
    names_.clear();
    if (!is_call && ControlKindOf(*op_) != ControlKind::kNone) {
      MICA_RETURN_IF_ERROR(ParseBodies(&spec.bodies));
    }
    const SourceLine source = spec.source;
    const absl::Status status = builder_->AddOp(std::move(spec)).status();
    if (status.ok() || source.line == 0) return tokens_.At(offset, status);
    return tokens_.At(
        offset,
        absl::Status(status.code(), absl::StrCat(status.message(), " (",
                                                 source.ToString(), ")")));
  }

  absl::Status ParseSource(SourceLine* source) {
    const Token file = tokens_.current();
    MICA_ASSIGN_OR_RETURN(std::string name,
                          tokens_.ParseString("a file in quotes"));
    MICA_RETURN_IF_ERROR(tokens_.Expect(':'));
    const std::optional<int64_t> line =
        tokens_.current().kind == TokenKind::kNumber
            ? ParseInt(tokens_.current().text)
            : std::nullopt;
    if (!line.has_value() || *line < 1 || *line > INT32_MAX) {
      return tokens_.Wants("a line, from 1 on");
    }
    tokens_.Advance();
    source->file = file_.Intern(file.text, name, *builder_);
    source->line = static_cast<int32_t>(*line);
    return absl::OkStatus();
  }

  absl::Status ParseScope(SourceLine* source) {
    if (tokens_.current().kind != TokenKind::kWord) return absl::OkStatus();
    source->is_backward = tokens_.current().text == "backward";
    if (!source->is_backward && tokens_.current().text != "in") {
      return absl::OkStatus();
    }
    tokens_.Advance();
    const Token scope = tokens_.current();
    MICA_ASSIGN_OR_RETURN(std::string name,
                          tokens_.ParseString("a scope in quotes"));
    if (!name.empty()) {
      source->scope = scope_.Intern(scope.text, name, *builder_);
    }
    return absl::OkStatus();
  }

  const absl::string_view text_;
  TokenStream tokens_;
  RepeatedLines lines_;
  VariableLines variable_lines_;
  bool line_is_read_ = false;  // The one at hand, by lines_.
  std::vector<ValueId> operands_;
  const OpRegistry& registry_;
  // Of the Program, or of the body at hand.
  std::unique_ptr<ProgramBuilder> builder_;
  absl::flat_hash_map<std::string, std::shared_ptr<const Program>> functions_;
  ArgumentParser arguments_{tokens_, builder_};
  int64_t splat_bytes_ = 0;
  bool has_update_ = false;
  int depth_ = 0;  // Of bodies around the statement at hand.

  // Of the statement at hand.
  std::vector<std::string> names_;
  const OpDef* op_ = nullptr;

  // The last of the names of files, or scopes: most ops come from it, too.
  struct LastName {
    absl::string_view text;
    std::shared_ptr<const std::string> name;

    // Equal text means an equal name.
    const std::shared_ptr<const std::string>& Intern(absl::string_view written,
                                                     absl::string_view meant,
                                                     ProgramBuilder& builder) {
      if (name == nullptr || written != text) {
        name = builder.InternName(meant);
        text = written;
      }
      return name;
    }
  };
  LastName file_;
  LastName scope_;
};

}  // namespace

absl::StatusOr<Program> ParseProgram(absl::string_view text,
                                     const OpRegistry& registry) {
  const TraceSpan span("analysis", "parse");
  return Parser(text, registry).Parse();
}

}  // namespace mica
