#include "tests/property/interpreter.h"

#include <cstring>
#include <memory>
#include <utility>
#include <variant>

#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

class Interpreter {
 public:
  explicit Interpreter(const KernelRegistry& kernels) : kernels_(kernels) {}

  // The views lead into tensors that live as long as the Interpreter.
  absl::StatusOr<std::vector<TensorView>> RunBlock(
      const Program& program, const std::vector<TensorView>& inputs) {
    std::vector<TensorView> values(program.num_values());
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[program.inputs()[i]] = {inputs[i].data,
                                     program.type(program.inputs()[i])};
    }
    for (const Constant& constant : program.constants()) {
      MICA_ASSIGN_OR_RETURN(values[constant.value],
                            New(program.type(constant.value)));
      std::memcpy(values[constant.value].data, constant.bytes.data(),
                  constant.bytes.size());
    }
    for (const Op& op : program.ops()) {
      MICA_RETURN_IF_ERROR(RunOp(program, op, values));
    }
    std::vector<TensorView> outputs;
    for (ValueId id : program.outputs()) {
      outputs.push_back(id == kNoValue ? TensorView() : values[id]);
    }
    return outputs;
  }

 private:
  absl::StatusOr<TensorView> New(const TensorType& type) {
    MICA_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type));
    tensors_.push_back(tensor);
    return tensor.view();
  }

  absl::StatusOr<TensorView> Copy(const TensorView& from) {
    MICA_ASSIGN_OR_RETURN(const TensorView to, New(OwnedType(from.type)));
    CopyElements(from, to);
    return to;
  }

  absl::Status RunOp(const Program& program, const Op& op,
                     std::vector<TensorView>& values) {
    if (!op.bodies.empty()) return RunControl(op, values);
    if (op.def->is_view()) return RunView(program, op, values);
    KernelRequest request{.def = op.def, .arguments = &op.arguments};
    std::vector<void*> args;
    ForEachValue(op.arguments, [&](ValueId id) {
      request.operands.push_back({.type = values[id].type});
      args.push_back(values[id].data);
    });
    for (ValueId id : op.results) {
      request.results.push_back({.type = program.type(id)});
      MICA_ASSIGN_OR_RETURN(values[id], New(program.type(id)));
      args.push_back(values[id].data);
    }
    const DType dtype = request.operands.empty()
                            ? request.results[0].type.dtype
                            : request.operands[0].type.dtype;
    const Kernel* kernel =
        kernels_.FindReference({.op = op.def->name(), .dtype = dtype});
    if (kernel == nullptr) return absl::NotFoundError(Describe(op));
    const Verdict verdict = kernel->prepare(request);
    const auto* prepared = std::get_if<Prepared>(&verdict);
    if (prepared == nullptr) return absl::NotFoundError(Describe(op));
    std::vector<char> scratch(prepared->scratch_bytes + kBufferAlignment);
    args.push_back(scratch.data());
    LaunchContext context;
    if (prepared->launch(prepared->state.get(), args.data(), context)) {
      return absl::OkStatus();
    }
    return context.status;
  }

  absl::Status RunView(const Program& program, const Op& op,
                       std::vector<TensorView>& values) {
    const OpCall::TypeOf type_of = [&](ValueId id) -> const TensorType& {
      return program.type(id);
    };
    MICA_ASSIGN_OR_RETURN(
        const View view,
        op.def->view()(OpCall(*op.def, op.arguments, type_of)));
    const TensorView& base = values[std::get<ValueRef>(op.arguments[0]).id];
    values[op.results[0]] = {
        .data = base.as<char>() + view.offset * ElementBytes(base.type.dtype),
        .type = program.type(op.results[0])};
    return absl::OkStatus();
  }

  absl::Status RunControl(const Op& op, std::vector<TensorView>& values) {
    std::vector<TensorView> operands;
    for (ValueId id : BodyOperands(op)) operands.push_back(values[id]);
    std::vector<TensorView> results;
    if (ControlKindOf(*op.def) == ControlKind::kIf) {
      const TensorView& predicate =
          values[std::get<ValueRef>(op.arguments[0]).id];
      const int body = *predicate.as<uint8_t>() != 0 ? 0 : 1;
      MICA_ASSIGN_OR_RETURN(results, RunBlock(*op.bodies[body], operands));
    } else if (ControlKindOf(*op.def) == ControlKind::kCall) {
      MICA_ASSIGN_OR_RETURN(results, RunBlock(*op.bodies[0], operands));
    } else {
      for (int i = 0; i < NumCarried(op); ++i) {
        MICA_ASSIGN_OR_RETURN(operands[i], Copy(operands[i]));
      }
      while (true) {
        MICA_ASSIGN_OR_RETURN(const auto holds,
                              RunBlock(*op.bodies[0], operands));
        if (*holds[0].as<uint8_t>() == 0) break;
        MICA_ASSIGN_OR_RETURN(results, RunBlock(*op.bodies[1], operands));
        for (size_t i = 0; i < results.size(); ++i) {
          if (results[i].data == nullptr) continue;
          MICA_ASSIGN_OR_RETURN(operands[i], Copy(results[i]));
        }
      }
      results.assign(operands.begin(), operands.begin() + NumCarried(op));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].data == nullptr) continue;
      MICA_ASSIGN_OR_RETURN(values[op.results[i]], Copy(results[i]));
    }
    return absl::OkStatus();
  }

  const KernelRegistry& kernels_;
  std::vector<Tensor> tensors_;
};

}  // namespace

absl::StatusOr<std::vector<Tensor>> Interpret(const Program& program,
                                              const std::vector<Tensor>& inputs,
                                              const KernelRegistry& kernels) {
  Interpreter interpreter(kernels);
  std::vector<TensorView> views;
  for (const Tensor& input : inputs) views.push_back(input.view());
  MICA_ASSIGN_OR_RETURN(const std::vector<TensorView> values,
                        interpreter.RunBlock(program, views));
  std::vector<Tensor> outputs;
  for (const TensorView& value : values) {
    MICA_ASSIGN_OR_RETURN(Tensor copy, Tensor::CopyOf(value));
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

}  // namespace mica
