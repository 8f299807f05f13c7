// Serves an exported model to stdin: how a C++ program of one's own runs what
// Python captured (docs/serving.md). Each line of numbers is a request, a row
// of the model's one input; its results are printed on a line.

#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "executor/executor.h"
#include "framework/base/status.h"
#include "framework/saved/saved_program.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tools/flags.h"

namespace mica {
namespace {

// A model with its weights, ready to be called. Thread-compatible.
class Model {
 public:
  // Reads what mica.export wrote to `folder`.
  static absl::StatusOr<Model> Load(const std::string& folder) {
    Model model;
    MICA_ASSIGN_OR_RETURN(model.saved_, ReadSavedProgram(folder, AllOps()));
    MICA_ASSIGN_OR_RETURN(
        model.executor_,
        Executor::Create(Place(), AllOps(), AllKernels(), {.frozen = true}));
    const Program& program = *model.saved_.program;
    if (program.inputs().size() != 1 ||
        program.type(program.inputs()[0]).dtype != DType::kF32) {
      return absl::InvalidArgumentError("wants a model of one f32 input");
    }
    for (size_t i = 0; i < model.saved_.variables.size(); ++i) {
      model.weights_[program.variables()[i].name] =
          model.saved_.variables[i].view();
    }
    return model;
  }

  // The first call decides how the Program runs; later ones only run it.
  absl::StatusOr<Tensor> Run(float* row) {
    const Program& program = *saved_.program;
    const Value& input = program.value(program.inputs()[0]);
    const NamedViews feeds = {{input.name, {row, *input.type}}};
    MICA_ASSIGN_OR_RETURN(
        std::vector<Tensor> results,
        executor_->Run(saved_.program, feeds, weights_, /*fetches=*/{}));
    return std::move(results[0]);
  }

  // How many numbers a request has.
  int64_t row_size() const {
    const Program& program = *saved_.program;
    return program.type(program.inputs()[0]).num_elements();
  }

 private:
  SavedProgram saved_;
  std::unique_ptr<Executor> executor_;
  NamedViews weights_;
};

absl::Status Serve(const std::string& folder) {
  MICA_ASSIGN_OR_RETURN(Model model, Model::Load(folder));
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream numbers(line);
    std::vector<float> row;
    for (float number = 0; numbers >> number;) row.push_back(number);
    if (static_cast<int64_t>(row.size()) != model.row_size()) {
      return absl::InvalidArgumentError("a line with too few or many numbers");
    }
    MICA_ASSIGN_OR_RETURN(const Tensor result, model.Run(row.data()));
    const auto* data = result.view().as<float>();
    for (int64_t i = 0; i < result.type().num_elements(); ++i) {
      std::cout << (i > 0 ? " " : "") << data[i];
    }
    std::cout << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace mica

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: mica_example FOLDER < lines of numbers\n";
    return mica::kExitUsage;
  }
  const absl::Status status = mica::Serve(argv[1]);
  if (status.ok()) return 0;
  mica::PrintError("mica_example", status);
  return mica::kExitFailed;
}
