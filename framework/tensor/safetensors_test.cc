#include "framework/tensor/safetensors.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/file.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::HasSubstr;

std::string TempPath() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(testing::TempDir(), "mica_", test->test_suite_name(), "_",
                      test->name(), ".safetensors");
}

std::string LengthBytes(uint64_t length) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length));
}

// Reads a file made of `bytes`.
absl::StatusOr<NamedTensors> ReadBytes(const std::string& bytes) {
  MICA_RETURN_IF_ERROR(WriteFile(TempPath(), {bytes}));
  return ReadSafetensors(TempPath());
}

absl::StatusOr<NamedTensors> ReadHeaderAndData(const std::string& header,
                                               const std::string& data) {
  return ReadBytes(absl::StrCat(LengthBytes(header.size()), header, data));
}

Tensor MakeF32(Dims dims, float first) {
  Tensor tensor = Tensor::Allocate({.dims = std::move(dims)}).value();
  for (int64_t i = 0; i < tensor.type().num_elements(); ++i) {
    tensor.view().as<float>()[i] = first + static_cast<float>(i);
  }
  return tensor;
}

TEST(SafetensorsTest, MappedTensorsAreTheFilesUntilTheyAreWrittenTo) {
  Tensor mask = Tensor::Allocate({.dtype = DType::kBool, .dims = {3}}).value();
  std::memcpy(mask.data(), "\1\0\1", 3);
  const NamedTensor tensors[] = {{"weight", MakeF32({2, 3}, 1)},
                                 {"mask", mask},
                                 {"empty", MakeF32({0, 7}, 0)}};
  MICA_ASSERT_OK(WriteSafetensors(TempPath(), tensors));
  MICA_ASSERT_OK_AND_ASSIGN(NamedTensors mapped,
                            ReadSafetensors(TempPath(), FileMemory::kMapped));
  MICA_ASSERT_OK_AND_ASSIGN(const NamedTensors own,
                            ReadSafetensors(TempPath()));
  ASSERT_EQ(mapped.tensors.size(), own.tensors.size());
  for (size_t i = 0; i < own.tensors.size(); ++i) {
    const Tensor& tensor = mapped.tensors[i].tensor;
    EXPECT_EQ(tensor.type(), own.tensors[i].tensor.type());
    EXPECT_EQ(std::memcmp(tensor.data(), own.tensors[i].tensor.data(),
                          tensor.type().num_bytes()),
              0);
  }
  // One outlives the others, and the file's name.
  const Tensor weight = mapped.tensors[0].tensor;
  mapped.tensors.clear();
  MICA_ASSERT_OK(WriteSafetensors(TempPath(), {}));
  EXPECT_EQ(weight.view().as<float>()[0], 1);
  weight.view().as<float>()[0] = 5;
  EXPECT_EQ(weight.view().as<float>()[0], 5);
}

TEST(SafetensorsTest, ReadsWhatItWrote) {
  Tensor mask = Tensor::Allocate({.dtype = DType::kBool, .dims = {3}}).value();
  std::memcpy(mask.data(), "\1\0\1", 3);
  std::vector<NamedTensor> complex;
  for (const DType dtype : {DType::kC64, DType::kC128}) {
    Tensor tensor = Tensor::Allocate({.dtype = dtype, .dims = {2}}).value();
    std::memset(tensor.data(), 7, tensor.type().num_bytes());
    complex.push_back({std::string(DTypeName(dtype)), tensor});
  }
  const NamedTensor tensors[] = {{"mask", mask},
                                 complex[0],
                                 complex[1],
                                 {"layer.0.weight", MakeF32({2, 3}, 1)},
                                 {"empty", MakeF32({0, 7}, 0)},
                                 {"scalar", MakeF32({}, 42)}};
  MICA_ASSERT_OK(WriteSafetensors(TempPath(), tensors, {{"format", "pt"}}));
  MICA_ASSERT_OK_AND_ASSIGN(NamedTensors read, ReadSafetensors(TempPath()));

  EXPECT_EQ(read.metadata.at("format"), "pt");
  ASSERT_EQ(read.tensors.size(), 6);
  for (const NamedTensor& wrote : tensors) {
    const auto found = std::find_if(
        read.tensors.begin(), read.tensors.end(),
        [&](const auto& other) { return other.name == wrote.name; });
    ASSERT_NE(found, read.tensors.end()) << wrote.name;
    EXPECT_EQ(found->tensor.type(), wrote.tensor.type());
    EXPECT_EQ(std::memcmp(found->tensor.data(), wrote.tensor.data(),
                          wrote.tensor.type().num_bytes()),
              0);
  }
}

TEST(SafetensorsTest, WritesStridedTensorsRowMajor) {
  Tensor transposed =
      Tensor::Allocate({.dims = {2, 2}, .strides = {1, 2}}).value();
  const float stored[] = {1, 2, 3, 4};
  std::memcpy(transposed.data(), stored, sizeof(stored));
  MICA_ASSERT_OK(WriteSafetensors(TempPath(), {{"t", transposed}}));
  MICA_ASSERT_OK_AND_ASSIGN(NamedTensors read, ReadSafetensors(TempPath()));
  const float* got = read.tensors[0].tensor.view().as<float>();
  EXPECT_THAT(std::vector<float>(got, got + 4),
              testing::ElementsAre(1, 3, 2, 4));
}

TEST(SafetensorsTest, RefusesToWriteNamesThatDontReadBack) {
  const Tensor tensor = MakeF32({1}, 0);
  for (const std::string name : {"__metadata__", "\xff"}) {
    EXPECT_THAT(WriteSafetensors(TempPath(), {{name, tensor}}),
                StatusIs(kInvalid, HasSubstr("UTF-8")));
  }
  EXPECT_THAT(WriteSafetensors(TempPath(), {{"x", tensor}, {"x", tensor}}),
              StatusIs(kInvalid, HasSubstr("used once")));
}

TEST(SafetensorsTest, SaysWhichFileIsMissing) {
  EXPECT_THAT(ReadSafetensors("/nowhere/weights.safetensors"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nowhere/weights.safetensors")));
  EXPECT_THAT(ReadSafetensors(testing::TempDir()),
              StatusIs(kInvalid, HasSubstr("regular file")));
}

TEST(SafetensorsTest, RefusesTruncatedFilesAtEveryLength) {
  MICA_ASSERT_OK(WriteSafetensors(TempPath(), {{"w", MakeF32({2, 3}, 1)}}));
  MICA_ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(TempPath()));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(ReadBytes(whole.substr(0, length)),
                StatusIs(kInvalid, testing::_))
        << length;
  }
  EXPECT_THAT(ReadBytes(whole + "x"), StatusIs(kInvalid, HasSubstr("fill")));
}

TEST(SafetensorsTest, RefusesHeaderLengthsPastTheFile) {
  for (uint64_t length : {uint64_t{3}, uint64_t{1} << 40, ~uint64_t{0}}) {
    EXPECT_THAT(ReadBytes(LengthBytes(length) + "{}"),
                StatusIs(kInvalid, HasSubstr("header of")));
  }
}

TEST(SafetensorsTest, RefusesBoolsThatAreNeither) {
  EXPECT_THAT(
      ReadHeaderAndData(
          R"({"b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2"),
      StatusIs(kInvalid, HasSubstr("bool 1: wants 0 or 1, got 2")));
}

struct BadHeader {
  const char* header;
  int64_t data_bytes;
  const char* message;
};

class SafetensorsHeaderTest : public testing::TestWithParam<BadHeader> {};

TEST_P(SafetensorsHeaderTest, IsRefusedWithTheReason) {
  const BadHeader& bad = GetParam();
  EXPECT_THAT(ParseSafetensorsHeader(bad.header, bad.data_bytes),
              StatusIs(kInvalid, HasSubstr(bad.message)))
      << bad.header;
}

#define MICA_ENTRY(dtype, shape, offsets)          \
  R"({"w":{"dtype":")" dtype R"(","shape":)" shape \
  R"(,"data_offsets":)" offsets "}}"

INSTANTIATE_TEST_SUITE_P(
    Bad, SafetensorsHeaderTest,
    testing::Values(
        BadHeader{"", 0, "JSON"}, BadHeader{"{", 0, "JSON"},
        BadHeader{"[]", 0, "object"}, BadHeader{"{}", 1, "fill 0 of 1"},
        BadHeader{"{\"w\":\"\xff\"}", 0, "JSON"},
        BadHeader{R"({"w":3})", 0, "'w': wants an object"},
        BadHeader{R"({"w":{}})", 0, "lacks 'dtype'"},
        BadHeader{R"({"__metadata__":{"a":1}})", 0, "wants a string"},
        BadHeader{R"({"__metadata__":[]})", 0, "wants an object"},
        BadHeader{R"({"a":{},"a":{}})", 0, "'a' occurs twice"},
        BadHeader{R"({"w":{"dtype":"F32","dtype":"F32"}})", 0, "twice"},
        BadHeader{R"({"w":{"shape":[[[[1]]]]}})", 0, "nested too deep"},
        BadHeader{MICA_ENTRY("F33", "[1]", "[0,4]"), 4, "unknown dtype 'F33'"},
        BadHeader{MICA_ENTRY("F32", "[-1]", "[0,4]"), 4, "non-negative"},
        BadHeader{MICA_ENTRY("F32", "[1.0]", "[0,4]"), 4, "non-negative"},
        BadHeader{MICA_ENTRY("F32", "[1e3]", "[0,4]"), 4, "non-negative"},
        BadHeader{MICA_ENTRY("F32", "[9223372036854775808]", "[0,4]"), 4,
                  "non-negative"},
        BadHeader{MICA_ENTRY("F32", "[99999999999999999999]", "[0,4]"), 4,
                  "non-negative"},
        BadHeader{MICA_ENTRY("F32", "[9223372036854775807,2]", "[0,4]"), 4,
                  "too large"},
        BadHeader{MICA_ENTRY("F32", "[4294967296,4294967296]", "[0,0]"), 0,
                  "too large"},
        BadHeader{MICA_ENTRY("F32", "3", "[0,4]"), 4, "shape: wants a list"},
        BadHeader{MICA_ENTRY("F32", "[1]", "[0]"), 4, "data_offsets"},
        BadHeader{MICA_ENTRY("F32", "[1]", "[4,0]"), 4, "data_offsets"},
        BadHeader{MICA_ENTRY("F32", "[1]", "[0,8]"), 4, "data_offsets"},
        BadHeader{MICA_ENTRY("F32", "[2]", "[0,4]"), 4, "wants 8 bytes"},
        BadHeader{MICA_ENTRY("F32", "[1]", "[4,8]"), 8, "begins at byte 4"},
        BadHeader{R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                  R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                  6, "overlap"},
        BadHeader{R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],)"
                  R"("x":1}})",
                  4, "unknown fields"}));

TEST(SafetensorsTest, SaysThatADTypeIsNotWritten) {
  EXPECT_THAT(ParseSafetensorsHeader(MICA_ENTRY("F8_E4M3", "[1]", "[0,1]"), 1),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("F8_E4M3")));
}

TEST(SafetensorsTest, SurvivesEveryFlippedByte) {
  MICA_ASSERT_OK(WriteSafetensors(
      TempPath(), {{"a", MakeF32({2}, 1)}, {"b", MakeF32({1, 3}, 1)}}));
  MICA_ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(TempPath()));
  for (size_t i = 0; i < whole.size(); ++i) {
    for (char flip : {'\x01', '\x10', '\x80', '\xff'}) {
      std::string bytes = whole;
      bytes[i] ^= flip;
      ReadBytes(bytes).status().IgnoreError();  // Must return.
    }
  }
}

}  // namespace
}  // namespace mica
