#include "python/torch_side/recorder/op_facts.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"

namespace mica {
namespace {

using Table = absl::flat_hash_map<absl::string_view, OpFacts>;

Table MakeTable() {
  Table table;
  for (const absl::string_view op :
       {"aten.empty.memory_format", "aten.empty_strided", "aten.new_empty",
        "aten.new_empty_strided", "aten.empty_like", "aten.empty_permuted"}) {
    table[op] = {.is_uninitialized = true};
  }
  for (const absl::string_view op :
       {"aten.copy_", "aten.fill_.Scalar", "aten.fill_.Tensor", "aten.zero_",
        "aten.normal_", "aten.uniform_", "aten.random_", "aten.random_.from",
        "aten.random_.to", "aten.exponential_", "aten.bernoulli_.float",
        "aten.bernoulli_.Tensor", "aten.cauchy_", "aten.log_normal_",
        "aten.geometric_"}) {
    table[op] = {.overwrites = OpFacts::kEach};
  }
  // The noise. Where it writes none, its gradient reads none.
  for (const absl::string_view op :
       {"aten.rrelu_with_noise", "aten.rrelu_with_noise_"}) {
    table[op] = {.overwrites = 1};
  }
  // running_mean, running_var, when training.
  table["aten.native_batch_norm"] = {.hidden_writes = {3, 4}, .writes_if = 5};
  table["aten.cudnn_batch_norm"] = {.hidden_writes = {3, 4}, .writes_if = 5};
  table["aten.miopen_batch_norm"] = {.hidden_writes = {3, 4}, .writes_if = 5};
  for (const absl::string_view op :
       {"aten.sym_size", "aten.sym_size.int", "aten.sym_stride",
        "aten.sym_stride.int", "aten.sym_numel", "aten.sym_storage_offset",
        "aten.size", "aten.size.int", "aten.stride", "aten.stride.int",
        "aten.is_same_size", "aten._has_same_storage_numel",
        "aten._has_compatible_shallow_copy_type", "aten.dim",
        "aten._nested_tensor_size", "aten.sym_is_contiguous",
        "aten.is_contiguous", "aten.is_contiguous.memory_format",
        "aten._assert_tensor_metadata",
        // Marks for the profiler.
        "profiler._record_function_enter",
        "profiler._record_function_enter_new", "profiler._record_function_exit",
        "profiler._record_function_exit._RecordFunction"}) {
    table[op] = {.is_metadata_only = true};
  }
  const char* changes = "gives a tensor other memory in place";
  for (const absl::string_view op :
       {"aten.set_", "aten.set_.source_Storage",
        "aten.set_.source_Storage_storage_offset", "aten.set_.source_Tensor",
        "aten.set_.source_Tensor_storage_offset", "aten._resize_output_",
        "aten.set_data", "aten.swap_"}) {
    table[op] = {.refuse = changes};
  }
  table["aten.resize_"] = table["aten.resize_as_"] = {.resizes = true};
  table["aten._print"] = {.refuse = "prints"};
  table["aten.record_stream"] = {.refuse = "works on a stream"};
  table["aten._pin_memory"] = {.refuse = "pins memory"};
  table["aten.is_pinned"] = {.refuse = "asks for pinned memory"};
  table["aten.from_file"] = {.refuse = "maps a file"};
  table["aten._version"] = {.refuse = "reads a version counter"};
  table["aten.requires_grad_"] = {.refuse = "changes what autograd tracks"};
  table["aten.retain_grad"] = {.refuse = "changes what autograd tracks"};
  table["aten._backward"] = {.refuse = "runs autograd"};
  return table;
}

}  // namespace

OpFacts FindOpFacts(absl::string_view op) {
  static const Table& table = *new Table(MakeTable());
  const auto it = table.find(op);
  if (it != table.end()) return it->second;
  OpFacts facts;
  // An out-variant overwrites what it is given.
  if (absl::EndsWith(op, "out")) facts.overwrites = OpFacts::kEach;
  return facts;
}

}  // namespace mica
