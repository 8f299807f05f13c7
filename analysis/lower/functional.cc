#include "analysis/lower/functional.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

namespace mica {
namespace {

// "aten.add_.Tensor" as {"aten.add_", "Tensor"}.
std::pair<absl::string_view, absl::string_view> SplitOverload(
    absl::string_view op) {
  const size_t dot = op.find('.', op.find('.') + 1);
  if (dot == absl::string_view::npos) return {op, ""};
  return {op.substr(0, dot), op.substr(dot + 1)};
}

bool HasOneResult(const OpDef& def) {
  return def.num_results() == 1 && !def.is_view() &&
         def.schema().results[0].kind == ParamKind::kTensor;
}

// False for a number where a tensor is wanted, and the other way round.
bool HasKind(const TapeValue& value, const Param& param) {
  if (std::holds_alternative<std::monostate>(value)) return true;
  return std::holds_alternative<TapeTensorRef>(value) ==
         (param.kind == ParamKind::kTensor);
}

// True if `args` are the parameters of `def`, each of its kind.
bool TakesAll(const OpDef& def, absl::Span<const TapeValue> args) {
  const std::vector<Param>& params = def.schema().params;
  if (!HasOneResult(def) || params.size() != args.size()) return false;
  for (size_t i = 0; i < params.size(); ++i) {
    if (!HasKind(args[i], params[i])) return false;
  }
  return true;
}

// The op of that name, or another overload: pow_.Scalar writes what
// pow.Tensor_Scalar returns.
const OpDef* FindTaker(absl::string_view base, absl::string_view overload,
                       absl::Span<const TapeValue> args,
                       const OpRegistry& registry) {
  const OpDef* def = registry.Find(
      overload.empty() ? std::string(base) : absl::StrCat(base, ".", overload));
  if (def == nullptr) return nullptr;
  if (TakesAll(*def, args)) return def;
  def = registry.Find(absl::StrCat(base, ".Tensor_", overload));
  return def != nullptr && TakesAll(*def, args) ? def : nullptr;
}

std::optional<FunctionalForm> FindInPlaceForm(const TapeCall& call,
                                              const OpRegistry& registry) {
  auto [base, overload] = SplitOverload(call.op);
  if (!absl::EndsWith(base, "_") || call.mutated_args[0] != 0) return {};
  base.remove_suffix(1);
  size_t num_args = call.args.size();
  // What backward passes call; its last flag drops a check of indices.
  if (base == "aten._index_put_impl") {
    base = "aten.index_put";
    --num_args;
  }
  const absl::Span<const TapeValue> args =
      absl::MakeConstSpan(call.args).first(num_args);
  const OpDef* def = FindTaker(base, overload, args, registry);
  if (def == nullptr) return {};
  FunctionalForm form{.def = def, .mutated = 0};
  for (size_t i = 0; i < num_args; ++i) {
    form.params.push_back(static_cast<int>(i));
  }
  return form;
}

// True if the call has the parameters of `def` and the one that it writes.
bool TakesAlsoOut(const OpDef& def, const TapeCall& call,
                  FunctionalForm& form) {
  form.params.clear();
  for (size_t i = 0; i < call.arg_names.size(); ++i) {
    if (static_cast<int>(i) == form.mutated) continue;
    const size_t param = form.params.size();
    if (param >= def.schema().params.size() ||
        def.schema().params[param].name != call.arg_names[i] ||
        !HasKind(call.args[i], def.schema().params[param])) {
      return false;
    }
    form.params.push_back(static_cast<int>(i));
  }
  return form.params.size() == def.schema().params.size();
}

std::optional<FunctionalForm> FindOutForm(const TapeCall& call,
                                          const OpRegistry& registry) {
  const auto [base, overload] = SplitOverload(call.op);
  if (overload != "out" && !absl::EndsWith(overload, "_out")) return {};
  FunctionalForm form{.mutated = call.mutated_args[0]};
  for (const OpDef* def : registry.All()) {
    if (SplitOverload(def->name()).first == base && HasOneResult(*def) &&
        TakesAlsoOut(*def, call, form)) {
      form.def = def;
      return form;
    }
  }
  return {};
}

}  // namespace

std::optional<FunctionalForm> FindFunctionalForm(const TapeCall& call,
                                                 const OpRegistry& registry) {
  if (call.mutated_args.size() != 1 ||
      !std::holds_alternative<TapeTensorRef>(call.args[call.mutated_args[0]])) {
    return {};
  }
  std::optional<FunctionalForm> form = FindInPlaceForm(call, registry);
  return form.has_value() ? form : FindOutForm(call, registry);
}

const OpDef* FindReturningForm(const TapeCall& call,
                               const OpRegistry& registry) {
  // ATen's naming rule; the older name is that of an operator which conceals
  // what it writes. Ours return what "_" would write.
  const bool is_ours = absl::StartsWith(call.op, "mica.");
  const std::string op = call.op == "aten.native_batch_norm"
                             ? "aten._native_batch_norm_legit"
                             : call.op;
  const OpDef* def =
      registry.Find(is_ours ? std::string(absl::StripSuffix(op, "_"))
                            : absl::StrCat(op, "_functional"));
  const size_t written = call.outputs.size() + call.mutated_args.size();
  if (def == nullptr || def->schema().params.size() != call.args.size() ||
      def->schema().results.size() < written ||
      (!is_ours && def->schema().results.size() != written)) {
    return nullptr;
  }
  for (int32_t arg : call.mutated_args) {
    const auto* ref = std::get_if<TapeTensorRef>(&call.args[arg]);
    if (ref == nullptr || ref->id == kNoTapeTensor) return nullptr;
  }
  return def;
}

}  // namespace mica
