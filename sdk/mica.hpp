// Mica's C API for C++17: values that free themselves, and exceptions. Nothing
// but mica.h is behind it, so that it has that one's ABI.

#ifndef MICA_SDK_MICA_HPP_
#define MICA_SDK_MICA_HPP_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mica/mica.h"

namespace mica::sdk {

class Error : public std::runtime_error {
 public:
  Error(mica_code code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  mica_code code() const { return code_; }

 private:
  mica_code code_;
};

// Throws what the C API returned, if it is an error.
inline void Check(mica_error* error) {
  if (error == nullptr) return;
  const std::unique_ptr<mica_error, decltype(&mica_error_free)> owner(
      error, &mica_error_free);
  throw Error(mica_error_code(error), mica_error_message(error));
}

// The dtype of elements of type T.
template <typename T>
constexpr mica_dtype DTypeOf() {
  if constexpr (std::is_same_v<T, bool>) return MICA_BOOL;
  if constexpr (std::is_same_v<T, uint8_t>) return MICA_U8;
  if constexpr (std::is_same_v<T, int8_t>) return MICA_I8;
  if constexpr (std::is_same_v<T, int16_t>) return MICA_I16;
  if constexpr (std::is_same_v<T, int32_t>) return MICA_I32;
  if constexpr (std::is_same_v<T, int64_t>) return MICA_I64;
  if constexpr (std::is_same_v<T, float>) return MICA_F32;
  if constexpr (std::is_same_v<T, double>) return MICA_F64;
}

// Row-major memory of somebody else's, which must outlive it.
class Input {
 public:
  template <typename T>
  Input(const T* data, std::vector<int64_t> dims)
      : data_(const_cast<T*>(data)),
        dtype_(DTypeOf<T>()),
        dims_(std::move(dims)) {}
  mica_view view() const {
    return {data_, dtype_, static_cast<int32_t>(dims_.size()), dims_.data(),
            nullptr};
  }

 private:
  void* data_;
  mica_dtype dtype_;
  std::vector<int64_t> dims_;
};

// A result. Move-only.
class Tensor {
 public:
  explicit Tensor(mica_tensor* tensor) : tensor_(tensor, &mica_tensor_free) {}
  mica_view view() const { return mica_tensor_view(tensor_.get()); }
  std::vector<int64_t> dims() const {
    const mica_view view = this->view();
    return {view.dims, view.dims + view.rank};
  }
  int64_t num_elements() const {
    int64_t count = 1;
    for (const int64_t dim : dims()) count *= dim;
    return count;
  }
  // Throws Error if its elements are of another type.
  template <typename T>
  const T* data() const {
    const mica_view view = this->view();
    if (view.dtype != DTypeOf<T>()) {
      throw Error(MICA_INVALID_ARGUMENT,
                  std::string("wants elements of type ") +
                      mica_dtype_name(DTypeOf<T>()) + ", has " +
                      mica_dtype_name(view.dtype));
    }
    return static_cast<const T*>(view.data);
  }

 private:
  std::unique_ptr<mica_tensor, decltype(&mica_tensor_free)> tensor_;
};

// Ends runs from another thread. Move-only.
class Cancel {
 public:
  Cancel() : cancel_(mica_cancel_new(), &mica_cancel_free) {
    if (cancel_ == nullptr) throw std::bad_alloc();
  }
  void Set() { mica_cancel_set(cancel_.get()); }
  void Reset() { mica_cancel_reset(cancel_.get()); }
  mica_cancel* get() const { return cancel_.get(); }

 private:
  std::unique_ptr<mica_cancel, decltype(&mica_cancel_free)> cancel_;
};

// A model with its weights. Thread-safe; move-only.
class Model {
 public:
  explicit Model(const std::string& folder,
                 const mica_options& options = MICA_OPTIONS_INIT)
      : model_(Load(folder, options), &mica_model_free) {}

  std::vector<mica_value> inputs() const {
    return Values(mica_model_num_inputs(model_.get()), &mica_model_input);
  }
  std::vector<mica_value> outputs() const {
    return Values(mica_model_num_outputs(model_.get()), &mica_model_output);
  }
  std::vector<mica_value> variables() const {
    return Values(mica_model_num_variables(model_.get()), &mica_model_variable);
  }
  mica_stats stats() const {
    mica_stats stats = {};
    stats.struct_size = sizeof(stats);
    Check(mica_model_stats(model_.get(), &stats));
    return stats;
  }

  // The outputs, or the values named by `fetches`. Throws Error.
  std::vector<Tensor> Run(const std::vector<Input>& inputs,
                          const std::vector<std::string>& fetches = {},
                          const Cancel* cancel = nullptr) {
    if (inputs.size() !=
        static_cast<size_t>(mica_model_num_inputs(model_.get()))) {
      throw Error(MICA_INVALID_ARGUMENT,
                  "wants " +
                      std::to_string(mica_model_num_inputs(model_.get())) +
                      " inputs, got " + std::to_string(inputs.size()));
    }
    std::vector<mica_view> views;
    for (const Input& input : inputs) views.push_back(input.view());
    std::vector<const char*> names;
    for (const std::string& name : fetches) names.push_back(name.c_str());
    const int32_t count = names.empty() ? mica_model_num_outputs(model_.get())
                                        : static_cast<int32_t>(names.size());
    std::vector<mica_tensor*> results(count, nullptr);
    Check(mica_model_run(model_.get(), views.data(), names.data(),
                         static_cast<int32_t>(names.size()),
                         cancel == nullptr ? nullptr : cancel->get(),
                         results.data()));
    std::vector<Tensor> tensors;
    for (mica_tensor* result : results) tensors.emplace_back(result);
    return tensors;
  }

  mica_model* get() const { return model_.get(); }

 private:
  static mica_model* Load(const std::string& folder,
                          const mica_options& options) {
    if (mica_abi_version() != MICA_ABI_VERSION) {
      throw Error(MICA_FAILED_PRECONDITION,
                  "libmica has another ABI version than this header");
    }
    mica_model* model = nullptr;
    Check(mica_model_load(folder.c_str(), &options, &model));
    return model;
  }
  template <typename Get>
  std::vector<mica_value> Values(int32_t count, Get get) const {
    std::vector<mica_value> values(count);
    for (int32_t i = 0; i < count; ++i) Check(get(model_.get(), i, &values[i]));
    return values;
  }

  std::unique_ptr<mica_model, decltype(&mica_model_free)> model_;
};

}  // namespace mica::sdk

#endif  // MICA_SDK_MICA_HPP_
