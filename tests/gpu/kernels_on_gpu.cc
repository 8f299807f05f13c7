// Every kernel of the GPU's against the oracle, on all cases of its operator.
//
//   mica_gpu_kernels            on cuda:0
//   mica_gpu_kernels --compile  only compiles all sources: needs no GPU
//
// Takes gtest's flags; GTEST_TOTAL_SHARDS and GTEST_SHARD_INDEX share the work.

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "executor/device/backends.h"
#include "framework/base/mutex.h"
#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/nvrtc.h"
#include "tests/conformance/legal_cases.h"
#include "tests/conformance/one_op.h"

namespace mica {
namespace {

bool only_compiles = false;
Mutex errors_mutex;
std::vector<std::string> compile_errors ABSL_GUARDED_BY(errors_mutex);
int num_compiled ABSL_GUARDED_BY(errors_mutex) = 0;

// Keeps what doesn't compile.
absl::StatusOr<std::string> CompileAndTell(const std::string& source,
                                           int arch) {
  absl::StatusOr<std::string> made = cuda::Compile(source, arch);
  const MutexLock lock(&errors_mutex);
  ++num_compiled;
  if (!made.ok()) compile_errors.emplace_back(made.status().message());
  return made;
}

const KernelRegistry& Kernels() {
  static const std::shared_ptr<const KernelRegistry> kernels =
      only_compiles ? cuda::MakeKernels({.arch = 90, .compile = CompileAndTell})
                    : BackendOf({DeviceKind::kCuda, 0})->kernels;
  return *kernels;
}

class GpuKernelsTest : public testing::TestWithParam<const OpDef*> {
 protected:
  void TryCase(const Kernel& kernel, const Case& c, const RunOptions& options) {
    if (only_compiles) {
      // Kept, so that sources compile side by side and equal ones once.
      prepared_.push_back(kernel.prepare(MakeRequest(c, options)));
      ++num_tried_;
      num_declined_ += std::holds_alternative<No>(prepared_.back());
      return;
    }
    for (uint32_t seed : {1u, 2u}) {
      const bool has_specials = seed == 2 && GetParam()->is_elementwise();
      MICA_ASSERT_OK_AND_ASSIGN(Operands operands,
                                DrawOperands(c, seed, has_specials));
      const auto want = RunReference(c, operands);
      if (!want.ok()) continue;
      ExpectSame(kernel, c, operands, options, *want);
    }
  }

  void ExpectSame(const Kernel& kernel, const Case& c, const Operands& operands,
                  const RunOptions& options, const std::vector<Tensor>& want) {
    const auto device = BackendOf({DeviceKind::kCuda, 0})->device;
    const auto got = RunKernel(kernel, c, operands, options, device);
    ++num_tried_;
    if (absl::IsFailedPrecondition(got.status())) {
      ++num_declined_;
      return;
    }
    ASSERT_TRUE(got.ok()) << kernel.name << " on " << c.text << ": "
                          << got.status();
    for (size_t i = 0; i < want.size(); ++i) {
      if ((*got)[i].data() == nullptr) continue;
      EXPECT_EQ(CompareTensors((*got)[i].view(), want[i].view(), ScaleOf(c)),
                "")
          << kernel.name << " on " << c.text << ", result " << i;
    }
  }

  int num_tried_ = 0, num_declined_ = 0;
  std::vector<Verdict> prepared_;
};

TEST_P(GpuKernelsTest, AgreeWithTheReference) {
  if (IsEmptyFactory(*GetParam())) return;
  for (const Case& c : LegalCases(*GetParam())) {
    for (const Kernel& kernel : Kernels().Find(KeyOf(c))) {
      TryCase(kernel, c, {});
      TryCase(kernel, c, {.shares_bytes = true});
      TryCase(kernel, c, {.transposes_results = true});
      for (int i = 0; i < GetParam()->num_results(); ++i) {
        TryCase(kernel, c, {.unused_result = i});
      }
    }
  }
  // Shown with --gtest_output, and summed by tools/gpu_ring.sh.
  RecordProperty("tried", num_tried_);
  RecordProperty("declined", num_declined_);
  std::printf("cases of %s: %d tried, %d declined\n",
              GetParam()->name().c_str(), num_tried_, num_declined_);
}

INSTANTIATE_TEST_SUITE_P(AllOps, GpuKernelsTest,
                         testing::ValuesIn(OpsWithKernels()), TestName);

}  // namespace
}  // namespace mica

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    mica::only_compiles |= absl::string_view(argv[i]) == "--compile";
  }
  if (mica::only_compiles) {
    const absl::Status status = mica::cuda::FindCompiler();
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return 2;
    }
  } else {
    const auto backend =
        mica::BackendOf({.kind = mica::DeviceKind::kCuda, .index = 0});
    if (!backend.ok()) {
      std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
      return 2;
    }
  }
  int failed = RUN_ALL_TESTS();
  const mica::MutexLock lock(&mica::errors_mutex);
  if (mica::only_compiles) {
    std::printf("%d sources compiled, %d failed\n", mica::num_compiled,
                static_cast<int>(mica::compile_errors.size()));
  }
  for (const std::string& error : mica::compile_errors) {
    std::printf("%s\n", error.c_str());
    failed = 1;
  }
  return failed;
}
