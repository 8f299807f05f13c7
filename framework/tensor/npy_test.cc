#include "framework/tensor/npy.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/file.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::HasSubstr;

constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

std::string TempPath() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(testing::TempDir(), "mica_", test->test_suite_name(), "_",
                      test->name(), ".npy");
}

absl::StatusOr<Tensor> ReadBytes(const std::string& bytes) {
  MICA_RETURN_IF_ERROR(WriteFile(TempPath(), {bytes}));
  return ReadNpy(TempPath());
}

// A version 1.0 file.
std::string File(const std::string& header, const std::string& data) {
  const auto length = static_cast<uint16_t>(header.size());
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes.append(reinterpret_cast<const char*>(&length), 2);
  return bytes + header + data;
}

std::string FloatBytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

std::vector<float> Floats(const Tensor& tensor) {
  const float* data = tensor.view().as<float>();
  return std::vector<float>(data, data + tensor.type().num_elements());
}

TEST(NpyTest, ReadsComplexNumbersThatItWrote) {
  for (const DType dtype : {DType::kC64, DType::kC128}) {
    MICA_ASSERT_OK_AND_ASSIGN(
        Tensor tensor, Tensor::Allocate({.dtype = dtype, .dims = {2, 3}}));
    for (int64_t i = 0; i < tensor.type().num_bytes(); ++i) {
      tensor.view().as<uint8_t>()[i] = static_cast<uint8_t>(i);
    }
    MICA_ASSERT_OK(WriteNpy(TempPath(), tensor.view()));
    MICA_ASSERT_OK_AND_ASSIGN(Tensor read, ReadNpy(TempPath()));
    EXPECT_EQ(read.type(), tensor.type());
    EXPECT_EQ(
        std::memcmp(read.data(), tensor.data(), tensor.type().num_bytes()), 0);
  }
}

TEST(NpyTest, ReadsWhatItWrote) {
  for (const Dims& dims : {Dims{}, Dims{3}, Dims{2, 3}, Dims{0, 5}}) {
    MICA_ASSERT_OK_AND_ASSIGN(Tensor tensor, Tensor::Allocate({.dims = dims}));
    for (int64_t i = 0; i < tensor.type().num_elements(); ++i) {
      tensor.view().as<float>()[i] = static_cast<float>(i) / 2;
    }
    MICA_ASSERT_OK(WriteNpy(TempPath(), tensor.view()));
    MICA_ASSERT_OK_AND_ASSIGN(Tensor read, ReadNpy(TempPath()));
    EXPECT_EQ(read.type(), tensor.type());
    EXPECT_EQ(Floats(read), Floats(tensor));
  }
}

TEST(NpyTest, ReadsFortranOrderAsRowMajor) {
  MICA_ASSERT_OK_AND_ASSIGN(
      Tensor read,
      ReadBytes(
          File("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n",
               FloatBytes({1, 4, 2, 5, 3, 6}))));
  EXPECT_EQ(read.type().ToString(), "f32[2,3]");
  EXPECT_THAT(Floats(read), testing::ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(NpyTest, ReadsVersionTwo) {
  const std::string header =
      "{'shape': (2,), 'fortran_order': False, 'descr': '<f4'}";
  const auto length = static_cast<uint32_t>(header.size());
  std::string bytes("\x93NUMPY\x02\x00", 8);
  bytes.append(reinterpret_cast<const char*>(&length), 4);
  MICA_ASSERT_OK_AND_ASSIGN(Tensor read,
                            ReadBytes(bytes + header + FloatBytes({1, 2})));
  EXPECT_THAT(Floats(read), testing::ElementsAre(1, 2));
}

TEST(NpyTest, RefusesTruncatedFilesAtEveryLength) {
  const std::string whole =
      File("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n",
           FloatBytes({1, 2}));
  MICA_ASSERT_OK(ReadBytes(whole));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(ReadBytes(whole.substr(0, length)),
                StatusIs(kInvalid, testing::_))
        << length;
  }
  EXPECT_THAT(ReadBytes(whole + "x"), StatusIs(kInvalid, HasSubstr("9")));
}

TEST(NpyTest, RefusesOtherVersionsAndMagic) {
  std::string bytes = File("{}", "");
  bytes[6] = 9;
  EXPECT_THAT(ReadBytes(bytes), StatusIs(kInvalid, HasSubstr("version 9.0")));
  bytes[0] = 'x';
  EXPECT_THAT(ReadBytes(bytes), StatusIs(kInvalid, HasSubstr("not an npy")));
}

TEST(NpyTest, RefusesBoolsThatAreNeither) {
  EXPECT_THAT(
      ReadBytes(File("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}",
                     "\x07")),
      StatusIs(kInvalid, HasSubstr("got 7")));
}

TEST(NpyTest, HasNoBfloat16) {
  MICA_ASSERT_OK_AND_ASSIGN(
      Tensor tensor, Tensor::Allocate({.dtype = DType::kBF16, .dims = {1}}));
  EXPECT_THAT(WriteNpy(TempPath(), tensor.view()),
              StatusIs(kUnimplemented, HasSubstr("bf16")));
}

struct BadHeader {
  const char* header;
  absl::StatusCode code;
  const char* message;
};

class NpyHeaderTest : public testing::TestWithParam<BadHeader> {};

TEST_P(NpyHeaderTest, IsRefusedWithTheReason) {
  EXPECT_THAT(ParseNpyHeader(GetParam().header),
              StatusIs(GetParam().code, HasSubstr(GetParam().message)))
      << GetParam().header;
}

#define MICA_HEADER(descr, shape) \
  "{'descr': " descr ", 'fortran_order': False, 'shape': " shape "}"

INSTANTIATE_TEST_SUITE_P(
    Bad, NpyHeaderTest,
    testing::Values(
        BadHeader{"", kInvalid, "wants \"{\""},
        BadHeader{"{}", kInvalid, "wants descr"},
        BadHeader{"{'descr'", kInvalid, "wants \":\""},
        BadHeader{"{'descr: ", kInvalid, "plain string"},
        BadHeader{"{'a\\'b': 1}", kInvalid, "plain string"},
        BadHeader{"{'other': 1}", kInvalid, "unknown or repeated"},
        BadHeader{"{'descr': '<f4', 'descr': '<f4'}", kInvalid, "repeated"},
        BadHeader{MICA_HEADER("'<f4'", "(2,)") "x", kInvalid, "after its end"},
        BadHeader{MICA_HEADER("'>f4'", "(2,)"), kUnimplemented, ">f4"},
        BadHeader{MICA_HEADER("'|O'", "(2,)"), kUnimplemented, "|O"},
        BadHeader{MICA_HEADER("[('a','<f4')]", "(2,)"), kInvalid, "wants"},
        BadHeader{MICA_HEADER("'<f4'", "(2)"), kInvalid, "tuple"},
        BadHeader{MICA_HEADER("'<f4'", "(-2,)"), kInvalid, "non-negative"},
        BadHeader{MICA_HEADER("'<f4'", "(,)"), kInvalid, "non-negative"},
        BadHeader{MICA_HEADER("'<f4'", "(2,"), kInvalid, "wants"},
        BadHeader{MICA_HEADER("'<f4'", "(99999999999999999999,)"), kInvalid,
                  "non-negative"},
        BadHeader{MICA_HEADER("'<f4'", "(4294967296, 4294967296)"), kInvalid,
                  "too large"}));

}  // namespace
}  // namespace mica
