// Random regions with reductions: blocks, parts and threads give what the
// oracle gives, which computes whole arrays, an instruction at a time.
// MICA_PROPERTY_SEED=7 repeats one seed, MICA_PROPERTY_SEEDS=20000 tries more.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/test_matchers.h"
#include "framework/kernel/kernel_registry.h"
#include "gtest/gtest.h"
#include "kernels/all.h"
#include "kernels/reference/element.h"
#include "ops/all.h"
#include "tests/conformance/legal_cases.h"
#include "tests/conformance/one_op.h"
#include "tests/property/seeds.h"

namespace mica {
namespace {

constexpr uint64_t kNumReduceSeeds = 400;

// One call as a conformance case's text. Operators are tame, so that errors of
// rounding stay small: what is compared is where elements go.
class RandomReduction {
 public:
  explicit RandomReduction(uint64_t seed) : random_(seed) {}

  std::string Text() {
    DrawDims();
    const int num_operands = 1 + Below(4);
    std::vector<std::string> operands;
    for (int i = 0; i < num_operands; ++i) operands.push_back(Operand(i == 0));
    const int count = 1 + Below(9);
    std::vector<std::string> code;
    for (int i = 0; i < count; ++i) code.push_back(Instruction(i));
    std::vector<std::string> results;
    for (int i = 0; i < count; ++i) {
      if (i + 1 == count || Below(3) == 0) {
        results.push_back(absl::StrCat("$", i));
      }
    }
    std::shuffle(results.begin(), results.end(), random_);
    return absl::StrCat("mica.reduce([", absl::StrJoin(operands, ", "), "], \"",
                        absl::StrJoin(code, "; "), " -> ",
                        absl::StrJoin(results, " "), " over ",
                        absl::StrJoin(axes_, " "), "\")");
  }

 private:
  struct Value {
    std::string text, dtype;
    bool is_reduced = false;
  };

  int Below(int limit) { return static_cast<int>(random_() % limit); }

  void DrawDims() {
    constexpr int kSizes[] = {1, 2, 3, 5, 8, 17, 33, 70};
    constexpr int kLong[] = {130, 600, 2048, 2100, 17000, 40000};
    const int rank = 1 + Below(4);
    for (int d = 0; d < rank; ++d) dims_.push_back(kSizes[Below(8)]);
    if (Below(3) == 0) dims_[Below(rank)] = kLong[Below(6)];
    // As many as two threads share, at times.
    const int64_t most = Below(10) == 0 ? 150000 : 30000;
    if (most > 30000) dims_[Below(rank)] = kLong[4 + Below(2)];
    while (Elements() > most) {
      int& largest = *std::max_element(dims_.begin(), dims_.end());
      largest = largest / 3 + 1;
    }
    while (axes_.empty()) {
      for (int d = 0; d < rank; ++d) {
        if (Below(2) == 0) axes_.push_back(d);
      }
    }
  }
  int64_t Elements() const {
    int64_t count = 1;
    for (int dim : dims_) count *= dim;
    return count;
  }

  // A type, with what it is among values; the first one has all elements.
  std::string Operand(bool is_whole) {
    constexpr absl::string_view kTypes[] = {"f32",  "f32", "f32",  "f64",
                                            "bf16", "f16", "i64",  "i32",
                                            "u8",   "i8",  "bool", "i16"};
    const std::string dtype(is_whole ? kTypes[Below(5)] : kTypes[Below(12)]);
    std::vector<int> dims = dims_;
    if (!is_whole && Below(3) == 0) {
      dims.erase(dims.begin(),
                 dims.begin() + Below(static_cast<int>(dims.size())));
    }
    const size_t lacks = dims_.size() - dims.size();
    bool is_reduced = true;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!is_whole && Below(4) == 0) dims[d] = 1;
      const bool is_axis = std::binary_search(axes_.begin(), axes_.end(),
                                              static_cast<int>(lacks + d));
      is_reduced = is_reduced && !(is_axis && dims[d] != 1);
    }
    const int index = static_cast<int>(values_.size());
    values_.push_back({absl::StrCat("%", index), dtype, is_reduced});
    std::string strides;
    if (Below(3) == 0) {
      std::vector<int> order(dims.size());
      for (size_t d = 0; d < dims.size(); ++d) order[d] = static_cast<int>(d);
      std::shuffle(order.begin(), order.end(), random_);
      std::vector<int64_t> steps(dims.size());
      int64_t step = 1;
      for (int d : order) {
        steps[d] = step;
        step *= dims[d];
      }
      strides = absl::StrCat("{", absl::StrJoin(steps, ","), "}");
    }
    return absl::StrCat(dtype, "[", absl::StrJoin(dims, ","), "]", strides);
  }

  // Any value, or one of all elements.
  const Value& Draw(bool is_whole) {
    while (true) {
      const Value& value = values_[Below(static_cast<int>(values_.size()))];
      if (!is_whole || !value.is_reduced) return value;
    }
  }

  std::string Instruction(int index) {
    const bool has_whole =
        std::any_of(values_.begin(), values_.end(),
                    [](const Value& value) { return !value.is_reduced; });
    Value made{
        .text = absl::StrCat("$", index), .dtype = "", .is_reduced = true};
    std::string text;
    if (has_whole && Below(3) == 0) {
      text = Reduction(made);
    } else {
      const Value a = Draw(false);
      made.is_reduced = a.is_reduced;
      made.dtype = a.dtype;
      const bool is_number = a.dtype != "bool";
      const bool is_float = a.dtype[0] == 'f' || a.dtype[0] == 'b';
      constexpr absl::string_view kTwo[] = {"maximum", "minimum", "add", "sub"};
      constexpr absl::string_view kOne[] = {"neg", "abs", "relu"};
      constexpr absl::string_view kFloat[] = {"sigmoid", "tanh", "floor"};
      const int kind = Below(4);
      if (kind < 2) {
        const Value b = Draw(false);
        const absl::string_view op = kTwo[Below(is_number ? 4 : 2)];
        made.is_reduced = made.is_reduced && b.is_reduced;
        text = absl::StrCat(op, ".", made.dtype, " ", a.text, " ", b.text);
      } else if (is_number && is_float && kind == 2) {
        text = absl::StrCat(kFloat[Below(2)], ".", made.dtype, " ", a.text);
      } else if (is_number) {
        text = absl::StrCat(kOne[Below(3)], ".", made.dtype, " ", a.text);
      } else {
        made.dtype = "f32";
        text = absl::StrCat("cast.f32 ", a.text);
      }
    }
    values_.push_back(std::move(made));
    return text;
  }

  std::string Reduction(Value& made) {
    const Value from = Draw(true);
    constexpr absl::string_view kOps[] = {"amax", "amin", "sum", "mean"};
    const bool is_float =
        from.dtype[0] == 'f' || absl::string_view(from.dtype) == "bf16";
    int op = Below(is_float ? 4 : 3);
    made.dtype = from.dtype;
    if (op == 2 && !is_float) made.dtype = "i64";
    // Sums of halves leave their range.
    if (op == 2 && (made.dtype == "f16" || made.dtype == "bf16")) op = 3;
    return absl::StrCat(kOps[op], ".", made.dtype, " ", from.text,
                        op == 3 ? " 0" : "");
  }

  std::mt19937_64 random_;
  std::vector<int> dims_, axes_;
  std::vector<Value> values_;  // Operands, then what instructions made.
};

// What rounding may do: to the coarsest of a call's dtypes.
double ToleranceOfReduction(absl::string_view text) {
  if (absl::StrContains(text, "bf16")) return 1e-1;
  if (absl::StrContains(text, "f16")) return 2e-2;
  return absl::StrContains(text, "f32") ? 1e-3 : 1e-9;
}

// Empty if they are the same within rounding, of numbers of their size.
std::string CompareReductions(const TensorView& got, const TensorView& want,
                              double rounding) {
  double size = 1;
  const int64_t count = want.type.num_elements();
  const auto at = [](const TensorView& view, int64_t i) {
    return LoadElement<double>(view.data, view.type.dtype, i);
  };
  for (int64_t i = 0; i < count; ++i) {
    if (std::isfinite(at(want, i))) {
      size = std::max(size, std::fabs(at(want, i)));
    }
  }
  const double tolerance = IsFloating(want.type.dtype) ? rounding * size : 0;
  for (int64_t i = 0; i < count; ++i) {
    const double a = at(got, i), b = at(want, i);
    const bool is_same = a == b || (std::isnan(a) && std::isnan(b)) ||
                         std::fabs(a - b) <= tolerance;
    if (!is_same) {
      return absl::StrCat("element ", i, " of ", want.type.ToString(), " is ",
                          a, ", not ", b);
    }
  }
  return "";
}

// The bits of a nan are free: they depend on whether there is machine code yet.
bool HasSameBits(const TensorView& a, const TensorView& b) {
  const int64_t bytes = ElementBytes(a.type.dtype);
  for (int64_t i = 0; i < a.type.num_elements(); ++i) {
    const char* x = static_cast<const char*>(a.data) + i * bytes;
    const char* y = static_cast<const char*>(b.data) + i * bytes;
    const bool are_nans = IsFloating(a.type.dtype) &&
                          std::isnan(LoadElement<double>(x, a.type.dtype, 0)) &&
                          std::isnan(LoadElement<double>(y, a.type.dtype, 0));
    if (!are_nans && std::memcmp(x, y, static_cast<size_t>(bytes)) != 0) {
      return false;
    }
  }
  return true;
}

TEST(ReduceRegionTest, RandomOnesAreTheOracles) {
  int num_run = 0;
  ForEachSeed(kNumReduceSeeds, [&](uint64_t seed) {
    const std::string text = RandomReduction(seed).Text();
    MICA_ASSERT_OK_AND_ASSIGN(const Case c, ParseCase(text, AllOps()));
    // Nans and infinities in some.
    MICA_ASSERT_OK_AND_ASSIGN(
        const Operands operands,
        DrawOperands(c, static_cast<uint32_t>(seed), seed % 4 == 0));
    MICA_ASSERT_OK_AND_ASSIGN(const auto want, RunReference(c, operands));
    const RunOptions all[] = {{},
                              {.num_threads = 2},
                              {.shares_bytes = true},
                              {.transposes_results = true},
                              {.unused_result = 0}};
    for (const Kernel& kernel : AllKernels().FindFast(KeyOf(c))) {
      std::vector<Tensor> by_one;
      for (const RunOptions& options : all) {
        const auto got = RunKernel(kernel, c, operands, options);
        if (absl::IsFailedPrecondition(got.status())) continue;
        ASSERT_TRUE(got.ok()) << text << ": " << got.status();
        ++num_run;
        if (by_one.empty()) by_one = *got;
        if (options.num_threads == 2) {
          for (size_t i = 0; i < want.size(); ++i) {
            EXPECT_TRUE(HasSameBits(by_one[i].view(), (*got)[i].view()))
                << text << ", result " << i << ", by two threads";
          }
        }
        for (size_t i = 0; i < want.size(); ++i) {
          if ((*got)[i].data() == nullptr) continue;
          EXPECT_EQ(CompareReductions((*got)[i].view(), want[i].view(),
                                      ToleranceOfReduction(text)),
                    "")
              << text << ", result " << i << ", " << options.num_threads
              << " threads";
        }
      }
    }
  });
  EXPECT_GT(num_run, 0);
}

// Large enough that two threads share the columns, or the only row.
TEST(ReduceRegionTest, ThreadsChangeNoBit) {
  for (absl::string_view text :
       {"mica.reduce([f32[1500,700], f32[700]], \"mul.f32 %0 %1; sum.f32 $0; "
        "amax.f32 $0 -> $1 $2 over 0\")",
        "mica.reduce([f32[300,1,700]], \"square.f32 %0; mean.f32 $0 0; sub.f32 "
        "$0 $1 -> $1 $2 over 0\")",
        "mica.reduce([f32[3,90000]], \"square.f32 %0; sum.f32 $0; sub.f32 %0 "
        "$1 "
        "-> $1 $2 over 1\")",
        "mica.reduce([f32[900,400]], \"square.f32 %0; sum.f32 $0 -> $1 over 0 "
        "1\")"}) {
    MICA_ASSERT_OK_AND_ASSIGN(const Case c, ParseCase(text, AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(const Operands operands,
                              DrawOperands(c, 1, false));
    const Kernel& kernel = AllKernels().FindFast(KeyOf(c))[0];
    MICA_ASSERT_OK_AND_ASSIGN(const auto one,
                              RunKernel(kernel, c, operands, {}));
    for (int num_threads : {2, 3, 5}) {
      MICA_ASSERT_OK_AND_ASSIGN(
          const auto several,
          RunKernel(kernel, c, operands, {.num_threads = num_threads}));
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_TRUE(HasSameBits(one[i].view(), several[i].view()))
            << text << ", result " << i << ", by " << num_threads;
      }
    }
  }
}

}  // namespace
}  // namespace mica
