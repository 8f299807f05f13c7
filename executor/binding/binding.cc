#include "executor/binding/binding.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/binding/same_folds.h"
#include "framework/base/status.h"
#include "framework/device/transfer.h"
#include "framework/ir/control_flow.h"
#include "framework/trace/recorder.h"
#include "glog/logging.h"
#include "kernels/cpu/team_size.h"

namespace mica {

absl::Status CheckFed(absl::string_view what, const TensorType& wanted,
                      const TensorType& got) {
  // A host scalar may be fed as a tensor without dims.
  const bool fits =
      wanted.dtype == got.dtype && wanted.dims == got.dims &&
      (got.rank() == 0 ||
       (wanted.is_row_major() ? got.is_row_major()
                              : wanted.strides == got.EffectiveStrides()));
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": wants ", wanted.ToString(), ", got ", got.ToString()));
}

absl::StatusOr<std::shared_ptr<const Binding>> Binding::Create(
    std::shared_ptr<const Plan> plan, absl::Span<const TensorView> variables,
    std::shared_ptr<const Program> source, std::shared_ptr<Device> device,
    const Binding* like, bool like_is_current) {
  const Program& program = source == nullptr ? plan->program() : *source;
  TraceSpan span("analysis", "bind @", program.name());
  span.Add("packed", static_cast<int64_t>(plan->packed().size()));
  if (variables.size() != program.variables().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("wants ", program.variables().size(), " variables, got ",
                     variables.size()));
  }
  const Place place = device == nullptr ? Place() : device->place();
  std::shared_ptr<Binding> binding(new Binding);
  for (size_t i = 0; i < variables.size(); ++i) {
    const Variable& variable = program.variables()[i];
    MICA_RETURN_IF_ERROR(
        CheckFed(absl::StrCat("variable \"", variable.name, "\""),
                 program.type(variable.value), variables[i].type));
    if (variables[i].place != place) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable \"", variable.name, "\": wants a tensor on ",
          place.ToString(), ", got one on ", variables[i].place.ToString()));
    }
    binding->variables_.push_back(variables[i].data);
  }
  binding->plan_ = std::move(plan);
  binding->source_ = std::move(source);
  binding->device_ = std::move(device);
  const cpu::TeamSize team(binding->plan_->team_size());
  MICA_RETURN_IF_ERROR(binding->CopyConstants());
  if (like != nullptr && like_is_current && binding->TakeFrom(*like)) {
    span.Add("shared", static_cast<int64_t>(binding->packed_.size()));
    return binding;
  }
  MICA_RETURN_IF_ERROR(binding->Fold());
  MICA_ASSIGN_OR_RETURN(const int64_t num_shared,
                        binding->Pack(like, like_is_current));
  span.Add("shared", num_shared);
  return binding;
}

const SourceLine& Binding::SourceOf(const Plan& plan, const Step& step) const {
  if (source_ == nullptr || step.op < 0) return plan.source(step);
  const OpId origin = plan.origin(step);
  return origin < 0 ? plan.source(step) : OpAt(*source_, origin).source;
}

std::string Binding::NameOf(const Plan& plan, StepId id) const {
  const Step& step = plan.steps()[id];
  std::string name = absl::StrCat("step ", id, ", ", step.name);
  const SourceLine& source = SourceOf(plan, step);
  if (source.line != 0) absl::StrAppend(&name, " (", source.ToString(), ")");
  return name;
}

void* Binding::constant(int index) const {
  if (device_ == nullptr) return const_cast<void*>(plan_->constant(index));
  return static_cast<char*>(constants_.data()) + plan_->constant_offset(index);
}

const void* Binding::AddressOf(const Location& location) const {
  const auto index = location.index;
  const void* base = nullptr;
  switch (location.home) {
    case Home::kConstant:
      base = constant(index);
      break;
    case Home::kVariable:
      base = variables_[index];
      break;
    case Home::kFolded:
      base = folded_[index]->data();
      break;
    case Home::kNone:
      return nullptr;
    default:
      LOG(FATAL) << "a fold reads what only a run has";
  }
  return static_cast<const char*>(base) + location.offset;
}

absl::Status Binding::CopyConstants() {
  if (device_ == nullptr) return absl::OkStatus();
  const absl::Span<const uint64_t> words = plan_->constants();
  const auto bytes = static_cast<int64_t>(words.size() * sizeof(words[0]));
  MICA_ASSIGN_OR_RETURN(constants_, Buffer::Allocate(bytes, device_));
  return CopyBytes(constants_.data(), words.data(), bytes, CopyKind::kToDevice,
                   *device_);
}

absl::Status Binding::Fold() {
  for (const FoldedValue& value : plan_->folded()) {
    MICA_ASSIGN_OR_RETURN(Buffer buffer,
                          Buffer::Allocate(value.bytes, device_));
    folded_.push_back(std::make_shared<const Buffer>(std::move(buffer)));
  }
  for (const Step& step : plan_->folds()) {
    std::vector<void*> args;
    for (const Location& location :
         plan_->fold_args().subspan(step.first_arg, step.num_args)) {
      args.push_back(const_cast<void*>(AddressOf(location)));
    }
    const absl::Status status = LaunchFold(step, args);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("folding ", step.name, " ",
                                           SourceOf(step).ToString()));
    }
  }
  return absl::OkStatus();
}

absl::Status Binding::LaunchFold(const Step& step,
                                 absl::Span<void* const> args) const {
  std::unique_ptr<KernelInstance> instance;
  const void* state = step.prepared->state.get();
  if (step.prepared->make_instance != nullptr) {
    instance = step.prepared->make_instance();
    state = instance.get();
  }
  if (device_ != nullptr) {
    return LaunchAlone({step.prepared->launch, state, args}, *device_);
  }
  LaunchContext context;
  return step.prepared->launch(state, args.data(), context)
             ? absl::OkStatus()
             : std::move(context.status);
}

std::shared_ptr<const Buffer> Binding::FindPacked(const PackedOperand& packed,
                                                  const Buffer* made,
                                                  const Binding& like) const {
  const absl::Span<const PackedOperand> others = like.plan_->packed();
  const auto is_folded = [](const PackedOperand& one) {
    return one.from.home == Home::kFolded;
  };
  for (size_t i = 0; i < others.size(); ++i) {
    if (others[i].bytes != packed.bytes ||
        is_folded(others[i]) != is_folded(packed)) {
      continue;
    }
    // What was folded has no address by which it could be known.
    const bool may_be_same =
        is_folded(packed)
            ? made != nullptr
            : like.AddressOf(others[i].from) == AddressOf(packed.from);
    if (!may_be_same) continue;
    const bool is_same =
        made == nullptr
            ? !packed.layout.empty() && others[i].layout == packed.layout
            : std::memcmp(like.packed_[i]->data(), made->data(),
                          static_cast<size_t>(packed.bytes)) == 0;
    if (is_same) return like.packed_[i];
  }
  return nullptr;
}

absl::StatusOr<int64_t> Binding::Pack(const Binding* like,
                                      bool like_is_current) {
  int64_t num_shared = 0;
  const bool shares =
      like != nullptr && device_ == nullptr && like->device_ == nullptr;
  for (const PackedOperand& packed : plan_->packed()) {
    std::shared_ptr<const Buffer> shared;
    if (shares && like_is_current) shared = FindPacked(packed, nullptr, *like);
    if (shared != nullptr) {
      packed_.push_back(std::move(shared));
      ++num_shared;
      continue;
    }
    MICA_ASSIGN_OR_RETURN(Buffer buffer,
                          Buffer::Allocate(packed.bytes, device_));
    MICA_RETURN_IF_ERROR(PackOne(packed, buffer.data()));
    if (shares) shared = FindPacked(packed, &buffer, *like);
    if (shared != nullptr) {
      ++num_shared;
    } else {
      shared = std::make_shared<const Buffer>(std::move(buffer));
    }
    packed_.push_back(std::move(shared));
  }
  for (size_t i = 0; i < folded_.size(); ++i) {
    if (!plan_->folded()[i].is_read) folded_[i] = nullptr;
  }
  return num_shared;
}

bool Binding::TakeFrom(const Binding& like) {
  if (device_ != nullptr || like.device_ != nullptr ||
      variables_ != like.variables_ || !HaveSameFolds(*plan_, *like.plan_)) {
    return false;
  }
  for (size_t i = 0; i < like.folded_.size(); ++i) {
    if (plan_->folded()[i].is_read && like.folded_[i] == nullptr) return false;
  }
  const absl::Span<const PackedOperand> others = like.plan_->packed();
  std::vector<std::shared_ptr<const Buffer>> shared;
  for (const PackedOperand& packed : plan_->packed()) {
    const auto other =
        std::find_if(others.begin(), others.end(), [&](const auto& one) {
          return one.from == packed.from && one.bytes == packed.bytes &&
                 one.layout == packed.layout && !one.layout.empty();
        });
    if (other == others.end()) return false;
    shared.push_back(like.packed_[other - others.begin()]);
  }
  packed_ = std::move(shared);
  for (size_t i = 0; i < like.folded_.size(); ++i) {
    folded_.push_back(plan_->folded()[i].is_read ? like.folded_[i] : nullptr);
  }
  return true;
}

absl::Status Binding::PackOne(const PackedOperand& packed, void* to) const {
  if (device_ == nullptr) return packed.pack(AddressOf(packed.from), to);
  // Kernels of the host's pack, for whom both must lie there.
  MICA_ASSIGN_OR_RETURN(Buffer from, Buffer::Allocate(packed.from_bytes));
  MICA_ASSIGN_OR_RETURN(Buffer made, Buffer::Allocate(packed.bytes));
  MICA_RETURN_IF_ERROR(CopyBytes(from.data(), AddressOf(packed.from),
                                 packed.from_bytes, CopyKind::kToHost,
                                 *device_));
  MICA_RETURN_IF_ERROR(packed.pack(from.data(), made.data()));
  return CopyBytes(to, made.data(), packed.bytes, CopyKind::kToDevice,
                   *device_);
}

}  // namespace mica
