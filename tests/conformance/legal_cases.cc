#include "tests/conformance/legal_cases.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/ir/control_flow.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/conformance/cases.h"

namespace mica {

std::vector<Case> LegalCases(const OpDef& def,
                             std::vector<absl::Status>* illegal) {
  std::vector<Case> cases;
  const bool is_generated = def.is_elementwise();
  for (const std::string& text :
       is_generated ? PointwiseCases(def) : ListedCases(def)) {
    absl::StatusOr<Case> c = ParseCase(text, AllOps());
    if (c.ok()) {
      cases.push_back(*std::move(c));
    } else if (!is_generated && illegal != nullptr) {
      illegal->push_back(c.status());
    }
  }
  if (is_generated) return cases;
  for (const std::string& text : ListedCases(def)) {
    for (absl::string_view tensor :
         {"f64[", "bf16[", "f16[", "i64[", "bool["}) {
      const std::string other = absl::StrReplaceAll(text, {{"f32[", tensor}});
      absl::StatusOr<Case> c = ParseCase(other, AllOps());
      if (other != text && c.ok()) cases.push_back(*std::move(c));
    }
  }
  return cases;
}

KernelKey KeyOf(const Case& c) {
  const KernelRequest request = MakeRequest(c, {});
  return {.op = c.op().def->name(),
          .dtype = request.operands.empty() ? request.results[0].type.dtype
                                            : request.operands[0].type.dtype};
}

double ScaleOf(const Case& c) {
  double scale = 1;
  for (const Operand& operand : MakeRequest(c, {}).operands) {
    for (Dim dim : operand.type.dims) {
      scale = std::max(scale, static_cast<double>(dim));
    }
  }
  return scale;
}

bool IsEmptyFactory(const OpDef& def) {
  return absl::StrContains(def.name(), "empty");
}

std::vector<const OpDef*> OpsWithKernels() {
  std::vector<const OpDef*> ops;
  for (const OpDef* def : AllOps().All()) {
    const bool has_bodies = ControlKindOf(*def) != ControlKind::kNone;
    // Segments run others in place of those whose size depends on data; what
    // has no result only asks something of types.
    if (!def->is_view() && !has_bodies && !def->is_bounded() &&
        def->num_results() != 0) {
      ops.push_back(def);
    }
  }
  return ops;
}

absl::StatusOr<std::vector<Tensor>> RunReference(const Case& c,
                                                 const Operands& operands) {
  const Kernel* reference = AllKernels().FindReference(KeyOf(c));
  if (reference == nullptr) {
    return absl::NotFoundError(absl::StrCat("no reference for ", c.text));
  }
  return RunKernel(*reference, c, operands, {});
}

}  // namespace mica
