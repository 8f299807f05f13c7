// The texts of a Program on its way to a Plan, as files.

#ifndef MICA_ANALYSIS_PIPELINE_PASS_DUMP_H_
#define MICA_ANALYSIS_PIPELINE_PASS_DUMP_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/ir/program.h"

namespace mica {

// Of one Program, in a folder that is made if it isn't there:
//
//   NAME-1a2b3c4d.00.given.mica        before the first pass
//   NAME-1a2b3c4d.09.fuse-linear.mica  behind the ninth, if that changed it
//   NAME-1a2b3c4d.plan.txt             the Plan
//
// NAME is the Program's, the digits are of its text. What an earlier run has
// left under these names is written over. What can't be written is an error.
// Single-thread.
class PassDump {
 public:
  explicit PassDump(std::string folder);

  // Number 0 comes first.
  absl::Status Write(const Program& program, int number,
                     absl::string_view pass);
  absl::Status WritePlan(absl::string_view text);

  // The folder that the variable MICA_DUMP of the environment names, or "".
  static std::string FolderFromEnvironment();

 private:
  absl::Status WriteText(absl::string_view what, absl::string_view text);

  std::string folder_;
  std::string prefix_;
  std::string last_text_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PIPELINE_PASS_DUMP_H_
