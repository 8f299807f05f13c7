#include "analysis/fuse/recurrent.h"

#include <string>

#include "absl/strings/str_replace.h"
#include "analysis/fuse/forward_writes.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Forwarded(absl::string_view text, bool fuse_recurrent) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  if (!program.ok()) return "";
  absl::StatusOr<Program> forwarded = ForwardWrites(*program, AllOps());
  EXPECT_THAT(forwarded, IsOk());
  if (!forwarded.ok()) return "";
  if (!fuse_recurrent) return ToText(*forwarded);
  absl::StatusOr<Program> fused =
      FuseRecurrent(*forwarded, AllOps(), AllKernels());
  EXPECT_THAT(fused, IsOk());
  return fused.ok() ? ToText(*fused) : "";
}

// Columns 0..3 of f32[2,12] are written, then a window is read.
std::string ReadAfterWrite(absl::string_view offset) {
  constexpr absl::string_view kText =
      R"(program @f(%x: f32[2,12], %y: f32[2,4]) {
  %s = aten.sigmoid(%y) : f32[2,4]
  %z = mica.scatter_view(%x, %s, [2,4], [12,1], 0) : f32[2,12]
  %w = aten.as_strided(%z, [2,4], [12,1], OFFSET) : f32[2,4]{12,1}
  %r = aten.relu(%w) : f32[2,4]
  return %r
}
)";
  return Forwarded(absl::StrReplaceAll(kText, {{"OFFSET", offset}}), false);
}

TEST(ForwardWritesTest, AReadOfWhatWasWrittenIsIt) {
  EXPECT_THAT(ReadAfterWrite("0"), HasSubstr("aten.relu(%s)"));
}

TEST(ForwardWritesTest, AReadBesideTheWriteComesFromBefore) {
  const std::string text = ReadAfterWrite("4");
  EXPECT_THAT(text, HasSubstr("aten.as_strided(%x, "));
  EXPECT_THAT(text, Not(HasSubstr("scatter_view")));
}

TEST(ForwardWritesTest, AReadThatOverlapsTheWriteStays) {
  EXPECT_THAT(ReadAfterWrite("2"), HasSubstr("aten.as_strided(%z, "));
}

constexpr absl::string_view kGru =
    R"(program @f(%ig: f32[3,2,12], %hg: f32[2,12], %h: f32[2,4]) {
  %hr = aten.as_strided(%hg, [2,4], [12,1], 0) : f32[2,4]{12,1}
  %hz = aten.as_strided(%hg, [2,4], [12,1], 4) : f32[2,4]{12,1}
  %hn = aten.as_strided(%hg, [2,4], [12,1], 8) : f32[2,4]{12,1}
  %ir = aten.as_strided(%ig, [2,4], [12,1], RESET) : f32[2,4]{12,1}
  %iz = aten.as_strided(%ig, [2,4], [12,1], 28) : f32[2,4]{12,1}
  %in = aten.as_strided(%ig, [2,4], [12,1], 32) : f32[2,4]{12,1}
  %r0 = aten.add.Tensor(%hr, %ir) : f32[2,4]
  %r = aten.sigmoid(%r0) : f32[2,4]
  %z0 = aten.add.Tensor(%hz, %iz) : f32[2,4]
  %z = aten.sigmoid(%z0) : f32[2,4]
  %m = aten.mul.Tensor(%hn, %r) : f32[2,4]
  %n0 = aten.add.Tensor(%in, %m) : f32[2,4]
  %n = aten.tanh(%n0) : f32[2,4]
  %d = aten.sub.Tensor(%h, %n) : f32[2,4]
  %e = aten.mul.Tensor(%d, %z) : f32[2,4]
  %y = aten.add.Tensor(%e, %n) : f32[2,4]
  return %y
}
)";

TEST(FuseRecurrentTest, GatesOfAGruAreOneCell) {
  const std::string text =
      Forwarded(absl::StrReplaceAll(kGru, {{"RESET", "24"}}), true);
  EXPECT_THAT(text, HasSubstr("aten.as_strided(%ig, [2, 12], [12, 1], "
                              "storage_offset=24)"));
  EXPECT_THAT(text, HasSubstr("mica.gru_cell("));
  EXPECT_THAT(text, Not(HasSubstr("aten.tanh")));
}

TEST(FuseRecurrentTest, GatesOutOfOrderAreNoCell) {
  EXPECT_THAT(Forwarded(absl::StrReplaceAll(kGru, {{"RESET", "0"}}), true),
              Not(HasSubstr("gru_cell")));
}

}  // namespace
}  // namespace mica
