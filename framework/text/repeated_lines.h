// Lines that a text has had before, but for the values in them.

#ifndef MICA_FRAMEWORK_TEXT_REPEATED_LINES_H_
#define MICA_FRAMEWORK_TEXT_REPEATED_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/ir/program.h"

namespace mica {

// A network of many equal layers says the same in each, of other values: most
// lines of its text are equal once their values' names are left out. Such a
// line stands for the op that the first one of its form stands for, of its own
// operands, and needs neither be cut into tokens nor checked again.
//
// The forms of a layer's lines follow each other as they did in the layer
// before: the one that came next then is compared first.
//
// For the lines of one Program, bodies left out. `text` must outlive it.
class RepeatedLines {
 public:
  explicit RepeatedLines(absl::string_view text) : text_(text) {}

  // Reads the line that begins at `offset` with a value's name. False if there
  // is more in it than is understood here, and then nothing else may be asked.
  bool Read(size_t offset);

  // Of the line read last: the names before the first "=", and those behind.
  absl::Span<const absl::string_view> results() const {
    return absl::MakeSpan(names_).first(num_results_);
  }
  absl::Span<const absl::string_view> operands() const {
    return absl::MakeSpan(names_).subspan(num_results_);
  }
  // Where it ends: at the text's end or a line feed.
  size_t end() const { return end_; }
  // The ops that lines of this form were, of operands of other types each.
  absl::Span<const OpId> Find() const {
    if (found_ < 0) return {};
    return forms_[found_].ops;
  }
  // The line is this op, whole, and its operands come in this order.
  void Learn(OpId op);

 private:
  struct Form {
    std::string text;             // Without what stands behind each "%".
    std::vector<uint32_t> names;  // Where that stood.
    size_t num_results = 0;
    std::vector<OpId> ops;
    int32_t next = -1;  // The form that came after it last.
  };

  // Whether the line has this form; reads it then.
  bool Follows(const Form& form, size_t offset);
  // Sets form_, too.
  bool ReadAny(size_t offset);
  // The line at hand has this form, which is known.
  void SetFound(int32_t form);

  const absl::string_view text_;
  std::vector<absl::string_view> names_;
  size_t num_results_ = 0;
  size_t end_ = 0;
  Form form_;
  int32_t found_ = -1;  // The form of the line read last; -1 if it is new.
  int32_t last_ = -1;   // The last that was known.
  std::vector<Form> forms_;
  absl::flat_hash_map<std::string, int32_t> by_text_;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_REPEATED_LINES_H_
