#include "python/torch_side/opaque/aten_operands.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {
namespace {

// A copy for ATen to write to, of the same strides: which elements its loops
// take as vectors, and so their last bits, depends on them.
at::Tensor CopyToWrite(const at::Tensor& tensor, bool overwrites) {
  const at::MemOverlap overlap = at::has_internal_overlap(tensor);
  const bool has_gaps =
      !tensor.is_non_overlapping_and_dense() && overlap != at::MemOverlap::Yes;
  const bool needs_bytes = !overwrites || overlap != at::MemOverlap::No;
  if (needs_bytes && !has_gaps) return at::clone(tensor);
  at::Tensor copy =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
  return needs_bytes ? copy.copy_(tensor) : copy;
}

// Whether nobody else has the tensors or their memory, and any call may have
// them: those made in inference mode are for that alone.
bool AreOurs(const AtenOperands::Given& given) {
  constexpr size_t kHere = 2;  // Among the arguments, too.
  return std::all_of(
      given.tensors.begin(), given.tensors.end(), [](const at::Tensor& tensor) {
        return tensor.use_count() == kHere &&
               tensor.storage().use_count() == 1 && !tensor.is_inference();
      });
}

}  // namespace

bool OnlyDraws(const c10::OperatorHandle& op) {
  static const auto& names = *new absl::flat_hash_set<absl::string_view>{
      "aten::bernoulli_", "aten::cauchy_",     "aten::exponential_",
      "aten::geometric_", "aten::log_normal_", "aten::normal_",
      "aten::random_",    "aten::uniform_"};
  return names.contains(op.operator_name().name);
}

// Those of the last call, for the next. A call that comes while another has
// them makes its own.
class AtenOperands::Spare {
 public:
  Spare() = default;
  ~Spare() { delete given_.load(); }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;

  // Null if there are none. They lie where they lay in their last call.
  std::unique_ptr<Given> Take() {
    return std::unique_ptr<Given>(given_.exchange(nullptr));
  }
  void Put(std::unique_ptr<Given> given) {
    delete given_.exchange(given.release());
  }

 private:
  std::atomic<Given*> given_ = nullptr;
};

// Lends operands to ATen, one after the other.
class AtenOperands::Reader {
 public:
  Reader(const AtenOperands& operands, void* const* args)
      : operands_(operands), args_(args) {}

  at::Tensor NextTensor(bool is_mutated) {
    const TensorType& type = operands_.types[next_];
    at::Tensor tensor = BorrowedTensor(args_[next_++], type);
    if (is_mutated || type.is_scalar) {
      tensor = CopyToWrite(tensor, is_mutated && operands_.overwrites);
    }
    if (type.is_scalar && !is_mutated) {
      tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    if (operands_.lazy.empty()) return tensor;
    return WithLazyBits(tensor, operands_.lazy[next_tensor_++]);
  }

  c10::IValue Next(const AtenParam& param) {
    if (param.generator.has_value()) return GeneratorOf(*param.generator);
    if (param.is_list) return NextList(param);
    if (param.num_values == 0) return param.constant;
    if (param.is_scalar) {
      const TensorType& type = operands_.types[next_];
      return BorrowedTensor(args_[next_++], type).item();
    }
    return NextTensor(param.is_mutated);
  }

 private:
  c10::IValue NextList(const AtenParam& param) {
    if (!param.has_optional_elements) {
      c10::List<at::Tensor> tensors;
      for (size_t i = 0; i < param.is_present.size(); ++i) {
        tensors.push_back(NextTensor(param.is_mutated));
      }
      return tensors;
    }
    c10::List<std::optional<at::Tensor>> tensors;
    for (bool is_present : param.is_present) {
      tensors.push_back(
          is_present ? std::optional<at::Tensor>(NextTensor(param.is_mutated))
                     : std::nullopt);
    }
    return tensors;
  }

  const AtenOperands& operands_;
  void* const* args_;
  int next_ = 0;         // Operand.
  int next_tensor_ = 0;  // As `lazy` counts: host scalars left out.
};

bool AtenOperands::AreArrays() const {
  const auto is_plain = [](const AtenParam& param) {
    return !param.is_list && !param.is_scalar && !param.is_mutated &&
           !param.generator.has_value() &&
           (param.num_values == 1 || !param.constant.isTensor());
  };
  const auto is_array = [](const TensorType& type) { return !type.is_scalar; };
  return lazy.empty() && std::all_of(params.begin(), params.end(), is_plain) &&
         std::all_of(types.begin(), types.end(), is_array);
}

void AtenOperands::KeepSpare() {
  if (AreArrays()) spare_ = std::make_shared<Spare>();
}

std::unique_ptr<AtenOperands::Given> AtenOperands::Give(
    void* const* args) const {
  if (spare_ != nullptr) {
    if (auto given = spare_->Take(); given != nullptr) {
      for (size_t i = 0; i < given->tensors.size(); ++i) {
        given->tensors[i].storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
            {args[i], c10::DeviceType::CPU});
      }
      return given;
    }
  }
  auto given = std::make_unique<Given>();
  Reader reader(*this, args);
  for (const AtenParam& param : params) {
    given->arguments.push_back(reader.Next(param));
    const c10::IValue& argument = given->arguments.back();
    if (spare_ != nullptr && argument.isTensor()) {
      given->tensors.push_back(argument.toTensor());
    }
  }
  return given;
}

void AtenOperands::TakeBack(std::unique_ptr<Given> given) const {
  if (spare_ != nullptr && AreOurs(*given)) spare_->Put(std::move(given));
}

}  // namespace mica
