// libmica.so by its C API.

#include "sdk/mica.h"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "framework/base/test_matchers.h"
#include "framework/saved/saved_program.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kScale[] = R"(program @scale(%x: f32[n,2], %y: f32[n,2]) {
  %w = variable "fc.scale" : f32[2]
  %h = aten.mul.Tensor(%x, %w) : f32[n,2]
  %z = aten.add.Tensor(%h, %y) : f32[n,2]
  return %z, %h
}
)";
constexpr char kCounter[] = R"(program @counter(%x: f32[2]) {
  %w = variable "count" : f32[2]
  %s = aten.add.Tensor(%w, %x) : f32[2]
  update %w = %s
  return %s
}
)";
constexpr char kEndless[] = R"(program @endless(%n: i64[]) {
  %zero = constant [0] : i64[]
  %r = mica.while([%zero], [%n]) : i64[]
    cond(%i: i64[], %n: i64[]) {
      %p = aten.lt.Tensor(%i, %n) : bool[]
      return %p
    }
    body(%i: i64[], %n: i64[]) {
      %next = aten.mul.Scalar(%i, 1) : i64[]
      return %next
    }
  return %r
}
)";

// A folder with the program and, for its variable if it has one, 2 and 3.
std::string SaveModel(const char* text, const std::string& name) {
  const auto program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  SavedProgram saved;
  saved.program = std::make_shared<const Program>(*program);
  for (const Variable& variable : saved.program->variables()) {
    auto tensor = Tensor::Allocate(saved.program->type(variable.value));
    EXPECT_THAT(tensor, IsOk());
    const float numbers[] = {2, 3};
    std::memcpy(tensor->data(), numbers, sizeof(numbers));
    saved.variables.push_back(*std::move(tensor));
  }
  const std::string folder = testing::TempDir() + "mica_sdk_" + name;
  MICA_EXPECT_OK(WriteSavedProgram(folder, saved));
  return folder;
}

// The code and the message of what the API gave, which is freed.
struct Failure {
  mica_code code;
  std::string message;
};
Failure Take(mica_error* error) {
  Failure failure = {mica_error_code(error), mica_error_message(error)};
  mica_error_free(error);
  return failure;
}
#define EXPECT_FAILS(expression, wanted_code, wanted_text) \
  do {                                                     \
    const Failure failure = Take(expression);              \
    EXPECT_EQ(failure.code, wanted_code);                  \
    EXPECT_THAT(failure.message, HasSubstr(wanted_text));  \
  } while (false)
#define ASSERT_NO_ERROR(expression)                      \
  do {                                                   \
    const Failure failure = Take(expression);            \
    ASSERT_EQ(failure.code, MICA_OK) << failure.message; \
  } while (false)

mica_model* Load(const std::string& folder, const mica_options* options) {
  mica_model* model = nullptr;
  const Failure failure =
      Take(mica_model_load(folder.c_str(), options, &model));
  EXPECT_EQ(failure.code, MICA_OK) << failure.message;
  return model;
}

std::vector<float> NumbersAndFree(mica_tensor* tensor) {
  const mica_view view = mica_tensor_view(tensor);
  int64_t count = 1;
  for (int32_t i = 0; i < view.rank; ++i) count *= view.dims[i];
  const float* data = static_cast<const float*>(view.data);
  std::vector<float> numbers(data, data + count);
  mica_tensor_free(tensor);
  return numbers;
}

// x and y of so many rows of a number each, for kScale.
class ScaleInputs {
 public:
  ScaleInputs(int64_t rows, float x, float y)
      : dims_{rows, 2}, x_(2 * rows, x), y_(2 * rows, y) {}
  const mica_view* views() {
    views_[0] = {x_.data(), MICA_F32, 2, dims_, nullptr};
    views_[1] = {y_.data(), MICA_F32, 2, dims_, nullptr};
    return views_;
  }

 private:
  int64_t dims_[2];
  std::vector<float> x_, y_;
  mica_view views_[2];
};

TEST(SdkTest, TellsItsVersion) {
  EXPECT_EQ(mica_abi_version(), MICA_ABI_VERSION);
  EXPECT_STREQ(mica_version(), "0.1.0");
  EXPECT_EQ(mica_dtype_bytes(MICA_BF16), 2);
  EXPECT_STREQ(mica_dtype_name(MICA_C128), "c128");
  EXPECT_EQ(mica_dtype_name(static_cast<mica_dtype>(99)), nullptr);
}

TEST(SdkTest, ShowsWhatAModelTakesAndGives) {
  mica_model* model = Load(SaveModel(kScale, "shown"), nullptr);
  ASSERT_EQ(mica_model_num_inputs(model), 2);
  ASSERT_EQ(mica_model_num_outputs(model), 2);
  ASSERT_EQ(mica_model_num_variables(model), 1);
  mica_value value;
  ASSERT_NO_ERROR(mica_model_input(model, 1, &value));
  EXPECT_STREQ(value.name, "y");
  EXPECT_EQ(value.dtype, MICA_F32);
  ASSERT_EQ(value.rank, 2);
  EXPECT_EQ(value.dims[0], -1);
  EXPECT_EQ(value.dims[1], 2);
  EXPECT_STREQ(value.symbols[0], "n");
  EXPECT_EQ(value.symbols[1], nullptr);
  ASSERT_NO_ERROR(mica_model_variable(model, 0, &value));
  EXPECT_STREQ(value.name, "fc.scale");
  EXPECT_FAILS(mica_model_output(model, 2, &value), MICA_OUT_OF_RANGE,
               "output 2 of 2");
  mica_model_free(model);
}

TEST(SdkTest, RunsAnySizeAndFetchesByName) {
  mica_options options = MICA_OPTIONS_INIT;
  options.frozen = 1;
  mica_model* model = Load(SaveModel(kScale, "run"), &options);
  for (const int64_t rows : {1, 3, 1}) {
    ScaleInputs inputs(rows, 10, 1);
    ASSERT_NO_ERROR(mica_model_prepare(model, inputs.views()));
    mica_tensor* results[2] = {};
    ASSERT_NO_ERROR(
        mica_model_run(model, inputs.views(), nullptr, 0, nullptr, results));
    const mica_view view = mica_tensor_view(results[0]);
    EXPECT_EQ(view.dims[0], rows);
    EXPECT_EQ(view.strides[0], 2);
    const std::vector<float> z = NumbersAndFree(results[0]);
    EXPECT_EQ(z[0], 21);
    EXPECT_EQ(z[1], 31);
    EXPECT_EQ(NumbersAndFree(results[1])[1], 30);
    const char* names[] = {"h"};
    ASSERT_NO_ERROR(
        mica_model_run(model, inputs.views(), names, 1, nullptr, results));
    EXPECT_EQ(NumbersAndFree(results[0])[0], 20);
  }
  mica_model_free(model);
}

TEST(SdkTest, ThreadsShareAModel) {
  mica_options options = MICA_OPTIONS_INIT;
  options.frozen = 1;
  options.max_runs = 3;
  options.threads = 2;
  options.queue = 1;
  mica_model* model = Load(SaveModel(kScale, "threads"), &options);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 50; ++i) {
        ScaleInputs inputs(1 + i % 3, static_cast<float>(thread), 0);
        mica_tensor* results[2] = {};
        ASSERT_NO_ERROR(mica_model_run(model, inputs.views(), nullptr, 0,
                                       nullptr, results));
        mica_tensor_free(results[1]);
        EXPECT_EQ(NumbersAndFree(results[0])[1], 3.0F * thread);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  mica_stats stats = {};
  stats.struct_size = sizeof(stats);
  ASSERT_NO_ERROR(mica_model_stats(model, &stats));
  EXPECT_EQ(stats.runs, 300);
  EXPECT_EQ(stats.failures, 0);
  EXPECT_EQ(stats.prepared, 3);
  EXPECT_LE(stats.jobs, 9);
  mica_model_free(model);
}

TEST(SdkTest, UpdatesVariablesAndBindsOthers) {
  mica_model* model = Load(SaveModel(kCounter, "counter"), nullptr);
  int64_t dims[] = {2};
  float one[] = {1, 1};
  const mica_view x = {one, MICA_F32, 1, dims, nullptr};
  mica_tensor* result = nullptr;
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_ERROR(mica_model_run(model, &x, nullptr, 0, nullptr, &result));
    mica_tensor_free(result);
  }
  mica_view view;
  ASSERT_NO_ERROR(mica_model_variable_view(model, 0, &view));
  EXPECT_EQ(static_cast<float*>(view.data)[0], 5);
  float mine[] = {100, 200};
  const mica_view bound = {mine, MICA_F32, 1, dims, nullptr};
  ASSERT_NO_ERROR(mica_model_bind_variable(model, 0, &bound));
  ASSERT_NO_ERROR(mica_model_run(model, &x, nullptr, 0, nullptr, &result));
  EXPECT_THAT(NumbersAndFree(result), ElementsAre(101, 201));
  EXPECT_THAT(mine, ElementsAre(101, 201));
  const mica_view wrong = {mine, MICA_I32, 1, dims, nullptr};
  EXPECT_FAILS(mica_model_bind_variable(model, 0, &wrong),
               MICA_INVALID_ARGUMENT, "wants f32[2]");
  mica_model_free(model);
}

TEST(SdkTest, AFrozenModelSaysThatItsWeightsArePacked) {
  mica_options options = MICA_OPTIONS_INIT;
  options.frozen = 1;
  mica_model* model = Load(SaveModel(kScale, "frozen"), &options);
  mica_view view;
  ASSERT_NO_ERROR(mica_model_variable_view(model, 0, &view));
  static_cast<float*>(view.data)[0] = 7;  // Before the first run.
  ScaleInputs inputs(1, 1, 0);
  mica_tensor* results[2] = {};
  ASSERT_NO_ERROR(
      mica_model_run(model, inputs.views(), nullptr, 0, nullptr, results));
  EXPECT_THAT(NumbersAndFree(results[0]), ElementsAre(7, 3));
  mica_tensor_free(results[1]);
  EXPECT_FAILS(mica_model_variable_view(model, 0, &view),
               MICA_FAILED_PRECONDITION, "may be packed already");
  mica_model_free(model);
  const std::string counter = SaveModel(kCounter, "frozen_counter");
  EXPECT_FAILS(mica_model_load(counter.c_str(), &options, &model),
               MICA_INVALID_ARGUMENT, "the program updates %w");
}

TEST(SdkTest, MappedWeightsAreSharedUntilTheyAreWrittenTo) {
  const std::string folder = SaveModel(kCounter, "mapped");
  mica_options options = MICA_OPTIONS_INIT;
  options.map_weights = 1;
  mica_model* first = Load(folder, &options);
  mica_model* second = Load(folder, &options);
  SaveModel(kCounter, "mapped");  // Replaces the folder, not the open file.
  int64_t dims[] = {2};
  float one[] = {1, 1};
  const mica_view x = {one, MICA_F32, 1, dims, nullptr};
  mica_tensor* result = nullptr;
  for (int i = 0; i < 2; ++i) {
    ASSERT_NO_ERROR(mica_model_run(first, &x, nullptr, 0, nullptr, &result));
    mica_tensor_free(result);
  }
  ASSERT_NO_ERROR(mica_model_run(second, &x, nullptr, 0, nullptr, &result));
  EXPECT_THAT(NumbersAndFree(result), ElementsAre(3, 4));
  mica_view view;
  ASSERT_NO_ERROR(mica_model_variable_view(first, 0, &view));
  EXPECT_EQ(static_cast<float*>(view.data)[0], 4);
  mica_model_free(first);
  mica_model_free(second);
}

TEST(SdkTest, ARunCanBeEndedByAnotherThread) {
  mica_model* model = Load(SaveModel(kEndless, "endless"), nullptr);
  mica_cancel* cancel = mica_cancel_new();
  int64_t n = 1;
  const mica_view input = {&n, MICA_I64, 0, nullptr, nullptr};
  mica_tensor* result = nullptr;
  std::thread other([&] {
    std::atomic<int> spins = 0;
    while (spins < 100000) ++spins;
    mica_cancel_set(cancel);
  });
  EXPECT_FAILS(mica_model_run(model, &input, nullptr, 0, cancel, &result),
               MICA_CANCELLED, "the run was ended");
  other.join();
  EXPECT_EQ(result, nullptr);
  n = 0;
  EXPECT_FAILS(mica_model_run(model, &input, nullptr, 0, cancel, &result),
               MICA_CANCELLED, "the run was ended");
  mica_cancel_reset(cancel);
  ASSERT_NO_ERROR(mica_model_run(model, &input, nullptr, 0, cancel, &result));
  mica_tensor_free(result);
  mica_cancel_free(cancel);
  mica_model_free(model);
}

TEST(SdkTest, ErrorsNameWhatWasWantedAndWhatCame) {
  mica_model* model = nullptr;
  EXPECT_FAILS(mica_model_load("/nowhere", nullptr, &model), MICA_NOT_FOUND,
               "/nowhere");
  EXPECT_FAILS(mica_model_load(nullptr, nullptr, &model), MICA_INVALID_ARGUMENT,
               "folder is null");
  mica_options options = MICA_OPTIONS_INIT;
  options.threads = 0;
  EXPECT_FAILS(mica_model_load("x", &options, &model), MICA_INVALID_ARGUMENT,
               "options.threads: wants 1 to 1024, got 0");
  options = {};
  EXPECT_FAILS(mica_model_load("x", &options, &model), MICA_INVALID_ARGUMENT,
               "struct_size");
  EXPECT_EQ(model, nullptr);

  model = Load(SaveModel(kScale, "errors"), nullptr);
  mica_tensor* results[2] = {};
  ScaleInputs inputs(2, 1, 1);
  mica_view views[2];
  const auto run = [&](auto change) {
    std::memcpy(views, inputs.views(), sizeof(views));
    change(views[1]);
    return mica_model_run(model, views, nullptr, 0, nullptr, results);
  };
  EXPECT_FAILS(run([](mica_view& y) { y.dtype = MICA_F64; }),
               MICA_INVALID_ARGUMENT, "feed \"y\": wants f32[n,2]");
  EXPECT_FAILS(run([](mica_view& y) { y.rank = 1; }), MICA_INVALID_ARGUMENT,
               "feed \"y\"");
  EXPECT_FAILS(run([](mica_view& y) { y.rank = -1; }), MICA_INVALID_ARGUMENT,
               "wants a rank of 0 to 64, got -1");
  EXPECT_FAILS(run([](mica_view& y) { y.data = nullptr; }),
               MICA_INVALID_ARGUMENT, "\"y\": its data is null");
  EXPECT_FAILS(run([](mica_view& y) { y.dims = nullptr; }),
               MICA_INVALID_ARGUMENT, "\"y\": its dims are null");
  const int64_t huge[] = {int64_t{1} << 62, 2}, negative[] = {-1, 2};
  EXPECT_FAILS(run([&](mica_view& y) { y.dims = huge; }), MICA_INVALID_ARGUMENT,
               "no legal size");
  EXPECT_FAILS(run([&](mica_view& y) { y.dims = negative; }),
               MICA_INVALID_ARGUMENT, "no legal size");
  EXPECT_FAILS(run([](mica_view& y) { y.dtype = static_cast<mica_dtype>(77); }),
               MICA_INVALID_ARGUMENT, "no dtype has the number 77");
  const char* unknown[] = {"nobody"};
  EXPECT_FAILS(
      mica_model_run(model, inputs.views(), unknown, 1, nullptr, results),
      MICA_NOT_FOUND, "nobody");
  EXPECT_FAILS(mica_model_run(model, nullptr, nullptr, 0, nullptr, results),
               MICA_INVALID_ARGUMENT, "inputs is null");
  EXPECT_FAILS(mica_model_run(nullptr, nullptr, nullptr, 0, nullptr, results),
               MICA_INVALID_ARGUMENT, "model is null");
  EXPECT_THAT(results, Each(nullptr));
  mica_model_free(model);
  mica_model_free(nullptr);
  mica_tensor_free(nullptr);
  EXPECT_EQ(mica_error_code(nullptr), MICA_OK);
}

TEST(SdkTest, AnOlderCallersStructsAreShorter) {
  const std::string folder = SaveModel(kScale, "older");
  // One that ends behind `threads`: the rest has its defaults.
  mica_options options = MICA_OPTIONS_INIT;
  options.struct_size = offsetof(mica_options, queue);
  options.max_runs = -5;
  mica_model* model = Load(folder, &options);
  mica_stats stats;
  std::memset(&stats, 0x55, sizeof(stats));
  stats.struct_size = offsetof(mica_stats, failures);
  ASSERT_NO_ERROR(mica_model_stats(model, &stats));
  EXPECT_EQ(stats.runs, 0);
  EXPECT_EQ(stats.failures, 0x5555555555555555);
  mica_model_free(model);
}

}  // namespace
}  // namespace mica
