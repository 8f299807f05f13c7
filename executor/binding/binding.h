// A Plan joined to one set of variables.

#ifndef MICA_EXECUTOR_BINDING_BINDING_H_
#define MICA_EXECUTOR_BINDING_BINDING_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/plan/plan.h"
#include "framework/device/device.h"
#include "framework/tensor/tensor.h"

namespace mica {

// Addresses of a Program's variables, and the packed copies that kernels asked
// for of frozen ones. Immutable; Jobs share it. The variables' memory must
// outlive it unless Jobs rebind them.
class Binding {
 public:
  // `variables` in the order of Program::variables(). InvalidArgument, naming
  // the variable, where one is not of the type that the Program says. Packs
  // what the Plan wants packed, which reads the variables now.
  //
  // `source` is the Program that the Plan was asked for, which may differ in
  // labels from the one that it was made of: errors of the Binding and its Jobs
  // give the names and lines of `source`. Null means the Plan's own.
  //
  // Packed copies that are bit for bit those of `like`, of the same variables
  // on the host for a Plan of other sizes, are held together with it; may be
  // null. If `like_is_current`, the variables hold what they held when it was
  // made: then copies of one layout aren't made to be compared.
  //
  // On `device`, whose kernels the Plan's then are, all that Jobs read lies
  // there, the variables too: InvalidArgument for those of another place. Null
  // means the host.
  static absl::StatusOr<std::shared_ptr<const Binding>> Create(
      std::shared_ptr<const Plan> plan, absl::Span<const TensorView> variables,
      std::shared_ptr<const Program> source = nullptr,
      std::shared_ptr<Device> device = nullptr, const Binding* like = nullptr,
      bool like_is_current = false);

  const Plan& plan() const { return *plan_; }
  const std::shared_ptr<const Plan>& shared_plan() const { return plan_; }
  // The user's line of a step.
  const SourceLine& SourceOf(const Step& step) const {
    return SourceOf(*plan_, step);
  }
  // The same of a step of `plan`, which is that of a body.
  const SourceLine& SourceOf(const Plan& plan, const Step& step) const;
  // "step 3, aten.mm (model.py:12)", for errors.
  std::string NameOf(const Plan& plan, StepId id) const;
  const std::shared_ptr<Device>& device() const { return device_; }
  void* constant(int index) const;
  void* variable(int index) const { return variables_[index]; }
  void* packed(int index) const { return packed_[index]->data(); }
  void* folded(int index) const { return folded_[index]->data(); }

 private:
  Binding() = default;
  absl::Status CopyConstants();
  // Computes what depends on frozen variables alone.
  absl::Status Fold();
  // Takes over what `like`, which is current, has folded and packed. False,
  // and nothing is taken, if it hasn't all of it.
  bool TakeFrom(const Binding& like);
  absl::Status LaunchFold(const Step& step, absl::Span<void* const> args) const;
  // Gives how many copies it shares with `like`.
  absl::StatusOr<int64_t> Pack(const Binding* like, bool like_is_current);
  // A copy of the same that `like` has: of the same layout if `made` is null,
  // else of these bytes. Null if there is none.
  std::shared_ptr<const Buffer> FindPacked(const PackedOperand& packed,
                                           const Buffer* made,
                                           const Binding& like) const;
  absl::Status PackOne(const PackedOperand& packed, void* to) const;
  const void* AddressOf(const Location& location) const;

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Program> source_;
  std::shared_ptr<Device> device_;
  Buffer constants_;  // Where the Plan's own are out of the device's reach.
  std::vector<void*> variables_;
  std::vector<std::shared_ptr<const Buffer>> packed_;
  std::vector<std::shared_ptr<const Buffer>> folded_;
};

// InvalidArgument unless `got` has the dtype, dims and, if the wanted type
// spells them out, the strides of `wanted`.
absl::Status CheckFed(absl::string_view what, const TensorType& wanted,
                      const TensorType& got);

}  // namespace mica

#endif  // MICA_EXECUTOR_BINDING_BINDING_H_
