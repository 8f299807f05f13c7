// Serves an exported model to stdin, by several threads that share it: each
// line of numbers is a row of the model's one input, of floats; its results are
// printed on a line, in the order of the requests.

#include <cstdlib>
#include <future>
#include <iostream>
#include <mica/mica.hpp>
#include <queue>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Row = std::vector<float>;

// One request's answer.
std::string Answer(mica::sdk::Model& model, const Row& row,
                   const std::vector<int64_t>& dims) {
  const mica::sdk::Tensor result =
      std::move(model.Run({{row.data(), dims}})[0]);
  const float* data = result.data<float>();
  std::ostringstream line;
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    line << (i > 0 ? " " : "") << data[i];
  }
  return line.str();
}

void Serve(const std::string& folder, size_t num_threads) {
  mica_options options = MICA_OPTIONS_INIT;
  options.frozen = 1;
  mica::sdk::Model model(folder, options);
  const std::vector<mica_value> inputs = model.inputs();
  if (inputs.size() != 1 || inputs[0].dtype != MICA_F32) {
    throw std::runtime_error("wants a model of one f32 input");
  }
  const std::vector<int64_t> dims(inputs[0].dims,
                                  inputs[0].dims + inputs[0].rank);
  size_t size = 1;
  for (const int64_t dim : dims) size *= static_cast<size_t>(dim);

  std::queue<std::future<std::string>> answers;
  const auto print_first = [&] {
    std::cout << answers.front().get() << std::endl;
    answers.pop();
  };
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream numbers(line);
    Row row;
    for (float number = 0; numbers >> number;) row.push_back(number);
    if (row.size() != size) {
      throw std::runtime_error("wants " + std::to_string(size) +
                               " numbers a line, got " +
                               std::to_string(row.size()));
    }
    if (answers.size() == num_threads) print_first();
    answers.push(
        std::async(std::launch::async, [&model, &dims, row = std::move(row)] {
          return Answer(model, row, dims);
        }));
  }
  while (!answers.empty()) print_first();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: serve FOLDER < lines of numbers\n";
    return 2;
  }
  try {
    Serve(argv[1], 2);
  } catch (const std::exception& error) {
    std::cerr << "serve: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
