// An exported Program with tensors of its own to feed and fetch.

#ifndef MICA_TOOLS_TRAIN_RUNNER_H_
#define MICA_TOOLS_TRAIN_RUNNER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/job/job.h"
#include "framework/ir/program.h"
#include "framework/tensor/tensor.h"
#include "tools/train/dataset.h"

namespace mica {

// A Program's Job over given variables, whose inputs are filled with rows of a
// Dataset. Single-thread.
class Runner {
 public:
  // The variables' memory is shared and written in place. `what` begins errors:
  // the folder of the Program.
  static absl::StatusOr<std::unique_ptr<Runner>> Create(
      std::string what, std::shared_ptr<const Program> program,
      std::vector<Tensor> variables, int num_threads);

  // From here on FillBatch() reads `data`, which must outlive this. All inputs
  // but those called `except` need a field; InvalidArgument otherwise, or if
  // they differ in their first size, the batch's.
  absl::Status ReadFrom(const Dataset& data,
                        const std::vector<std::string>& except);
  // Rows of one batch; 0 before ReadFrom().
  int64_t batch_size() const { return batch_size_; }

  // Copies batch_size() rows of each field into its input.
  void FillBatch(absl::Span<const int64_t> rows);
  absl::Status Run() { return job_->Run(); }

  const Program& program() const { return *program_; }
  const std::vector<Tensor>& variables() const { return variables_; }
  const Tensor& input(int index) const { return inputs_[index]; }
  const Tensor& output(int index) const { return outputs_[index]; }
  // The first output that `fits`, or -1.
  template <typename Predicate>
  int FindOutput(const Predicate& fits) const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (fits(outputs_[i].type())) return static_cast<int>(i);
    }
    return -1;
  }

 private:
  struct Feed {
    const Tensor* field = nullptr;
    int input = 0;
  };

  Runner() = default;
  std::string what_;
  std::shared_ptr<const Program> program_;
  std::vector<Tensor> variables_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<Feed> feeds_;
  int64_t batch_size_ = 0;
  std::unique_ptr<Job> job_;
};

}  // namespace mica

#endif  // MICA_TOOLS_TRAIN_RUNNER_H_
