#include "analysis/passes/verify.h"

#include <string>

#include "analysis/program_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/program_editor.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr absl::string_view kChain = R"(program @f(%x: f32[2,3]) {
  %a = aten.relu(%x) : f32[2,3] @ "f.py":3
  %b = aten.sum.dim_IntList(%a, [1], true) : f32[2,1] @ "f.py":4
  update %x = %a
  return %b
}
)";

constexpr absl::string_view kBranch = R"(program @f(%x: f32[8], %p: bool[]) {
  %y = mica.if(%p, [%x]) : f32[8]
    then(%a: f32[8]) {
      %b = aten.relu(%a) : f32[8] @ "f.py":7
      return %b
    }
    else(%a: f32[8]) {
      %n = aten.neg(%a) : f32[8]
      return %n
    }
  return %y
}
)";

TEST(VerifyTest, TakesWhatABuilderMade) {
  MICA_EXPECT_OK(Verify(Parse(kChain)));
  MICA_EXPECT_OK(Verify(Parse(kBranch)));
}

TEST(VerifyTest, NamesTheOpThatReadsWhatStandsBehindIt) {
  ProgramEditor editor(Parse(kChain));
  const ValueId later = editor.program().FindValue("b");
  editor.arguments(0)[0] = ValueRef{later};
  EXPECT_THAT(Verify(editor.Freeze()),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("%b"), HasSubstr("aten.relu"),
                             HasSubstr("f.py:3"))));
}

TEST(VerifyTest, FindsTypesThatDontFollow) {
  ProgramEditor editor(Parse(kChain));
  editor.MapTypes([](TensorType type) {
    if (type.dims == Dims{2, 1}) type.dims = {2, 2};
    return type;
  });
  EXPECT_THAT(Verify(editor.Freeze()),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("f32[2,1]"), HasSubstr("f32[2,2]"))));
}

TEST(VerifyTest, FindsArgumentsOfAnotherKind) {
  ProgramEditor editor(Parse(kChain));
  editor.arguments(1)[1] = std::string("rows");
  EXPECT_THAT(Verify(editor.Freeze()), testing::Not(IsOk()));
}

TEST(VerifyTest, LooksIntoBodies) {
  ProgramEditor editor(Parse(kBranch));
  editor.bodies(0)[0].MapTypes([](TensorType type) {
    type.dims = {9};
    return type;
  });
  EXPECT_THAT(Verify(editor.Freeze()), testing::Not(IsOk()));
}

}  // namespace
}  // namespace mica
