#include "framework/text/text.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/program_builder.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

absl::StatusOr<TensorTypes> SameAsFirst(const OpCall& call) {
  return TensorTypes{
      TensorType{.dtype = call.Type(0).dtype, .dims = call.Type(0).dims}};
}

absl::StatusOr<TensorTypes> InferMm(const OpCall& call) {
  const TensorType& a = call.Type(0);
  const TensorType& b = call.Type(1);
  if (a.rank() != 2 || b.rank() != 2 || a.dims[1] != b.dims[0]) {
    return call.Wants("[m,k] and [k,n]");
  }
  return TensorTypes{{.dtype = a.dtype, .dims = {a.dims[0], b.dims[1]}}};
}

absl::StatusOr<TensorTypes> InferMax(const OpCall& call) {
  TensorType values{.dtype = call.Type(0).dtype, .dims = call.Type(0).dims};
  values.dims[call.Int(1)] = 1;
  return TensorTypes{values, {.dtype = DType::kI64, .dims = values.dims}};
}

absl::StatusOr<TensorTypes> InferFull(const OpCall& call) {
  return TensorTypes{{.dims = Dims(call.Ints(0).begin(), call.Ints(0).end())}};
}

absl::StatusOr<TensorTypes> InferFirstOfList(const OpCall& call) {
  return TensorTypes{*call.Types(0)[0]};
}

const OpRegistry& TestOps() {
  static const OpRegistry& registry = *[] {
    auto* ops = new OpRegistry;
    ops->Add(
        OpDef("aten::mm(Tensor self, Tensor mat2) -> Tensor").Infer(InferMm));
    ops->Add(OpDef("aten::relu(Tensor self) -> Tensor").Infer(SameAsFirst));
    ops->Add(OpDef("aten::add.Tensor(Tensor self, Tensor other, *, "
                   "Scalar alpha=1) -> Tensor")
                 .Infer(SameAsFirst));
    ops->Add(OpDef("aten::mul.Scalar(Tensor self, Scalar other) -> Tensor")
                 .Infer(SameAsFirst));
    ops->Add(OpDef("aten::max.dim(Tensor self, int dim, bool keepdim=False)"
                   " -> (Tensor values, Tensor indices)")
                 .Infer(InferMax));
    ops->Add(OpDef("aten::cat(Tensor[] tensors, int dim=0) -> Tensor")
                 .Infer(InferFirstOfList));
    ops->Add(OpDef("aten::index.Tensor(Tensor self, Tensor?[] indices)"
                   " -> Tensor")
                 .Infer(SameAsFirst));
    ops->Add(OpDef("aten::gelu(Tensor self, *, str approximate=\"none\")"
                   " -> Tensor")
                 .Infer(SameAsFirst));
    ops->Add(OpDef("aten::to.dtype(Tensor self, ScalarType dtype, "
                   "bool copy=False) -> Tensor")
                 .Infer(SameAsFirst));
    ops->Add(OpDef("aten::full(int[] size, Scalar fill_value) -> Tensor")
                 .Infer(InferFull));
    ops->Add(OpDef("aten::layer_norm(Tensor self, int[] shape, Tensor? "
                   "weight=None, float eps=1e-05) -> Tensor")
                 .Infer(SameAsFirst));
    ops->Add(OpDef("test::lists(Tensor self, float[] a, bool[] b) -> Tensor")
                 .Infer(SameAsFirst));
    return ops;
  }();
  return registry;
}

// `body` as the body of a Program with inputs x, y: f32[2,3], z: f32[3,4],
// i: i64[2,3], lr: f64.
std::string InProgram(absl::string_view body) {
  return absl::StrCat(
      "program @test(%x: f32[2,3], %y: f32[2,3], %z: f32[3,4], %i: i64[2,3], "
      "%lr: f64) {\n",
      body, "}\n");
}

absl::StatusOr<Program> ParseBody(absl::string_view body) {
  return ParseProgram(InProgram(body), TestOps());
}

void ExpectFixpoint(absl::string_view text) {
  MICA_ASSERT_OK_AND_ASSIGN(Program program, ParseProgram(text, TestOps()));
  EXPECT_EQ(ToText(program), text);
}

// What `body`, all of it legal, looks like in canonical form.
std::string Canonical(absl::string_view body) {
  absl::StatusOr<Program> program = ParseBody(body);
  if (!program.ok()) return program.status().ToString();
  return absl::StrReplaceAll(ToText(*program), {{InProgram(""), ""}});
}

TEST(TextTest, PrintsWhatItParsed) {
  ExpectFixpoint(
      R"(program @mlp(%x: f32[32,784], %lr: f64, %mask: bool[]) {
  opaque "aten::foo(Tensor self, int[] size) -> Tensor"
  opaque "test::scale(Tensor self, Scalar by, ScalarType dtype) -> Tensor"
  %w = variable "fc.weight" : f32[784,10]
  %s = variable "odd \"name\"\n" : bf16[2,3,4]{1,2,6}
  %c = constant [1.0, -inf] : f32[2]
  %n = constant 3 : i64
  %e = constant [] : f32[0,4]
  %zero = constant splat 0.0 : f32[3,5]
  %t = constant [true] : bool[]
  %j = constant [complex(0.0,1.0), complex(-inf,nan(7fc00001))] : c64[2]
  %k = constant complex(-0.0,2.5) : c128
  %h = aten.mm(%x, %w) : f32[32,10] @ "model.py":12
  %0 = aten.relu(%h) : f32[32,10]{1,32} @ "model.py":13
  %a = aten.add.Tensor(%0, %h, alpha=2) : f32[32,10]
  %b = aten.mul.Scalar(%a, 0.5) : f32[32,10]
  %d = aten.mul.Scalar(%a, %lr) : f32[32,10]
  %v, %i = aten.max.dim(%d, 1, keepdim=true) : f32[32,1], i64[32,1]
  %u = aten.cat([%v, %v], dim=1) : f32[32,1]
  %r = aten.index.Tensor(%v, [none, %i]) : f32[32,1]
  %g = aten.gelu(%b, approximate="tanh") : f32[32,10]
  %f = aten.foo(%g, [4, 5]) : f32[4,5]
  %q = aten.to.dtype(%g, f64) : f32[32,10]
  %p = test.scale(%j, complex(0.5,-1.0), c64) : c64[2]
  %l = aten.layer_norm(%g, [10], eps=1e-06) : f32[32,10]
  %m = test.lists(%g, [1.0, nan], [true, false]) : f32[32,10]
  update "fc.weight" = %w
  update %x = %x
  return %l, %m
}
)");
}

TEST(TextTest, PrintsEmptyPrograms) {
  ExpectFixpoint("program @\"two words\"() {\n  return\n}\n");
  ExpectFixpoint("program @f(%\"a b\": f32[]) {\n  return %\"a b\"\n}\n");
}

TEST(TextTest, PrintsSymbolsByName) {
  ExpectFixpoint(R"(program @f(%x: f32[batch,784], %2: f32["none",1]) {
  %y = aten.relu(%x) : f32[batch,784]
  %z = aten.full([batch, -1, 3, "inf"], 1) : f32[batch,"\n"]
  return %y
}
)");
}

TEST(TextTest, IgnoresBlanksCommentsAndOrder) {
  EXPECT_EQ(Canonical("%a=aten.mm(mat2 = %z,self=%x):f32[ 2, 4 ] // product\n"
                      "\t%w = variable\"w\":f32[] return %a"),
            InProgram("  %w = variable \"w\" : f32[]\n"
                      "  %a = aten.mm(%x, %z) : f32[2,4]\n"
                      "  return %a\n"));
}

TEST(TextTest, LeavesOutDefaultsAndRowMajorStrides) {
  EXPECT_EQ(Canonical("%a = aten.add.Tensor(%x, %y, 1) : f32[2,3]{3,1}\n"
                      "%b = aten.add.Tensor(%x, %y, alpha=1.0) : f32[2,3]\n"
                      "return"),
            InProgram("  %a = aten.add.Tensor(%x, %y) : f32[2,3]\n"
                      "  %b = aten.add.Tensor(%x, %y, alpha=1.0) : f32[2,3]\n"
                      "  return\n"));
}

TEST(TextTest, LeavesOutSourcesOnRequest) {
  MICA_ASSERT_OK_AND_ASSIGN(
      Program program,
      ParseBody("%a = aten.relu(%x) : f32[2,3] @ \"m.py\":7\nreturn"));
  EXPECT_EQ(ToText(program, {.print_sources = false}),
            InProgram("  %a = aten.relu(%x) : f32[2,3]\n  return\n"));
  EXPECT_EQ(program.ops()[0].source.ToString(), "m.py:7");
}

TEST(TextTest, KeepsScopes) {
  const std::string body =
      "  %a = aten.relu(%x) : f32[2,3] @ \"m.py\":7 in \"layers.0\"\n"
      "  %b = aten.relu(%a) : f32[2,3] backward \"layers.0\"\n"
      "  %c = aten.relu(%b) : f32[2,3] @ \"m.py\":8 backward \"\"\n"
      "  return\n";
  EXPECT_EQ(Canonical(body), InProgram(body));
  MICA_ASSERT_OK_AND_ASSIGN(Program program, ParseBody(body));
  EXPECT_EQ(program.ops()[0].source.scope, program.ops()[1].source.scope);
  EXPECT_FALSE(program.ops()[0].source.is_backward);
  EXPECT_TRUE(program.ops()[2].source.is_backward);
  EXPECT_EQ(program.ops()[2].source.scope, nullptr);
  EXPECT_THAT(ParseBody("%a = aten.relu(%x) : f32[2,3] in layers\nreturn"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("a scope in quotes")));
}

TEST(TextTest, KeepsNumbersApart) {
  MICA_ASSERT_OK_AND_ASSIGN(
      Program program,
      ParseBody("%a = aten.mul.Scalar(%x, 2) : f32[2,3]\n"
                "%b = aten.mul.Scalar(%x, 2.0) : f32[2,3]\n"
                "%c = aten.mul.Scalar(%x, true) : f32[2,3]\n"
                "%d = aten.mul.Scalar(%x, -9223372036854775808) : f32[2,3]\n"
                "%e = aten.mul.Scalar(%x, -inf) : f32[2,3]\nreturn"));
  auto argument = [&](int op) { return program.ops()[op].arguments[1]; };
  EXPECT_EQ(argument(0), Argument(int64_t{2}));
  EXPECT_EQ(argument(1), Argument(2.0));
  EXPECT_EQ(argument(2), Argument(true));
  EXPECT_EQ(argument(3), Argument(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(argument(4), Argument(-std::numeric_limits<double>::infinity()));
}

TEST(TextTest, FillsSplats) {
  MICA_ASSERT_OK_AND_ASSIGN(
      Program program, ParseBody("%a = constant splat 2.5 : f32[3,4]\nreturn"));
  const std::vector<uint8_t>& bytes = program.constants()[0].bytes;
  ASSERT_EQ(bytes.size(), 48u);
  for (int i = 0; i < 12; ++i) {
    float element = 0;
    std::memcpy(&element, &bytes[4 * i], 4);
    EXPECT_EQ(element, 2.5f);
  }
}

struct BadCase {
  std::string body;
  std::string place;
  std::string message;
  absl::StatusCode code = kInvalid;
};

TEST(TextTest, NamesThePlaceTheOpAndWhatWasWanted) {
  const std::vector<BadCase> cases = {
      {"%a = aten.mm(%x, %y) : f32[2,3]\nreturn", "2:6", "[m,k] and [k,n]"},
      {"%a = aten.mm(%x, %z) : f32[2,5]\nreturn", "2:6",
       "aten.mm: result is f32[2,4], but the program says f32[2,5]"},
      {"%a = aten.mm(%x, %z) : f64[2,4]\nreturn", "2:6", "f64[2,4]"},
      {"%a = aten.relu(%b) : f32[2,3]\n%b = aten.relu(%a) : f32[2,3]\nreturn",
       "2:16", "aten.relu: %b is not defined before its use"},
      {"%a = aten.relu(%a) : f32[2,3]\nreturn", "2:16", "%a is not defined"},
      {"return %a", "2:8", "%a is not defined"},
      {"%x = aten.relu(%x) : f32[2,3]\nreturn", "2:6", "%x is defined twice"},
      {"%a = aten.nope(%x) : f32[2,3]\nreturn", "2:6", "aten.nope",
       absl::StatusCode::kNotFound},
      {"%a = aten.mm(%x) : f32[2,3]\nreturn", "2:13",
       "aten.mm: wants a tensor for mat2, got nothing"},
      {"%a = aten.mm(%x, 3) : f32[2,3]\nreturn", "2:6", "aten.mm"},
      {"%a = aten.mm(%x, %z, %z) : f32[2,3]\nreturn", "2:22",
       "aten.mm: wants at most 2 arguments"},
      {"%a = aten.mm(%x, mat3=%z) : f32[2,3]\nreturn", "2:18",
       "aten.mm: wants one of its parameters, got 'mat3'"},
      {"%a = aten.mm(%x, self=%z) : f32[2,3]\nreturn", "2:18",
       "each argument once"},
      {"%a = aten.mm(self=%x, %z) : f32[2,3]\nreturn", "2:23", "name=value"},
      {"%a = aten.relu(%x)\nreturn", "2:6", "wants a type for each of 1"},
      {"%a, %b = aten.relu(%x) : f32[2,3], f32[2,3]\nreturn", "2:10",
       "aten.relu"},
      {"%a = aten.relu(%x) : g32[2,3]\nreturn", "2:22", "such as f32[2,3]"},
      {"%a = aten.relu(%x) : f32[2,-3]\nreturn", "2:22",
       "aten.relu: wants sizes that are not negative"},
      {"%a = variable \"w\" : f32[1000000000,1000000000]\nreturn", "2:21",
       "bytes in all, got f32[1000000000,1000000000]"},
      {"%a = variable \"w\" : f32[2]{1,2}\nreturn", "2:21", "1 strides, got 2"},
      {"%a = variable \"w\" : f32[99999999999999999999]\nreturn", "2:25",
       "a dim"},
      {"%a = constant [1.0] : f32[1000000000]\nreturn", "2:23",
       "for a list of 1"},
      {"%a = constant splat 1.0 : f32[1000000000]\nreturn", "2:27",
       "splats take more"},
      {"%a = constant [1.5] : i64[1]\nreturn", "2:16", "element of i64"},
      {"%a = constant [complex(1.0)] : c64[1]\nreturn", "2:16",
       "element of c64"},
      {"%a = constant [1.0] : c64[1]\nreturn", "2:16", "element of c64"},
      {"%a = aten.mul.Scalar(%x, complex(0.0,1.0)) : f32[2,3]\nreturn", "2:6",
       "argument 'other' is of the wrong kind"},
      {"%c = constant [complex(0.0,1.0)] : c64[1]\n"
       "%a = aten.relu(%c) : c64[1]\nreturn",
       "3:6", "aten.relu: wants real numbers, got c64[1]"},
      {"%a = aten.relu(%x) : c64[2,3]\nreturn", "2:6", "c64[2,3]"},
      {"%a = constant [1.0] : f32[n]\nreturn", "2:23", "f32[n]"},
      {"%a = constant 1.0 : f32[1]\nreturn", "2:21", "for a number"},
      {"%a = variable \"w\" : f32[1]\n%b = variable \"w\" : f32[1]\nreturn",
       "3:1", "\"w\" is declared twice"},
      {"update \"w\" = %x\nreturn", "2:8", "no variable \"w\""},
      {"update %x = %z\nreturn", "2:8", "wants f32[2,3], got f32[3,4]"},
      {"update %x = %y\n%a = aten.relu(%x) : f32[2,3]\nreturn", "3:6",
       "after an update"},
      {"opaque \"aten::foo(\"\nreturn", "2:8", "schema"},
      {"opaque \"aten::relu(Tensor self) -> Tensor\"\nreturn", "2:8",
       "Mica knows it"},
      {"opaque \"aten::foo(Tensor a, Tensor a) -> Tensor\"\nreturn", "2:8",
       "each of them once"},
      {"%a = aten.relu(%x) : f32[2,3] @ \"m.py\":0\nreturn", "2:40", "a line"},
      {"%a = variable \"w\n", "2:15", "wants a variable's name"},
      {"%a = variable \"\\q\" : f32[]\nreturn", "2:15", "unknown escape"},
      {"%a = aten.full([2, -9223372036854775808], 1) : f32[2]\nreturn", "2:20",
       "wants an integer or a symbol"},
      {"%a", "2:3", "wants '=', got '}'"},
      {"return }}", "2:9", "wants the end of the text"},
      {"", "2:1", "wants a statement"},
  };
  for (const BadCase& bad : cases) {
    EXPECT_THAT(ParseBody(bad.body),
                StatusIs(bad.code, AllOf(StartsWith(bad.place + ": "),
                                         HasSubstr(bad.message))))
        << bad.body;
  }
}

TEST(TextTest, RefusesEveryTruncation) {
  const std::string text = InProgram(
      "  %w = variable \"fc\" : f32[2,3]\n"
      "  %c = constant [1.0, nan(7fc00001)] : f32[2]\n"
      "  %d = constant [complex(1.0,nan(7fc00001))] : c64[1]\n"
      "  %v, %i2 = aten.max.dim(%x, 1, keepdim=true) : f32[2,1], i64[2,1]"
      " @ \"m.py\":3\n"
      "  update \"fc\" = %x\n  return %v\n");
  MICA_ASSERT_OK(ParseProgram(text, TestOps()));
  for (size_t size = 0; size + 2 <= text.size(); ++size) {
    EXPECT_FALSE(ParseProgram(text.substr(0, size), TestOps()).ok()) << size;
  }
}

TEST(TextTest, RefusesTooManyDimsAndSymbols) {
  std::string dims = "1";
  for (int i = 0; i < 64; ++i) dims += ",1";
  EXPECT_THAT(
      ParseBody(absl::StrCat("%a = variable \"w\" : f32[", dims, "] return")),
      StatusIs(kInvalid, HasSubstr("more than 64 dims")));
  std::string body;
  for (int i = 0; i < 10'001; ++i) {
    absl::StrAppend(&body, "%v", i, " = aten.full([many", i,
                    "], 1) : f32[1]\n");
  }
  EXPECT_THAT(ParseBody(body + "return"),
              StatusIs(kInvalid, HasSubstr("symbols")));
}

}  // namespace
}  // namespace mica
