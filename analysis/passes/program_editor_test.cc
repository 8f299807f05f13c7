#include "framework/ir/program_editor.h"

#include <string>
#include <vector>

#include "analysis/program_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

constexpr absl::string_view kText = R"(program @f(%x: f32[8], %p: bool[]) {
  %k = constant [1.0, 2.0] : f32[2]
  %y = mica.if(%p, [%x]) : f32[8] @ "f.py":1
    then(%a: f32[8]) {
      %b = aten.mul.Scalar(%a, 2.0) : f32[8] @ "f.py":2
      return %b
    }
    else(%a: f32[8]) {
      %n = aten.neg(%a) : f32[8]
      return %n
    }
  return %y, %k
}
)";

TEST(ProgramEditorTest, ChangesACopyBodiesToo) {
  const Program program = Parse(kText);
  const std::string before = ToText(program);
  ProgramEditor editor(program);
  editor.source(0).line = 11;
  ProgramEditor& then = editor.bodies(0)[0];
  then.source(0).line = 12;
  then.arguments(0)[1] = 3.0;
  const auto wider = [](TensorType type) {
    if (type.dims == Dims{8}) type.dims = {16};
    return type;
  };
  editor.MapTypes(wider);
  for (ProgramEditor& body : editor.bodies(0)) body.MapTypes(wider);
  const std::string after = ToText(editor.Freeze());
  EXPECT_EQ(ToText(program), before);
  EXPECT_EQ(after, ToText(Parse(R"(program @f(%x: f32[16], %p: bool[]) {
  %k = constant [1.0, 2.0] : f32[2]
  %y = mica.if(%p, [%x]) : f32[16] @ "f.py":11
    then(%a: f32[16]) {
      %b = aten.mul.Scalar(%a, 3.0) : f32[16] @ "f.py":12
      return %b
    }
    else(%a: f32[16]) {
      %n = aten.neg(%a) : f32[16]
      return %n
    }
  return %y, %k
}
)")));
}

TEST(ProgramEditorTest, ConstantsKeepTheirSize) {
  ProgramEditor editor(Parse(kText));
  EXPECT_THAT(editor.SetConstant(0, std::vector<uint8_t>(4)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("f32[2], got 4 bytes")));
  MICA_EXPECT_OK(editor.SetConstant(0, std::vector<uint8_t>(8)));
  EXPECT_EQ(editor.Freeze().constants()[0].bytes, std::vector<uint8_t>(8));
}

}  // namespace
}  // namespace mica
