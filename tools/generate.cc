#include "tools/generate.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/status.h"
#include "framework/ir/program_builder.h"
#include "tools/generate_transformer.h"

namespace mica {
namespace {

constexpr int64_t kMaxOps = 10'000'000;
constexpr int64_t kMaxSize = int64_t{1} << 24;

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": wants 1 to ", max, ", got ", value));
}

absl::StatusOr<Program> GenerateChain(int64_t ops, const OpRegistry& registry) {
  ProgramBuilder builder(registry, "chain");
  MICA_ASSIGN_OR_RETURN(ValueId last, builder.AddInput("x", F32({1})));
  MICA_ASSIGN_OR_RETURN(const ValueId y, builder.AddInput("y", F32({1})));
  for (int64_t i = 0; i < ops; ++i) {
    MICA_ASSIGN_OR_RETURN(
        last, builder.Add("aten.add.Tensor", {ValueRef{last}, ValueRef{y}}));
  }
  return builder.Build({last});
}

// relu and add in turn. An add takes the last value and one of the eight
// before it, so that lifetimes overlap and some values are read twice.
absl::StatusOr<Program> GenerateReluAdd(int64_t ops,
                                        const OpRegistry& registry) {
  ProgramBuilder builder(registry, "relu_add");
  MICA_ASSIGN_OR_RETURN(const ValueId x, builder.AddInput("x", F32({8, 8})));
  std::vector<ValueId> values = {x};
  uint32_t random = 1;
  for (int64_t i = 0; i < ops; ++i) {
    const ValueRef last{values.back()};
    ValueId next = kNoValue;
    if (i % 2 == 0) {
      MICA_ASSIGN_OR_RETURN(next, builder.Add("aten.relu", {last}));
    } else {
      random = random * 1664525 + 1013904223;
      const size_t back = 1 + (random >> 16) % 8;
      const ValueId other =
          values[values.size() > back ? values.size() - 1 - back : 0];
      MICA_ASSIGN_OR_RETURN(
          next, builder.Add("aten.add.Tensor", {last, ValueRef{other}}));
    }
    values.push_back(next);
  }
  return builder.Build({values.back()});
}

// Ops that read x alone, each joined to the last by an add.
absl::StatusOr<Program> GenerateFan(int64_t ops, const OpRegistry& registry) {
  ProgramBuilder builder(registry, "fan");
  MICA_ASSIGN_OR_RETURN(const ValueId x, builder.AddInput("x", F32({8, 8})));
  std::vector<ValueId> blades;
  for (int64_t i = 0; i < (ops + 1) / 2; ++i) {
    MICA_ASSIGN_OR_RETURN(const ValueId blade,
                          builder.Add("aten.relu", {ValueRef{x}}));
    blades.push_back(blade);
  }
  ValueId last = blades[0];
  for (int64_t i = 0; i < ops / 2; ++i) {
    const ValueId blade = blades[(i + 1) % blades.size()];
    MICA_ASSIGN_OR_RETURN(last, builder.Add("aten.add.Tensor",
                                            {ValueRef{last}, ValueRef{blade}}));
  }
  return builder.Build({last});
}

// Two chains, of relus and of adds; each add takes the relu beside it.
absl::StatusOr<Program> GenerateLadder(int64_t ops,
                                       const OpRegistry& registry) {
  ProgramBuilder builder(registry, "ladder");
  MICA_ASSIGN_OR_RETURN(ValueId left, builder.AddInput("x", F32({8, 8})));
  MICA_ASSIGN_OR_RETURN(ValueId right, builder.AddInput("y", F32({8, 8})));
  for (int64_t i = 0; i < ops; ++i) {
    if (i % 2 == 0) {
      MICA_ASSIGN_OR_RETURN(left, builder.Add("aten.relu", {ValueRef{left}}));
    } else {
      MICA_ASSIGN_OR_RETURN(
          right,
          builder.Add("aten.add.Tensor", {ValueRef{right}, ValueRef{left}}));
    }
  }
  return builder.Build({left, right});
}

// Each op reads one or two of the 64 values before it, of four sizes.
absl::StatusOr<Program> GenerateRandom(int64_t ops,
                                       const OpRegistry& registry) {
  constexpr size_t kSizes = 4;
  constexpr size_t kWindow = 64 / kSizes;
  ProgramBuilder builder(registry, "random");
  std::vector<std::vector<ValueId>> values(kSizes);
  for (size_t i = 0; i < kSizes; ++i) {
    MICA_ASSIGN_OR_RETURN(const ValueId x,
                          builder.AddInput(absl::StrCat("x", i),
                                           F32({8, int64_t{8} << (2 * i)})));
    values[i].push_back(x);
  }
  std::minstd_rand random;
  for (int64_t i = 0; i < ops; ++i) {
    std::vector<ValueId>& same = values[random() % kSizes];
    auto pick = [&] {
      const size_t back = random() % std::min(kWindow, same.size());
      return ValueRef{same[same.size() - 1 - back]};
    };
    const ValueRef first = pick();
    ValueId next = kNoValue;
    if (random() % 2 == 0) {
      MICA_ASSIGN_OR_RETURN(next, builder.Add("aten.relu", {first}));
    } else {
      MICA_ASSIGN_OR_RETURN(next,
                            builder.Add("aten.add.Tensor", {first, pick()}));
    }
    same.push_back(next);
  }
  std::vector<ValueId> last;
  for (const std::vector<ValueId>& same : values) last.push_back(same.back());
  return builder.Build(last);
}

using Generator = absl::StatusOr<Program> (*)(int64_t ops,
                                              const OpRegistry& registry);

// Those that have so many ops of one kind or two.
Generator FindGenerator(absl::string_view kind) {
  if (kind == "chain") return GenerateChain;
  if (kind == "relu_add") return GenerateReluAdd;
  if (kind == "fan") return GenerateFan;
  if (kind == "ladder") return GenerateLadder;
  if (kind == "random") return GenerateRandom;
  return nullptr;
}

bool IsTransformer(absl::string_view kind) {
  return kind == "transformer" || kind == "transformer_step";
}

absl::Status CheckTransformer(const GenerateOptions& options) {
  if (!IsFloating(options.dtype)) {
    return absl::InvalidArgumentError(
        "--dtype: wants f32, f64, f16 or bf16 for a transformer");
  }
  MICA_RETURN_IF_ERROR(CheckRange("layers", options.layers, 100'000));
  MICA_RETURN_IF_ERROR(CheckRange("hidden", options.hidden, kMaxSize));
  MICA_RETURN_IF_ERROR(CheckRange("heads", options.heads, options.hidden));
  MICA_RETURN_IF_ERROR(CheckRange("batch", options.batch, kMaxSize));
  MICA_RETURN_IF_ERROR(CheckRange("seq", options.seq, kMaxSize));
  if (options.hidden % options.heads == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("hidden: wants a multiple of ",
                                                 options.heads, " heads, got ",
                                                 options.hidden));
}

}  // namespace

absl::Status CheckOptions(const GenerateOptions& options) {
  if (IsTransformer(options.kind)) return CheckTransformer(options);
  if (FindGenerator(options.kind) != nullptr) {
    return CheckRange("ops", options.ops, kMaxOps);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "generate: wants chain, relu_add, fan, ladder, random, transformer or "
      "transformer_step, got '",
      options.kind, "'"));
}

absl::StatusOr<Program> Generate(const GenerateOptions& options,
                                 const OpRegistry& registry) {
  MICA_RETURN_IF_ERROR(CheckOptions(options));
  if (options.kind == "transformer") {
    return GenerateTransformer(options, registry);
  }
  if (options.kind == "transformer_step") {
    return GenerateTransformerStep(options, registry);
  }
  return FindGenerator(options.kind)(options.ops, registry);
}

}  // namespace mica
