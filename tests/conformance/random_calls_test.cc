// Any arguments that a schema allows end in types or in a Status, and what
// inference calls legal the oracle runs inside its memory.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/program_builder.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/conformance/one_op.h"

namespace mica {
namespace {

constexpr int kCallsOfEachOp = 1000;
constexpr int64_t kMostElementsToRun = 4096;

// Draws calls of one op. Sizes are mostly small, so that many calls are legal,
// and sometimes as large as an integer can be.
class CallDrawer {
 public:
  CallDrawer(const OpDef& def, uint32_t seed) : def_(def), random_(seed) {}

  // The Program of the call, or why it is illegal.
  absl::StatusOr<Program> Draw() {
    ProgramBuilder builder(AllOps(), "random");
    common_ = DrawDims(/*may_be_huge=*/false);
    Arguments arguments;
    for (const Param& param : def_.schema().params) {
      MICA_ASSIGN_OR_RETURN(Argument argument, DrawArgument(param, builder));
      arguments.push_back(std::move(argument));
    }
    MICA_RETURN_IF_ERROR(
        builder.AddOp({.def = &def_, .arguments = std::move(arguments)})
            .status());
    return builder.Build({});
  }

 private:
  bool OneIn(int count) { return random_() % count == 0; }

  int64_t DrawInt() {
    constexpr int64_t kExtremes[] = {INT64_MIN,     INT64_MIN + 1, INT64_MAX,
                                     INT64_MAX - 1, INT64_MAX / 2, 1LL << 46,
                                     1LL << 31,     -(1LL << 46)};
    if (OneIn(20)) return kExtremes[random_() % 8];
    return static_cast<int64_t>(random_() % 8) - 2;
  }

  Dims DrawDims(bool may_be_huge) {
    Dims dims(random_() % 5);
    for (Dim& dim : dims) {
      dim = OneIn(6) ? 0 : 1 + static_cast<Dim>(random_() % 4);
      if (may_be_huge && OneIn(30)) dim = 1LL << (random_() % 47);
    }
    return dims;
  }

  TensorType DrawType() {
    constexpr DType kDTypes[] = {DType::kF32, DType::kF32,  DType::kF32,
                                 DType::kF64, DType::kI64,  DType::kI64,
                                 DType::kI32, DType::kBool, DType::kBF16};
    TensorType type = {.dtype = kDTypes[random_() % 9],
                       .dims = OneIn(2) ? common_ : DrawDims(true)};
    if (OneIn(4)) {
      for (size_t i = 0; i < type.dims.size(); ++i) {
        type.strides.push_back(static_cast<Dim>(random_() % 9));
      }
    }
    return OneIn(10) ? ScalarType(type.dtype) : type;
  }

  absl::StatusOr<Argument> DrawValue(ProgramBuilder& builder) {
    MICA_ASSIGN_OR_RETURN(ValueId id, builder.AddInput("", DrawType()));
    return Argument(ValueRef{id});
  }

  Argument DrawNumber() {
    if (OneIn(3)) return Argument(OneIn(2));
    if (OneIn(2)) return Argument(static_cast<double>(DrawInt()) / 2);
    return Argument(DrawInt());
  }

  absl::StatusOr<Argument> DrawArgument(const Param& param,
                                        ProgramBuilder& builder) {
    if (param.is_optional && OneIn(2)) return Argument();
    if (param.has_default && OneIn(2)) return param.default_value;
    switch (param.kind) {
      case ParamKind::kTensor:
        return DrawValue(builder);
      case ParamKind::kTensorList: {
        ValueRefs refs(random_() % 4);
        for (ValueRef& ref : refs) {
          if (param.has_optional_elements && OneIn(3)) continue;
          MICA_ASSIGN_OR_RETURN(Argument value, DrawValue(builder));
          ref = std::get<ValueRef>(value);
        }
        return Argument(std::move(refs));
      }
      case ParamKind::kScalar:
        if (OneIn(5)) return DrawValue(builder);
        return DrawNumber();
      case ParamKind::kInt:
        return Argument(DrawInt());
      case ParamKind::kIntList: {
        std::vector<int64_t> list(random_() % 5);
        for (int64_t& entry : list) entry = DrawInt();
        if (OneIn(2)) list.assign(common_.begin(), common_.end());
        return Argument(std::move(list));
      }
      case ParamKind::kFloat:
        return Argument(static_cast<double>(DrawInt()) / 4);
      case ParamKind::kFloatList:
        return Argument(std::vector<double>{0.5});
      case ParamKind::kBool:
        return Argument(OneIn(2));
      case ParamKind::kBoolList:
        return Argument(std::vector<bool>{OneIn(2)});
      case ParamKind::kString: {
        constexpr const char* kWords[] = {"none", "tanh", "floor", "sum",
                                          "amax", "gelu", "mean",  "?"};
        return Argument(std::string(kWords[random_() % 8]));
      }
      case ParamKind::kDType:
        return Argument(static_cast<DType>(random_() % kNumDTypes));
      case ParamKind::kOpaque:
        return Argument();
    }
    return Argument();
  }

  const OpDef& def_;
  std::mt19937 random_;
  Dims common_;
};

bool IsSmall(const Program& program) {
  for (ValueId id = 0; id < program.num_values(); ++id) {
    const TensorType& type = program.type(id);
    if (type.num_elements() > kMostElementsToRun ||
        type.extent_bytes() > 8 * kMostElementsToRun) {
      return false;
    }
  }
  return true;
}

// True for what a Status may say of random arguments.
bool IsExpected(const absl::Status& status) {
  return status.ok() || absl::IsInvalidArgument(status) ||
         absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status);
}

class RandomCallsTest : public testing::TestWithParam<const OpDef*> {};

TEST_P(RandomCallsTest, EndInTypesOrInAStatus) {
  const OpDef& def = *GetParam();
  int num_run = 0;
  for (uint32_t seed = 0; seed < kCallsOfEachOp; ++seed) {
    absl::StatusOr<Program> program = CallDrawer(def, seed).Draw();
    ASSERT_TRUE(IsExpected(program.status())) << program.status();
    if (!program.ok() || def.is_view() || def.num_results() == 0 ||
        !program->is_static() || !IsSmall(*program)) {
      continue;
    }
    Case c = {.text = ToText(*program),
              .program = std::make_shared<const Program>(*std::move(program)),
              .ranges = {}};
    c.ranges.resize(c.program->inputs().size());
    MICA_ASSERT_OK_AND_ASSIGN(Operands operands,
                              DrawOperands(c, seed, /*has_specials=*/true));
    const KernelRequest request = MakeRequest(c, {});
    const DType dtype = request.operands.empty()
                            ? request.results[0].type.dtype
                            : request.operands[0].type.dtype;
    for (const Kernel& kernel :
         AllKernels().Find({.op = def.name(), .dtype = dtype})) {
      const auto results = RunKernel(kernel, c, operands, {});
      ASSERT_TRUE(IsExpected(results.status()))
          << kernel.name << ": " << results.status() << "\n"
          << c.text;
      num_run += results.ok();
    }
  }
  RecordProperty("num_run", num_run);
}

INSTANTIATE_TEST_SUITE_P(AllOps, RandomCallsTest,
                         testing::ValuesIn(AllOps().All()), TestName);

}  // namespace
}  // namespace mica
