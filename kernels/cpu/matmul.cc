// Matrix products: our own tiles first, oneDNN for what they don't take, plain
// loops for what isn't float32.

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "kernels/cpu/activation_name.h"
#include "kernels/cpu/aten_wins.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/matrix_view.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/widened.h"

namespace mica::cpu {
namespace {

// A product with the places of its operands among a launch's arguments; -1
// for what isn't there.
struct Call {
  ProductSpec spec;
  int a_arg = 0, b_arg = 1, bias_arg = -1, residual_arg = -1, c_arg = 2;
};

void SetOperands(const MatrixView& a, const MatrixView& b, const MatrixView& c,
                 ProductSpec& spec) {
  spec.batch = c.batch;
  spec.m = c.rows;
  spec.n = c.cols;
  spec.k = a.cols;
  spec.a_batch_stride = a.batch_stride;
  spec.a_row_stride = a.row_stride;
  spec.a_col_stride = a.col_stride;
  spec.b_batch_stride = b.batch_stride;
  spec.b_row_stride = b.row_stride;
  spec.b_col_stride = b.col_stride;
  spec.c_batch_stride = c.batch_stride;
  spec.c_row_stride = c.row_stride;
  spec.c_col_stride = c.col_stride;
}

// The constant given for `param`, 1 by default; nothing for a value.
std::optional<double> Factor(const KernelRequest& request, int param) {
  if (!request.Has(param)) return 1.0;
  if (request.OperandIndex(param) >= 0) return std::nullopt;
  return request.Number(param);
}

// beta * self, as a bias row or as a residual, and alpha.
std::optional<std::string> SetAddend(const KernelRequest& request, Call& call) {
  const auto beta = Factor(request, 3), alpha = Factor(request, 4);
  if (!beta.has_value() || !alpha.has_value()) return "alpha or beta varies";
  call.spec.alpha = static_cast<float>(*alpha);
  if (call.spec.alpha != *alpha &&
      request.results[0].type.dtype != DType::kF32) {
    return "alpha is no float32";
  }
  if (*beta == 0) return std::nullopt;  // Not even a nan of it counts.
  if (*beta != 1) return "beta is neither 0 nor 1";
  const TensorType& self = request.operands[0].type;
  const Dims strides = self.EffectiveStrides();
  const int rank = self.rank();
  if (rank == 0 || self.dims[rank - 1] != call.spec.n ||
      (strides[rank - 1] != 1 && call.spec.n > 1)) {
    return "the addend's rows are broadcast or have gaps";
  }
  bool is_row = true;
  for (int i = 0; i < rank - 1; ++i) is_row = is_row && self.dims[i] == 1;
  if (is_row) {
    call.spec.has_bias = true;
    call.bias_arg = 0;
    return std::nullopt;
  }
  call.spec.has_residual = true;
  call.residual_arg = 0;
  auto stride = [&](int from_end) {
    const int i = rank - from_end;
    return i >= 0 && self.dims[i] != 1 ? strides[i] : int64_t{0};
  };
  call.spec.residual_row_stride = stride(2);
  call.spec.residual_batch_stride = stride(3);
  return std::nullopt;
}

// mm, bmm: the operands from `first` on; addmm, baddbmm add operand 0.
std::optional<std::string> ParseProduct(const KernelRequest& request, int first,
                                        Call& call) {
  call.a_arg = first;
  call.b_arg = first + 1;
  call.c_arg = static_cast<int>(request.operands.size());
  SetOperands(ViewOf(request.operands[first].type),
              ViewOf(request.operands[first + 1].type),
              ViewOf(request.results[0].type), call.spec);
  call.spec.is_frozen = request.operands[first + 1].is_frozen;
  call.spec.num_threads = request.num_threads;
  if (first == 1) return SetAddend(request, call);
  return std::nullopt;
}

// mica.linear: x[..., k], weight[n, k], bias[n]?, residual[..., n]?.
std::optional<std::string> ParseLinear(const KernelRequest& request,
                                       Call& call) {
  const auto x = Flatten(request.operands[0].type);
  const auto c = Flatten(request.results[0].type);
  if (!x.has_value() || !c.has_value()) return "rows lie at several distances";
  MatrixView b = ViewOf(request.operands[1].type);
  std::swap(b.rows, b.cols);
  std::swap(b.row_stride, b.col_stride);
  SetOperands(*x, b, *c, call.spec);
  call.c_arg = static_cast<int>(request.operands.size());
  call.bias_arg = request.OperandIndex(2);
  call.residual_arg = request.OperandIndex(3);
  const auto activation =
      ActivationNamed(request.Has(4) ? request.String(4) : "none");
  if (!activation.has_value()) return "an unknown activation";
  call.spec.activation = *activation;
  if (call.bias_arg >= 0) {
    const TensorType& bias = request.operands[call.bias_arg].type;
    if (bias.EffectiveStrides()[0] != 1 && call.spec.n > 1) {
      return "the bias has gaps";
    }
    call.spec.has_bias = true;
  }
  if (call.residual_arg >= 0) {
    const auto residual = Flatten(request.operands[call.residual_arg].type);
    if (!residual.has_value() ||
        (residual->col_stride != 1 && call.spec.n > 1)) {
      return "the residual's rows have gaps";
    }
    call.spec.has_residual = true;
    call.spec.residual_row_stride = residual->row_stride;
  }
  call.spec.is_frozen = request.operands[1].is_frozen;
  call.spec.num_threads = request.num_threads;
  return std::nullopt;
}

using ParseFn = std::optional<std::string> (*)(const KernelRequest&, Call&);

std::optional<std::string> ParsePlain(const KernelRequest& request,
                                      Call& call) {
  return ParseProduct(request, 0, call);
}
std::optional<std::string> ParseAdding(const KernelRequest& request,
                                       Call& call) {
  return ParseProduct(request, 1, call);
}

// Pointer number `arg`, null for -1.
void* Address(void* const* args, int arg) {
  return arg < 0 ? nullptr : args[arg];
}
float* Pointer(void* const* args, int arg) {
  return static_cast<float*>(Address(args, arg));
}

struct TileState {
  Product product;
  Call call;
  int scratch_arg = -1;
};

bool LaunchTiles(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const TileState*>(state);
  s.product.Run({.a = Pointer(args, s.call.a_arg),
                 .b = Pointer(args, s.call.b_arg),
                 .bias = Pointer(args, s.call.bias_arg),
                 .residual = Pointer(args, s.call.residual_arg),
                 .c = Pointer(args, s.call.c_arg),
                 .scratch = Pointer(args, s.scratch_arg)});
  return true;
}

// The residual is read, tile by tile, before the result is written there. It
// must not be a's memory as well, which later tiles read again: types that
// differ rule that out.
uint32_t InplaceOf(const KernelRequest& request, const Call& call,
                   const Product& product) {
  if (call.residual_arg < 0) return 0;
  const TensorType& residual = request.operands[call.residual_arg].type;
  const bool may_share = residual == request.results[0].type &&
                         !(residual == request.operands[call.a_arg].type) &&
                         !(residual == request.operands[call.b_arg].type);
  return may_share && product.residual_may_be_c() ? 1u << call.residual_arg : 0;
}

PrepareFn TilesOf(ParseFn parse) {
  return [parse](const KernelRequest& request) -> Verdict {
    auto state = std::make_shared<TileState>();
    if (auto no = parse(request, state->call)) return No{*no};
    if (auto no = Product::Prepare(state->call.spec, state->product)) {
      return No{*no};
    }
    Prepared prepared;
    prepared.launch = LaunchTiles;
    prepared.scratch_bytes =
        state->product.scratch_floats() * static_cast<int64_t>(sizeof(float));
    if (prepared.scratch_bytes > 0) state->scratch_arg = state->call.c_arg + 1;
    prepared.inplace_operands = InplaceOf(request, state->call, state->product);
    if (state->product.form() == WeightForm::kPacked) {
      prepared.packs.push_back({.operand = state->call.b_arg,
                                .bytes = state->product.packed_floats() *
                                         static_cast<int64_t>(sizeof(float)),
                                .layout = state->product.packed_layout(),
                                .pack = [state](const void* from, void* to) {
                                  state->product.Pack(
                                      static_cast<const float*>(from),
                                      static_cast<float*>(to));
                                  return absl::OkStatus();
                                }});
    }
    prepared.state = std::move(state);
    return prepared;
  };
}

// Products of other element types: c is filled with what is added, then the
// product is added to it.
struct PlainState {
  Call call;
  int64_t bytes = 0;  // Of an element.
  void (*gemm)(const PlainGemmArgs&) = nullptr;
  UnaryFn activation = nullptr;
  BinaryFn add = nullptr;
};

const char* ResidualRow(const PlainState& s, void* const* args, int64_t i,
                        int64_t row) {
  const ProductSpec& p = s.call.spec;
  return static_cast<const char*>(args[s.call.residual_arg]) +
         (i * p.residual_batch_stride + row * p.residual_row_stride) * s.bytes;
}

// A row of c before the product comes to it.
void StartRow(const PlainState& s, void* const* args, char* c) {
  const auto bytes = static_cast<size_t>(s.call.spec.n * s.bytes);
  if (s.call.spec.has_bias) {
    std::memcpy(c, args[s.call.bias_arg], bytes);
  } else {
    std::memset(c, 0, bytes);
  }
}

// Row `row` of product `i`, after the product.
void FinishRow(const PlainState& s, void* const* args, int64_t i, int64_t row,
               char* c) {
  const ProductSpec& p = s.call.spec;
  if (s.activation != nullptr) s.activation(c, c, p.n);
  if (p.has_residual) {
    s.add(c, ResidualRow(s, args, i, row), c, p.n, nullptr);
  }
}

bool LaunchPlain(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const PlainState*>(state);
  const ProductSpec& p = s.call.spec;
  Parallel(p.num_threads, p.m, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < p.batch; ++i) {
      const auto* a = static_cast<const char*>(args[s.call.a_arg]) +
                      (i * p.a_batch_stride + begin * p.a_row_stride) * s.bytes;
      auto* c = static_cast<char*>(args[s.call.c_arg]) +
                (i * p.c_batch_stride + begin * p.c_row_stride) * s.bytes;
      const int64_t step = p.c_row_stride * s.bytes;
      for (int64_t row = begin; row < end; ++row) {
        StartRow(s, args, c + (row - begin) * step);
      }
      s.gemm({.a = a,
              .b = static_cast<const char*>(args[s.call.b_arg]) +
                   i * p.b_batch_stride * s.bytes,
              .c = c,
              .a_row_stride = p.a_row_stride,
              .a_col_stride = p.a_col_stride,
              .b_row_stride = p.b_row_stride,
              .b_col_stride = p.b_col_stride,
              .c_row_stride = p.c_row_stride,
              .m = end - begin,
              .n = p.n,
              .k = p.k});
      for (int64_t row = begin; row < end; ++row) {
        FinishRow(s, args, i, row, c + (row - begin) * step);
      }
    }
  });
  return true;
}

std::optional<Unary> UnaryOf(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return std::nullopt;
    case Activation::kRelu:
      return Unary::kRelu;
    case Activation::kGeluErf:
      return Unary::kGeluErf;
    case Activation::kGeluTanh:
      return Unary::kGeluTanh;
    case Activation::kTanh:
      return Unary::kTanh;
    case Activation::kSigmoid:
      return Unary::kSigmoid;
    case Activation::kSilu:
      return Unary::kSilu;
    case Activation::kRelu6:
    case Activation::kHardswish:
      return std::nullopt;
  }
  return std::nullopt;
}

PrepareFn PlainOf(ParseFn parse) {
  return [parse](const KernelRequest& request) -> Verdict {
    PlainState state;
    if (auto no = parse(request, state.call)) return No{*no};
    ProductSpec& p = state.call.spec;
    const auto elem = ElemOf(request.results[0].type.dtype);
    if (!elem.has_value()) return No{"no loop for this dtype"};
    state.gemm = Simd().plain_gemm[static_cast<int>(*elem)];
    state.bytes = kElemBytes[static_cast<int>(*elem)];
    if (state.gemm == nullptr) return No{"no loop for this dtype"};
    if (p.alpha != 1.0f) return No{"alpha isn't 1"};
    const int e = static_cast<int>(*elem);
    state.add = Simd().binary[static_cast<int>(Binary::kAdd)][e]
                             [static_cast<int>(Form::kVV)];
    if (p.activation != Activation::kNone) {
      const auto op = UnaryOf(p.activation);
      if (!op.has_value()) return No{"no loop for the activation"};
      state.activation = Simd().unary[static_cast<int>(*op)][e];
      if (state.activation == nullptr) return No{"no loop for the activation"};
    }
    if (p.c_col_stride != 1 && p.n > 1) return No{"the result has gaps"};
    p.num_threads = UsefulThreads(p.num_threads, p.m * p.n);
    Prepared prepared;
    prepared.launch = LaunchPlain;
    prepared.state = std::make_shared<const PlainState>(std::move(state));
    return prepared;
  };
}

struct OneDnnState {
  std::shared_ptr<const OneDnnMatmul> matmul;
  Call call;
  int scratch_arg = -1;
};

class OneDnnInstance : public KernelInstance {
 public:
  OneDnnInstance(const OneDnnState& state, std::unique_ptr<OneDnnMatmulRun> run)
      : state_(state), run_(std::move(run)) {}

  absl::Status Run(void* const* args) const {
    const Call& call = state_.call;
    return run_->Run(
        Address(args, call.a_arg), Address(args, call.b_arg),
        Address(args, call.bias_arg), Address(args, call.residual_arg),
        Address(args, call.c_arg), Address(args, state_.scratch_arg));
  }

 private:
  const OneDnnState& state_;  // The Plan's; outlives the Job.
  std::unique_ptr<OneDnnMatmulRun> run_;
};

bool LaunchOneDnn(const void* state, void* const* args,
                  LaunchContext& context) {
  const auto* instance = static_cast<const OneDnnInstance*>(
      static_cast<const KernelInstance*>(state));
  absl::Status status = instance->Run(args);
  return status.ok() || context.Fail(std::move(status));
}

// Strides of a matrix for the library, which wants none of 0.
bool IsPlain(const OneDnnMatmulSpec& spec) {
  for (int i = spec.batch == 1 ? 1 : 0; i < 3; ++i) {
    if (spec.a_strides[i] <= 0 || spec.b_strides[i] <= 0 ||
        spec.c_strides[i] <= 0) {
      return false;
    }
  }
  return spec.m > 0 && spec.n > 0 && spec.k > 0;
}

PrepareFn OneDnnOf(ParseFn parse) {
  return [parse](const KernelRequest& request) -> Verdict {
    auto state = std::make_shared<OneDnnState>();
    if (auto no = parse(request, state->call)) return No{*no};
    const ProductSpec& p = state->call.spec;
    const DType dtype = request.results[0].type.dtype;
    const OneDnnMatmulSpec spec = {
        .dtype = dtype,
        .batch = p.batch,
        .m = p.m,
        .n = p.n,
        .k = p.k,
        .a_strides = {p.a_batch_stride, p.a_row_stride, p.a_col_stride},
        .b_strides = {p.b_batch_stride, p.b_row_stride, p.b_col_stride},
        .c_strides = {p.c_batch_stride, p.c_row_stride, p.c_col_stride},
        .has_bias = p.has_bias,
        .has_residual = p.has_residual,
        .activation = p.activation,
        .is_packed = p.is_frozen && dtype != DType::kF32};
    if (!IsPlain(spec)) return No{"empty or broadcast operands"};
    if (p.alpha != 1.0f) return No{"alpha isn't 1"};
    if (p.has_residual && (p.residual_row_stride != p.c_row_stride ||
                           p.residual_batch_stride != p.c_batch_stride)) {
      return No{"the addend doesn't lie as the result does"};
    }
    auto matmul = OneDnnMatmul::Create(spec);
    if (!matmul.ok()) return No{std::string(matmul.status().message())};
    state->matmul = *std::move(matmul);
    Prepared prepared;
    prepared.launch = LaunchOneDnn;
    prepared.scratch_bytes = state->matmul->scratch_bytes();
    if (prepared.scratch_bytes > 0) state->scratch_arg = state->call.c_arg + 1;
    if (spec.is_packed) {
      prepared.packs.push_back({.operand = state->call.b_arg,
                                .bytes = state->matmul->packed_bytes(),
                                .layout = state->matmul->packed_layout(),
                                .pack = [state](const void* from, void* to) {
                                  return state->matmul->Pack(from, to);
                                }});
    }
    prepared.make_instance = [state]() -> std::unique_ptr<KernelInstance> {
      auto run = OneDnnMatmulRun::Create(*state->matmul);
      CHECK(run.ok()) << run.status();
      return std::make_unique<OneDnnInstance>(*state, *std::move(run));
    };
    prepared.state = std::move(state);
    return prepared;
  };
}

PrepareFn UnlessAtenWins(ParseFn parse, PrepareFn prepare) {
  return [parse, prepare](const KernelRequest& request) -> Verdict {
    Call call;
    if (auto no = parse(request, call)) return No{*no};
    const DType dtype = request.results[0].type.dtype;
    if (auto no = AtenWinsProduct(dtype, call.spec)) return No{*no};
    return prepare(request);
  };
}

// oneDNN has no products of float16 where the processor hasn't, and of bfloat16
// below AVX-512, where eager takes a hundred times float32's time, none either:
// then they are float32's.
void AddHalves(absl::string_view op, ParseFn parse, KernelRegistry& registry) {
  constexpr DType kHalves[] = {DType::kBF16, DType::kF16};
  const Kernel kernels[] = {{"onednn.matmul", OneDnnOf(parse)},
                            {"cpu.widened", PrepareWhole}};
  for (const Kernel& kernel : kernels) {
    registry.Add(op, kHalves, KernelRank::kFast,
                 {kernel.name, UnlessAtenWins(parse, kernel.prepare)});
    registry.Add(op, kHalves, KernelRank::kPlain, kernel);
  }
}

}  // namespace

void RegisterMatmul(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  constexpr DType kDouble[] = {DType::kF64};
  constexpr DType kWhole[] = {DType::kI64, DType::kI32};
  const struct {
    absl::string_view op;
    ParseFn parse;
  } ops[] = {{"aten.mm", ParsePlain},
             {"aten.bmm", ParsePlain},
             {"aten.addmm", ParseAdding},
             {"aten.baddbmm", ParseAdding},
             {"mica.linear", ParseLinear}};
  for (const auto& op : ops) {
    registry.Add(op.op, kFloat, KernelRank::kFast,
                 {"cpu.tiles", TilesOf(op.parse)});
    registry.Add(op.op, kFloat, KernelRank::kFast,
                 {"onednn.matmul", OneDnnOf(op.parse)});
    AddHalves(op.op, op.parse, registry);
    registry.Add(op.op, kDouble, KernelRank::kPlain,
                 {"cpu.product", PlainOf(op.parse)});
    registry.Add(op.op, kWhole, KernelRank::kFast,
                 {"cpu.product", PlainOf(op.parse)});
  }
}

}  // namespace mica::cpu
