// The arguments of an op's line: names of values, numbers, words, lists.

#ifndef MICA_FRAMEWORK_TEXT_ARGUMENT_PARSER_H_
#define MICA_FRAMEWORK_TEXT_ARGUMENT_PARSER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/ir/program_builder.h"
#include "framework/text/token_stream.h"

namespace mica {

// Part of the parser, whose tokens it takes. Both references must outlive it;
// `builder` is of the Program or body at hand. Single-thread.
class ArgumentParser {
 public:
  ArgumentParser(TokenStream& tokens,
                 const std::unique_ptr<ProgramBuilder>& builder)
      : tokens_(tokens), builder_(builder) {}

  // A name after "%" where it is used.
  absl::StatusOr<ValueId> ParseUse();
  // A call's, in brackets.
  absl::StatusOr<Argument> ParseOperands();
  // Those of an op, in brackets, in the order of its parameters.
  absl::Status ParseArguments(const OpDef& op, Arguments* arguments);

 private:
  absl::StatusOr<Argument> ParseArgument(const Param& param);
  absl::StatusOr<Argument> ParseNumber(const Param& param);
  absl::StatusOr<Argument> ParseWord(const Param& param);
  absl::StatusOr<Argument> ParseList(const Param& param);
  template <typename List, typename ParseItem>
  absl::StatusOr<Argument> ParseItems(ParseItem parse_item);
  // Whether what comes is a size in place of a number.
  bool IsSymbolFor(const Param& param) const;
  absl::Status WantsFor(const Param& param) const;

  TokenStream& tokens_;
  const std::unique_ptr<ProgramBuilder>& builder_;
  std::vector<bool> given_;  // Of the parameters of the op at hand.
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_ARGUMENT_PARSER_H_
