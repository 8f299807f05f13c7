// Lines that a text has had before, but for the values in them.

#ifndef MICA_FRAMEWORK_TEXT_REPEATED_LINES_H_
#define MICA_FRAMEWORK_TEXT_REPEATED_LINES_H_

#include <cstddef>
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
  // The op that a line of this form was; -1 if there was none.
  OpId Find() const;
  // The line is this op, whole, and its operands come in this order.
  void Learn(OpId op) { ops_.emplace(form_, op); }

 private:
  const absl::string_view text_;
  std::string form_;  // Without what stands behind each "%".
  std::vector<absl::string_view> names_;
  size_t num_results_ = 0;
  size_t end_ = 0;
  absl::flat_hash_map<std::string, OpId> ops_;  // By form.
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_REPEATED_LINES_H_
