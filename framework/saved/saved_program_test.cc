#include "framework/saved/saved_program.h"

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/file.h"
#include "framework/base/test_matchers.h"
#include "framework/op/op_registry.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kSaved[] = R"(program @keep(%x: f32[2]) {
  %w = variable "fc.weight" : f32[2,3]{1,2}
  %b = variable "fc.bias" : f32[2]
  update "fc.bias" = %x
  return %b
}
)";

class SavedProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(testing::TempDir(), "mica_saved_", test->name());
    std::filesystem::remove_all(folder_);
  }

  Tensor Filled(TensorType type, float first) {
    auto tensor = Tensor::Allocate(type);
    ExpectOk(tensor.status());
    float* data = tensor->view().as<float>();
    for (int i = 0; i < type.num_elements(); ++i) data[i] = first + i;
    return *std::move(tensor);
  }
  static void ExpectOk(const absl::Status& status) { MICA_EXPECT_OK(status); }

  SavedProgram Make(float first = 1) {
    auto program = ParseProgram(kSaved, registry_);
    ExpectOk(program.status());
    return {.program = std::make_shared<const Program>(*std::move(program)),
            .variables = {Filled({.dims = {2, 3}, .strides = {1, 2}}, first),
                          Filled({.dims = {2}}, first)},
            .signature = "{}"};
  }
  // Writes weights of these tensors into the folder, and reads it.
  absl::Status ReadWith(const std::vector<NamedTensor>& tensors) {
    ExpectOk(WriteSavedProgram(folder_, Make()));
    ExpectOk(WriteSafetensors(WeightsFileOf(folder_), tensors));
    return ReadSavedProgram(folder_, registry_).status();
  }

  OpRegistry registry_;
  std::string folder_;
};

TEST_F(SavedProgramTest, ReadsBackWhatWasWritten) {
  const SavedProgram saved = Make();
  MICA_ASSERT_OK(WriteSavedProgram(folder_, saved));
  MICA_ASSERT_OK_AND_ASSIGN(const SavedProgram back,
                            ReadSavedProgram(folder_, registry_));
  EXPECT_EQ(ToText(*back.program), kSaved);
  EXPECT_EQ(back.signature, "{}");
  ASSERT_EQ(back.variables.size(), 2);
  for (int i = 0; i < 2; ++i) {
    const Tensor& want = saved.variables[i];
    EXPECT_EQ(back.variables[i].type(), want.type());
    EXPECT_EQ(std::memcmp(back.variables[i].data(), want.data(),
                          want.type().num_bytes()),
              0);
  }
}

TEST_F(SavedProgramTest, ReplacesAnEarlierOneAndLeavesNothingBeside) {
  MICA_ASSERT_OK(WriteSavedProgram(folder_, Make(1)));
  MICA_ASSERT_OK(WriteSavedProgram(folder_ + "/", Make(7)));
  MICA_ASSERT_OK_AND_ASSIGN(const SavedProgram back,
                            ReadSavedProgram(folder_, registry_));
  EXPECT_EQ(back.variables[1].view().as<float>()[0], 7);
  int beside = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::TempDir())) {
    beside += entry.path().string().rfind(folder_ + ".", 0) == 0;
  }
  EXPECT_EQ(beside, 0);
}

TEST_F(SavedProgramTest, LeavesAlienFoldersAndFilesAlone) {
  std::filesystem::create_directories(folder_ + "/thesis");
  EXPECT_THAT(WriteSavedProgram(folder_, Make()),
              StatusIs(kInvalid, HasSubstr("something else")));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/thesis"));
  std::filesystem::remove_all(folder_);
  MICA_ASSERT_OK(WriteFile(folder_, {"text"}));
  EXPECT_THAT(WriteSavedProgram(folder_, Make()),
              StatusIs(kInvalid, HasSubstr("no folder")));
  std::filesystem::remove_all(folder_);
}

TEST_F(SavedProgramTest, WeightsThatDoNotFitAreNamed) {
  const Tensor w = Filled({.dims = {2, 3}}, 0);
  const Tensor b = Filled({.dims = {2}}, 0);
  MICA_EXPECT_OK(ReadWith({{"fc.weight", w}, {"fc.bias", b}}));
  EXPECT_THAT(
      ReadWith({{"fc.weight", w}}),
      StatusIs(kInvalid, AllOf(HasSubstr("weights.safetensors: variable "
                                         "\"fc.bias\" is missing"),
                               HasSubstr("f32[2]"))));
  EXPECT_THAT(ReadWith({{"fc.weight", w}, {"fc.bias", w}}),
              StatusIs(kInvalid, HasSubstr("\"fc.bias\": program @keep wants "
                                           "f32[2], got f32[2,3]")));
  EXPECT_THAT(
      ReadWith({{"fc.weight", w},
                {"fc.bias", Filled({.dtype = DType::kI32, .dims = {2}}, 0)}}),
      StatusIs(kInvalid, HasSubstr("wants f32[2], got i32[2]")));
  EXPECT_THAT(
      ReadWith({{"fc.weight", w}, {"fc.bias", b}, {"fc.gain", b}}),
      StatusIs(kInvalid, HasSubstr("\"fc.gain\", f32[2], is no variable")));
}

TEST_F(SavedProgramTest, HalfAFileIsNamed) {
  for (const auto& file : {ProgramFileOf(folder_), WeightsFileOf(folder_)}) {
    MICA_ASSERT_OK(WriteSavedProgram(folder_, Make()));
    MICA_ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(file));
    for (const size_t size :
         {size_t{0}, size_t{5}, bytes.size() / 2, bytes.size() - 2}) {
      MICA_ASSERT_OK(WriteFile(file, {bytes.substr(0, size)}));
      EXPECT_THAT(ReadSavedProgram(folder_, registry_).status(),
                  StatusIs(kInvalid, HasSubstr(file)));
    }
    std::filesystem::remove(file);
    EXPECT_THAT(ReadSavedProgram(folder_, registry_).status(),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr(file)));
    std::filesystem::remove_all(folder_);
  }
}

TEST_F(SavedProgramTest, OpaqueOpsAreRefusedWithTheUsersLine) {
  SavedProgram saved = Make();
  MICA_ASSERT_OK_AND_ASSIGN(Program program, ParseProgram(R"(
program @odd(%x: f32[2]) {
  opaque "aten::frob(Tensor x) -> Tensor"
  %y = aten.frob(%x) : f32[2] @ "model.py":12
  %z = aten.frob(%y) : f32[2] @ "model.py":12
  return %z
})",
                                                          registry_));
  saved.program = std::make_shared<const Program>(std::move(program));
  saved.variables.clear();
  EXPECT_THAT(
      WriteSavedProgram(folder_, saved),
      StatusIs(absl::StatusCode::kUnimplemented,
               HasSubstr("only ATen can run: aten.frob (model.py:12)")));
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

}  // namespace
}  // namespace mica
