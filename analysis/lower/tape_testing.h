// Tapes for tests.

#ifndef MICA_ANALYSIS_LOWER_TAPE_TESTING_H_
#define MICA_ANALYSIS_LOWER_TAPE_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analysis/lower/tape.h"

namespace mica {

// Builds tapes call by call.
class TapeMaker {
 public:
  TapeMaker() { tape_.name = "f"; }

  TapeTensorId Input(std::vector<int64_t> sizes, int32_t storage) {
    TapeTensor tensor = Make(std::move(sizes), storage);
    tensor.origin = TapeOrigin::kInput;
    tensor.input = static_cast<int32_t>(tape_.inputs.size());
    tensor.name = "x";
    tape_.inputs.push_back(Add(tensor));
    return tape_.inputs.back();
  }

  // A number that the program is given.
  void Number(std::string name, double value) {
    tape_.host_values.push_back({.kind = TapeHostValue::Kind::kInput,
                                 .input = 0,
                                 .name = std::move(name),
                                 .value = value});
  }

  TapeTensorId Made(std::vector<int64_t> sizes, int32_t storage,
                    std::string dtype = "f32") {
    TapeTensor tensor = Make(std::move(sizes), storage);
    tensor.dtype = std::move(dtype);
    return Add(std::move(tensor));
  }

  TapeTensorId Window(TapeTensorId of, std::vector<int64_t> sizes,
                      std::vector<int64_t> strides, int64_t offset) {
    TapeTensor tensor = tape_.tensors[of];
    tensor.origin = TapeOrigin::kCall;
    tensor.sizes = std::move(sizes);
    tensor.strides = std::move(strides);
    tensor.offset = offset;
    return Add(tensor);
  }

  TapeCall& Call(std::string op, std::vector<TapeValue> args,
                 TapeTensorId output) {
    TapeCall call{.op = std::move(op),
                  .args = std::move(args),
                  .outputs = {TapeTensorRef{output}},
                  .file = "user.py",
                  .line = 3};
    tape_.calls.push_back(std::move(call));
    return tape_.calls.back();
  }

  // Says of the tensor that the last call made it.
  void MadeByLastCall(TapeTensorId id) {
    tape_.tensors[id].call = static_cast<int32_t>(tape_.calls.size()) - 1;
    tape_.tensors[id].output = 0;
  }

  Tape& tape() { return tape_; }

 private:
  static TapeTensor Make(std::vector<int64_t> sizes, int32_t storage) {
    TapeTensor tensor{.dtype = "f32", .storage = storage};
    int64_t stride = 1;
    tensor.strides.resize(sizes.size());
    for (int i = static_cast<int>(sizes.size()) - 1; i >= 0; --i) {
      tensor.strides[i] = stride;
      stride *= sizes[i];
    }
    tensor.sizes = std::move(sizes);
    return tensor;
  }
  TapeTensorId Add(TapeTensor tensor) {
    tape_.tensors.push_back(std::move(tensor));
    return static_cast<TapeTensorId>(tape_.tensors.size()) - 1;
  }

  Tape tape_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_TAPE_TESTING_H_
