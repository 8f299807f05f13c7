#include "analysis/lower/foreach.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace mica {
namespace {

// Where ATen's name for one tensor is not that for many less "_foreach".
struct Renamed {
  absl::string_view foreach;
  absl::string_view single;
};
constexpr Renamed kRenamed[] = {
    {"maximum.Scalar", "clamp_min"},       {"maximum.ScalarList", "clamp_min"},
    {"minimum.Scalar", "clamp_max"},       {"minimum.ScalarList", "clamp_max"},
    {"norm.Scalar", "linalg_vector_norm"},
};

bool IsTensor(const TapeValue& value) {
  return std::holds_alternative<TapeTensorRef>(value) ||
         std::holds_alternative<TapeTensorList>(value);
}

// For each of `call`'s arguments the parameter of `def` that it is for: that
// of its name, else that at its place. Empty if they don't fit.
std::vector<int> MapParams(const TapeCall& call, const OpDef& def) {
  const std::vector<Param>& params = def.schema().params;
  std::vector<int> map;
  for (size_t i = 0; i < call.args.size(); ++i) {
    int param = def.FindParam(call.arg_names[i]);
    if (param < 0) param = static_cast<int>(i);
    if (param >= static_cast<int>(params.size())) return {};
    const bool wants_tensor = params[param].kind == ParamKind::kTensor;
    if (wants_tensor != IsTensor(call.args[i])) return {};
    map.push_back(param);
  }
  return map;
}

// The operator on one tensor, with what its parameters take.
struct Single {
  const OpDef* def = nullptr;
  std::vector<int> params;
};

// `base` is without "_foreach" and the "_" of writing in place.
Single FindSingle(const TapeCall& call, absl::string_view base,
                  absl::string_view overload, const OpRegistry& registry) {
  std::vector<std::string> names;
  for (const Renamed& renamed : kRenamed) {
    if (absl::StrCat(base, ".", overload) == renamed.foreach) {
      names.push_back(absl::StrCat("aten.", renamed.single));
    }
  }
  const bool takes_numbers = absl::StartsWith(overload, "Scalar");
  for (absl::string_view suffix :
       {takes_numbers ? ".Scalar" : ".Tensor",
        takes_numbers ? ".Tensor_Scalar" : ".Tensor_Tensor", ""}) {
    names.push_back(absl::StrCat("aten.", base, suffix));
  }
  for (const std::string& name : names) {
    const OpDef* def = registry.Find(name);
    if (def == nullptr || def->num_results() != 1) continue;
    std::vector<int> params = MapParams(call, *def);
    if (!params.empty()) return {def, std::move(params)};
  }
  return {};
}

// Entry `i` of a list; what is no list is the same for all.
TapeValue ItemOf(const TapeValue& value, size_t i) {
  if (const auto* list = std::get_if<TapeTensorList>(&value)) {
    return TapeTensorRef{list->ids[i]};
  }
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    return (*list)[i];
  }
  if (const auto* list = std::get_if<TapeHostList>(&value)) {
    const TapeHostOperand& item = list->items[i];
    if (item.id < 0) return item.constant;
    return TapeHostRef{item.id};
  }
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    return (*list)[i];
  }
  if (const auto* list = std::get_if<std::vector<bool>>(&value)) {
    return static_cast<bool>((*list)[i]);
  }
  return value;
}

// The size of a list, or `otherwise`.
size_t SizeOf(const TapeValue& value, size_t otherwise) {
  if (const auto* list = std::get_if<TapeTensorList>(&value)) {
    return list->ids.size();
  }
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    return list->size();
  }
  if (const auto* list = std::get_if<TapeHostList>(&value)) {
    return list->items.size();
  }
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    return list->size();
  }
  if (const auto* list = std::get_if<std::vector<bool>>(&value)) {
    return list->size();
  }
  return otherwise;
}

// A schema's default as a recorded argument.
TapeValue DefaultOf(const Param& param) {
  if (const auto* number = std::get_if<int64_t>(&param.default_value)) {
    return *number;
  }
  if (const auto* number = std::get_if<double>(&param.default_value)) {
    return *number;
  }
  if (const auto* flag = std::get_if<bool>(&param.default_value)) return *flag;
  return std::monostate();
}

// "aten.add.Tensor" as "aten.add_.Tensor".
std::string InPlaceName(absl::string_view op) {
  const size_t dot = std::min(op.find('.', op.find('.') + 1), op.size());
  return absl::StrCat(op.substr(0, dot), "_", op.substr(dot));
}

// A call of `def`, its source that of `call`, its arguments the defaults.
TapeCall CallOf(const OpDef& def, const TapeCall& call) {
  TapeCall single;
  single.op = def.name();
  single.file = call.file;
  single.line = call.line;
  single.scope = call.scope;
  single.is_backward = call.is_backward;
  for (const Param& param : def.schema().params) {
    single.arg_names.push_back(param.name);
    single.args.push_back(DefaultOf(param));
  }
  return single;
}

// How many tensors the call is about: -1 if its lists differ in size.
int CountItems(const TapeCall& call) {
  const size_t count = SizeOf(call.args[0], 0);
  for (const TapeValue& value : call.args) {
    if (SizeOf(value, count) != count) return -1;
  }
  return static_cast<int>(count);
}

std::optional<std::vector<TapeCall>> ExpandByName(const TapeCall& call,
                                                  const OpRegistry& registry) {
  absl::string_view name = call.op;
  if (!absl::ConsumePrefix(&name, "aten._foreach_") || call.args.empty()) {
    return std::nullopt;
  }
  const size_t dot = std::min(name.find('.'), name.size());
  absl::string_view base = name.substr(0, dot);
  const absl::string_view overload =
      dot < name.size() ? name.substr(dot + 1) : "";
  const bool is_inplace = absl::ConsumeSuffix(&base, "_");
  const auto [def, params] = FindSingle(call, base, overload, registry);
  const int count = CountItems(call);
  const auto* outputs = call.outputs.empty()
                            ? nullptr
                            : std::get_if<TapeTensorList>(&call.outputs[0]);
  if (def == nullptr || count < 0 || is_inplace == (outputs != nullptr)) {
    return std::nullopt;
  }
  std::vector<TapeCall> calls;
  for (int i = 0; i < count; ++i) {
    TapeCall single = CallOf(*def, call);
    for (size_t j = 0; j < call.args.size(); ++j) {
      single.args[params[j]] = ItemOf(call.args[j], i);
    }
    if (is_inplace) {
      single.op = InPlaceName(def->name());
      single.mutated_args = {0};
    } else {
      single.outputs = {TapeTensorRef{outputs->ids[i]}};
    }
    calls.push_back(std::move(single));
  }
  return calls;
}

// The list that holds entry `i` alone; what is no list is the same for all.
TapeValue ListOfItem(const TapeValue& value, size_t i) {
  if (const auto* list = std::get_if<TapeTensorList>(&value)) {
    return TapeTensorList{{list->ids[i]}};
  }
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    return std::vector<double>{(*list)[i]};
  }
  if (const auto* list = std::get_if<TapeHostList>(&value)) {
    return TapeHostList{{list->items[i]}};
  }
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    return std::vector<int64_t>{(*list)[i]};
  }
  if (const auto* list = std::get_if<std::vector<bool>>(&value)) {
    return std::vector<bool>{(*list)[i]};
  }
  return value;
}

// One of torch's fused optimizers and our step on one parameter. Arguments
// that the step lacks must be absent or an empty list.
struct FusedStep {
  absl::string_view fused;
  absl::string_view step;
  bool is_decoupled = false;          // adam_step's weight decay.
  std::vector<int32_t> mutated_args;  // Of the step.
};

// The name of the step's parameter that takes a list's items.
absl::string_view ItemName(absl::string_view list) {
  constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
      {"grads", "grad"},
      {"exp_avgs", "exp_avg"},
      {"exp_avg_sqs", "exp_avg_sq"},
      {"state_steps", "step"},
      {"momentum_buffer_list", "momentum_buffer"}};
  for (const auto& [from, to] : kNames) {
    if (from == list) return to;
  }
  return list;
}

// True for a recorded argument that says nothing.
bool IsEmpty(const TapeValue& value) {
  const auto* flag = std::get_if<bool>(&value);
  return std::holds_alternative<std::monostate>(value) ||
         (flag != nullptr && !*flag) || SizeOf(value, 1) == 0;
}

std::optional<std::vector<TapeCall>> ExpandFused(const TapeCall& call,
                                                 const OpRegistry& registry) {
  static const auto& steps = *new std::vector<FusedStep>{
      {"aten._fused_adam_", "mica.adam_step", false, {0, 2, 3}},
      {"aten._fused_adamw_", "mica.adam_step", true, {0, 2, 3}},
      {"aten._fused_sgd_", "mica.sgd_step", false, {0, 2}}};
  for (const FusedStep& fused : steps) {
    if (call.op != fused.fused &&
        call.op != absl::StrCat(fused.fused, ".tensor_lr")) {
      continue;
    }
    const OpDef* def = registry.Find(fused.step);
    if (def == nullptr) return std::nullopt;
    const size_t count = SizeOf(call.args[0], 0);
    std::vector<TapeCall> calls;
    for (size_t i = 0; i < count; ++i) {
      TapeCall single = CallOf(*def, call);
      single.op = InPlaceName(def->name());
      single.mutated_args = fused.mutated_args;
      for (size_t j = 0; j < call.args.size(); ++j) {
        const bool is_absent = IsEmpty(call.args[j]);
        const int param = def->FindParam(ItemName(call.arg_names[j]));
        if (param < 0 && !is_absent) return std::nullopt;
        if (param < 0 || SizeOf(call.args[j], count) != count) continue;
        single.args[param] = ItemOf(call.args[j], i);
      }
      const int decoupled = def->FindParam("is_decoupled");
      if (decoupled >= 0) single.args[decoupled] = fused.is_decoupled;
      // Without momentum there is no buffer to write.
      if (std::holds_alternative<std::monostate>(single.args[2])) {
        single.mutated_args = {0};
      }
      calls.push_back(std::move(single));
    }
    return calls;
  }
  return std::nullopt;
}

// Calls `visit(storage, item)` for each tensor of an argument; the item is -1
// for what is no list.
template <typename F>
void ForEachItem(const Tape& tape, const TapeValue& value, const F& visit) {
  int item = 0;
  if (const auto* list = std::get_if<TapeTensorList>(&value)) {
    for (const TapeTensorId id : list->ids) {
      if (id != kNoTapeTensor) visit(tape.tensors[id].storage, item);
      ++item;
    }
  } else {
    ForEachTensor(value, [&](TapeTensorId id) {
      visit(tape.tensors[id].storage, /*item=*/-1);
    });
  }
}

}  // namespace

std::vector<TapeCall> TakeItemByItem(const TapeCall& call) {
  std::vector<TapeCall> calls;
  const int count = CountItems(call);
  for (int i = 0; i < count; ++i) {
    TapeCall& single = calls.emplace_back(call);
    for (TapeValue& value : single.args) value = ListOfItem(value, i);
  }
  return calls;
}

bool WritesShared(const Tape& tape, const TapeCall& call) {
  absl::flat_hash_map<int32_t, int> written;  // Which item, by storage.
  bool is_shared = false, is_list = false;
  for (const int32_t arg : call.mutated_args) {
    is_list |= std::holds_alternative<TapeTensorList>(call.args[arg]);
    ForEachItem(tape, call.args[arg], [&](int32_t storage, int item) {
      is_shared |= !written.try_emplace(storage, item).second;
    });
  }
  if (is_shared || !is_list) return is_shared;
  for (const TapeValue& value : call.args) {
    ForEachItem(tape, value, [&](int32_t storage, int item) {
      const auto found = written.find(storage);
      is_shared |= found != written.end() && found->second != item;
    });
  }
  return is_shared;
}

std::optional<std::vector<TapeCall>> ExpandForeach(const TapeCall& call,
                                                   const OpRegistry& registry) {
  if (call.args.empty()) return std::nullopt;
  auto calls = ExpandByName(call, registry);
  return calls.has_value() ? calls : ExpandFused(call, registry);
}

}  // namespace mica
