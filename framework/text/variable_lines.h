// Lines that declare a variable or update one, read without tokens.

#ifndef MICA_FRAMEWORK_TEXT_VARIABLE_LINES_H_
#define MICA_FRAMEWORK_TEXT_VARIABLE_LINES_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

// A network has some variables a layer, and a step that trains it an update of
// each. Their lines, as the printer writes them, are one way or the other:
//   %name = variable "name" : type
//   update "name" = %name
// All else, escapes among them, is left to the parser. `text` must outlive it.
class VariableLines {
 public:
  explicit VariableLines(absl::string_view text) : text_(text) {}

  struct Declaration {
    absl::string_view name;            // Without the "%".
    absl::string_view variable;        // Without quotes.
    const TensorType* type = nullptr;  // Until the next Learn().
    size_t end = 0;                    // Of the line: its line feed, mostly.
  };
  // The line that begins at `offset`, of a type that was learned.
  std::optional<Declaration> ReadDeclaration(size_t offset) const;
  // The rest of a line from `offset` on, a type, means this one.
  void Learn(size_t offset, const TensorType& type);

  struct UpdateLine {
    absl::string_view variable;
    size_t variable_offset = 0;  // Of its opening quote.
    absl::string_view value;
    size_t end = 0;
  };
  std::optional<UpdateLine> ReadUpdate(size_t offset) const;

  // Of the line in which `offset` is.
  size_t LineEnd(size_t offset) const;

 private:
  const absl::string_view text_;
  absl::flat_hash_map<std::string, TensorType> types_;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_VARIABLE_LINES_H_
