#include "analysis/pipeline/all_passes.h"

#include <utility>

#include "analysis/functions/find_functions.h"
#include "analysis/functions/inline_calls.h"
#include "analysis/fuse/expansions.h"
#include "analysis/fuse/forward_writes.h"
#include "analysis/fuse/fuse_convolution.h"
#include "analysis/fuse/fuse_linear.h"
#include "analysis/fuse/losses.h"
#include "analysis/fuse/recurrent.h"
#include "analysis/fuse/regions.h"
#include "analysis/fuse/simplify.h"
#include "analysis/layout/layout.h"
#include "analysis/passes/check_types.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/precision/quantise_products.h"
#include "framework/base/status.h"

namespace mica {
namespace {

using Names = OpNames;
using Context = PassContext;

bool HasGatesOfGru(const Names& names) {
  return names.HasAll({"aten.as_strided", "aten.tanh", "aten.sigmoid"});
}

bool HasWindowsWritten(const Names& names) {
  return names.Has("mica.scatter_view");
}

bool HasConvolutions(const Names& names) {
  return names.HasAny(
      {"aten.convolution", "mica.convolution", "mica.scaled_convolution"});
}

// For a function that takes only the operators.
template <auto kPass>
absl::StatusOr<Program> Run(Program program, const Context& context) {
  return kPass(std::move(program), context.ops);
}

// For one that asks which kernels there are.
template <auto kPass>
absl::StatusOr<Program> RunByKernels(Program program, const Context& context) {
  return kPass(std::move(program), context.ops, context.kernels);
}

absl::StatusOr<Program> RunMergeElementwise(Program program,
                                            const Context& context) {
  return MergeElementwise(std::move(program), context.ops, context.kernels,
                          context.regions);
}

absl::StatusOr<Program> RunRemoveDeadOps(Program program,
                                         const Context& context) {
  return RemoveDeadOps(std::move(program), context.ops);
}

absl::StatusOr<Program> RunCheckControlFlow(Program program, const Context&) {
  MICA_RETURN_IF_ERROR(CheckControlFlow(program));
  return program;
}

absl::StatusOr<Program> RunFindFunctions(Program program,
                                         const Context& context) {
  return FindFunctions(std::move(program), context.ops);
}

constexpr Pass kPasses[] = {
    {.name = "remove-dead-ops",
     .contract = "Leaves out ops that no output, update or effect depends on, "
                 "and results of branches and loops that nobody reads.",
     .run = RunRemoveDeadOps,
     .is_by_block = false},
    {.name = "check-control-flow",
     .contract = "Changes nothing. Refuses branches and loops that give a "
                 "value in two types; wants dead ops removed.",
     .run = RunCheckControlFlow,
     .applies =
         [](const Names& names) {
           return names.HasAny({"mica.if", "mica.while"});
         },
     .is_by_block = false},
    {.name = "fuse-convolutions",
     .contract = "Merges a convolution with the batch norm, sum and activation "
                 "behind it, and other batch norms with their activation.",
     .run = RunByKernels<FuseConvolutions>},
    {.name = "forward-writes",
     .contract = "A window on a tensor that was written in part reads what was "
                 "written there, or the tensor before.",
     .run = Run<ForwardWrites>,
     .applies = HasWindowsWritten,
     .reads_sizes = HasWindowsWritten},  // Which have elements in common.
    {.name = "spell-out-losses",
     .contract = "Squared errors and their gradients become the elementwise "
                 "ops and reductions that they are.",
     .run = Run<SpellOutLosses>,
     .applies =
         [](const Names& names) {
           return names.HasAny({"aten.mse_loss", "aten.mse_loss_backward"});
         },
     // A mean's divisor.
     .reads_sizes =
         [](const Names& names) {
           return names.Has("aten.mse_loss_backward");
         }},
    {.name = "delay-expansions",
     .contract = "Elementwise ops of an expanded single number compute it once "
                 "and are expanded behind.",
     .run = Run<DelayExpansions>,
     .applies = [](const Names& names) { return names.Has("aten.expand"); }},
    {.name = "simplify",
     .contract = "Rewrites what a program says in many ops to what it means: "
                 "whole writes, needless copies, gelu and attention spelt out.",
     .run = RunByKernels<Simplify>,
     // Where the parts of one product begin.
     .reads_sizes =
         [](const Names& names) {
           return names.Has("aten._native_multi_head_attention");
         }},
    {.name = "fuse-recurrent",
     .contract = "A GRU's gates and new state become one mica.gru_cell; wants "
                 "writes forwarded.",
     .run = RunByKernels<FuseRecurrent>,
     .applies = HasGatesOfGru,
     .reads_sizes = HasGatesOfGru},  // Offsets into gates.
    {.name = "fuse-linear",
     .contract = "A matrix product with its bias, activation and residual "
                 "becomes one mica.linear; a sum and the layer norm of it one "
                 "mica.add_layer_norm.",
     .run = RunByKernels<FuseLinear>,
     .applies =
         [](const Names& names) {
           return names.HasAny(
               {"aten.mm", "aten.addmm", "aten.native_layer_norm"});
         }},
    {.name = "choose-layouts",
     .contract = "Convolutions give channels last, and the ops behind them "
                 "follow, into functions and out of them; copies lead back "
                 "where the recorded order is wanted.",
     .run = Run<ChooseLayouts>,
     .applies = HasConvolutions,
     .reads_sizes = HasConvolutions,
     .is_by_block = false},
    {.name = "merge-elementwise",
     .contract = "Elementwise ops that read each other become one "
                 "mica.elementwise, with reductions among them one "
                 "mica.reduce. Last: no other pass knows regions.",
     .run = RunMergeElementwise},
};

absl::StatusOr<std::optional<Program>> FindFunctionsOfGiven(
    const Program& program, const PassContext& context) {
  return FindFunctionsOf(program, context.ops, {.sets_origins = true});
}

constexpr Pass kFunctionPasses[] = {
    {.name = "find-functions",
     .contract = "Ops that occur several times, one copy behind another, "
                 "become one function that is called as often.",
     .run = RunFindFunctions,
     .run_on_given = FindFunctionsOfGiven,
     .is_by_block = false},
    {.name = "inline-calls",
     .contract = "Functions stand where they are called; those in branches "
                 "and loops stay.",
     .run = Run<InlineCalls>,
     .applies = [](const Names& names) { return names.Has("mica.call"); },
     .is_by_block = false},
};

template <Precision kPrecision>
absl::StatusOr<Program> RunQuantise(Program program, const Context& context) {
  return QuantiseProducts(program, context.ops, kPrecision);
}

// Small products stay.
bool HasProducts(const Names& names) {
  return names.HasAny({"aten.mm", "aten.addmm", "mica.linear"});
}

constexpr Pass kPrecisionPasses[] = {
    {.name = "quantise-int8",
     .contract = "Products whose weight depends on variables alone have int8 "
                 "weights and rows that are quantised as they come. Wants "
                 "variables that keep their values, and what linears merge "
                 "merged.",
     .run = RunQuantise<Precision::kInt8>,
     .applies = HasProducts,
     .reads_sizes = HasProducts},
    {.name = "quantise-int8-weights",
     .contract = "The same with rows of float32.",
     .run = RunQuantise<Precision::kInt8Weights>,
     .applies = HasProducts,
     .reads_sizes = HasProducts},
    {.name = "quantise-int4-weights",
     .contract = "The same with weights of 4 bits.",
     .run = RunQuantise<Precision::kInt4Weights>,
     .applies = HasProducts,
     .reads_sizes = HasProducts},
};

}  // namespace

absl::Span<const Pass> AllPasses() { return kPasses; }
absl::Span<const Pass> FunctionPasses() { return kFunctionPasses; }
absl::Span<const Pass> PrecisionPasses() { return kPrecisionPasses; }

}  // namespace mica
