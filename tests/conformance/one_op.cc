#include "tests/conformance/one_op.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/base/status.h"
#include "framework/device/transfer.h"
#include "framework/text/text.h"
#include "kernels/reference/element.h"

namespace mica {
namespace {

constexpr int64_t kGuardBytes = 256;
constexpr uint8_t kPoison = 0xcd;

bool IsWordChar(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Splits a case in the call, with %0, %1, … for the types, and the types.
class CaseReader {
 public:
  explicit CaseReader(absl::string_view text) : text_(text) {}

  absl::Status Read(Case* c) {
    while (at_ < text_.size()) {
      if (text_[at_] == '"') {
        CopyQuoted();
      } else if (IsWordChar(text_[at_]) && !FollowsWord()) {
        MICA_RETURN_IF_ERROR(ReadWord(c));
      } else {
        call_.push_back(text_[at_++]);
      }
    }
    return absl::OkStatus();
  }
  std::string Program() const {
    return absl::StrCat("program @case(", inputs_, ") {\n  ", call_,
                        "\n  return\n}\n");
  }

 private:
  bool FollowsWord() const {
    return at_ > 0 && (IsWordChar(text_[at_ - 1]) || text_[at_ - 1] == '.');
  }
  void CopyQuoted() {
    do {
      call_.push_back(text_[at_++]);
    } while (text_[at_] != '"');
    call_.push_back(text_[at_++]);
  }
  absl::string_view TakeTo(char close) {
    const size_t begin = at_;
    at_ = text_.find(close, at_) + 1;
    return text_.substr(begin, at_ - begin);
  }

  absl::Status ReadWord(Case* c) {
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
    const absl::string_view word = text_.substr(begin, at_ - begin);
    const bool has_dims = at_ < text_.size() && text_[at_] == '[';
    // "dtype=i64" is an argument; "f64" alone is a host scalar.
    const bool is_constant = absl::EndsWith(call_, "dtype=") && !has_dims;
    if (!ParseDType(word).has_value() || is_constant) {
      absl::StrAppend(&call_, word);
      return absl::OkStatus();
    }
    std::string type(word);
    if (has_dims) absl::StrAppend(&type, TakeTo(']'));
    if (has_dims && at_ < text_.size() && text_[at_] == '{') {
      absl::StrAppend(&type, TakeTo('}'));
    }
    absl::StrAppend(&inputs_, c->ranges.empty() ? "" : ", ", "%",
                    c->ranges.size(), ": ", type);
    absl::StrAppend(&call_, "%", c->ranges.size());
    c->ranges.emplace_back();
    return at_ < text_.size() && text_[at_] == '~'
               ? ReadRange(&c->ranges.back())
               : absl::OkStatus();
  }

  absl::Status ReadRange(Case::Range* range) {
    const size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' &&
           text_[at_] != ']') {
      ++at_;
    }
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(text_.substr(begin, at_ - begin), "..");
    range->is_given = true;
    if (!absl::SimpleAtod(ends.first, &range->low) ||
        !absl::SimpleAtod(ends.second, &range->high)) {
      return absl::InvalidArgumentError(
          absl::StrCat("wants low..high in ", text_));
    }
    return absl::OkStatus();
  }

  absl::string_view text_;
  size_t at_ = 0;
  std::string call_;
  std::string inputs_;
};

double DrawNumber(std::mt19937& random, DType dtype, const Case::Range& range,
                  bool has_specials) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kSpecials[] = {std::numeric_limits<double>::quiet_NaN(),
                                  kInfinity, -kInfinity, -0.0, 0.0};
  if (dtype == DType::kBool) return random() % 2;
  if (IsFloating(dtype)) {
    if (has_specials && random() % 8 == 0) return kSpecials[random() % 5];
    std::uniform_real_distribution<double> real(
        range.is_given ? range.low : -2, range.is_given ? range.high : 2);
    return real(random);
  }
  std::uniform_int_distribution<int64_t> integer(
      range.is_given ? static_cast<int64_t>(range.low)
                     : (dtype == DType::kU8 ? 0 : -4),
      range.is_given ? static_cast<int64_t>(range.high) : 5);
  return static_cast<double>(integer(random));
}

// Memory with a guard on both sides. Operands start one element late, as
// those that lie in a larger tensor do.
class GuardedBuffer {
 public:
  static absl::StatusOr<GuardedBuffer> Allocate(int64_t bytes, int64_t shift) {
    GuardedBuffer guarded;
    guarded.bytes_ = bytes;
    guarded.shift_ = shift;
    MICA_ASSIGN_OR_RETURN(
        guarded.buffer_,
        Buffer::Allocate(AlignUp(bytes + shift) + 2 * kGuardBytes));
    std::memset(guarded.buffer_.data(), kPoison, guarded.buffer_.bytes());
    return guarded;
  }
  uint8_t* data() const {
    return static_cast<uint8_t*>(buffer_.data()) + kGuardBytes + shift_;
  }
  // With the guards.
  uint8_t* begin() const { return static_cast<uint8_t*>(buffer_.data()); }
  int64_t all_bytes() const { return buffer_.bytes(); }
  // The number of bytes outside that are no longer what they were.
  int64_t CountDamage() const {
    const auto* begin = static_cast<const uint8_t*>(buffer_.data());
    const uint8_t* end = begin + buffer_.bytes();
    auto is_damaged = [](uint8_t byte) { return byte != kPoison; };
    return std::count_if(begin, static_cast<const uint8_t*>(data()),
                         is_damaged) +
           std::count_if(static_cast<const uint8_t*>(data()) + bytes_, end,
                         is_damaged);
  }

 private:
  Buffer buffer_;
  int64_t bytes_ = 0;
  int64_t shift_ = 0;
};

// All that one launch touches.
struct Memory {
  std::vector<GuardedBuffer> operands, results, packs;
  GuardedBuffer scratch;
  std::vector<void*> args;
};

absl::Status AllocateOperands(const Operands& operands, Memory* memory) {
  for (const Tensor& tensor : operands.tensors) {
    const int64_t bytes = tensor.type().extent_bytes();
    MICA_ASSIGN_OR_RETURN(
        GuardedBuffer buffer,
        GuardedBuffer::Allocate(bytes, ElementBytes(tensor.type().dtype)));
    std::memcpy(buffer.data(), tensor.data(), bytes);
    memory->args.push_back(buffer.data());
    memory->operands.push_back(std::move(buffer));
  }
  return absl::OkStatus();
}

absl::Status AllocateResults(const KernelRequest& request,
                             const Prepared& prepared,
                             const RunOptions& options, Memory* memory) {
  for (size_t i = 0; i < request.results.size(); ++i) {
    const TensorType& type = request.results[i].type;
    MICA_ASSIGN_OR_RETURN(GuardedBuffer buffer,
                          GuardedBuffer::Allocate(type.extent_bytes(), 0));
    void* data = request.results[i].is_used ? buffer.data() : nullptr;
    if (i == 0 && options.shares_bytes) {
      for (size_t j = 0; j < request.operands.size(); ++j) {
        const bool may_share = (prepared.inplace_operands >> j) & 1;
        const TensorType& other = request.operands[j].type;
        if (may_share &&
            (type.strides.empty() ||
             other.EffectiveStrides() == type.EffectiveStrides())) {
          data = memory->args[j];
        }
      }
    }
    memory->args.push_back(data);
    memory->results.push_back(std::move(buffer));
  }
  MICA_ASSIGN_OR_RETURN(memory->scratch,
                        GuardedBuffer::Allocate(prepared.scratch_bytes, 0));
  if (prepared.scratch_bytes > 0)
    memory->args.push_back(memory->scratch.data());
  return absl::OkStatus();
}

absl::Status PackOperands(const Prepared& prepared, Memory* memory) {
  for (const PackRequest& request : prepared.packs) {
    MICA_ASSIGN_OR_RETURN(GuardedBuffer buffer,
                          GuardedBuffer::Allocate(request.bytes, 0));
    MICA_RETURN_IF_ERROR(
        request.pack(memory->args[request.operand], buffer.data()));
    memory->args[request.operand] = buffer.data();
    memory->packs.push_back(std::move(buffer));
  }
  return absl::OkStatus();
}

absl::Status CheckDamage(const Memory& memory) {
  int64_t damage = memory.scratch.CountDamage();
  for (const auto* buffers :
       {&memory.operands, &memory.results, &memory.packs}) {
    for (const GuardedBuffer& buffer : *buffers) damage += buffer.CountDamage();
  }
  if (damage == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("wrote ", damage, " bytes outside of its results"));
}

// Launches on copies of all memory that lie on the device, and copies them back
// with their guards.
absl::Status LaunchOn(const std::shared_ptr<Device>& device,
                      const Prepared& prepared, const void* state,
                      const Memory& memory) {
  std::vector<void*> args = memory.args;
  std::vector<std::pair<const GuardedBuffer*, Buffer>> copies;
  for (const auto* buffers :
       {&memory.operands, &memory.results, &memory.packs}) {
    for (const GuardedBuffer& buffer : *buffers) {
      copies.emplace_back(&buffer, Buffer());
    }
  }
  copies.emplace_back(&memory.scratch, Buffer());
  for (auto& [buffer, copy] : copies) {
    MICA_ASSIGN_OR_RETURN(copy, Buffer::Allocate(buffer->all_bytes(), device));
    MICA_RETURN_IF_ERROR(CopyBytes(copy.data(), buffer->begin(),
                                   buffer->all_bytes(), CopyKind::kToDevice,
                                   *device));
    for (size_t i = 0; i < args.size(); ++i) {
      if (memory.args[i] != buffer->data()) continue;
      args[i] = static_cast<uint8_t*>(copy.data()) +
                (buffer->data() - buffer->begin());
    }
  }
  MICA_RETURN_IF_ERROR(
      LaunchAlone({prepared.launch, state, absl::MakeSpan(args)}, *device));
  for (const auto& [buffer, copy] : copies) {
    MICA_RETURN_IF_ERROR(CopyBytes(buffer->begin(), copy.data(),
                                   buffer->all_bytes(), CopyKind::kToHost,
                                   *device));
  }
  return absl::OkStatus();
}

absl::Status Launch(const std::shared_ptr<Device>& device,
                    const Prepared& prepared, const Memory& memory) {
  LaunchContext context;
  const void* state = prepared.state.get();
  std::unique_ptr<KernelInstance> instance;
  if (prepared.make_instance != nullptr) {
    instance = prepared.make_instance();
    state = instance.get();
  }
  if (device != nullptr) return LaunchOn(device, prepared, state, memory);
  if (prepared.launch(state, memory.args.data(), context)) {
    return absl::OkStatus();
  }
  return context.status;
}

// Column-major: what a transposed result looks like.
Dims TransposedStrides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    strides[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

struct Tolerance {
  double relative, absolute;
};

Tolerance ToleranceOf(DType dtype, double scale) {
  switch (dtype) {
    case DType::kF64:
      return {1e-12, 1e-13 * scale};
    case DType::kF32:
      return {1e-5, 2e-6 * scale};
    case DType::kF16:
      return {2e-3, 1e-3 * scale};
    case DType::kBF16:
      return {2e-2, 1e-2 * scale};
    default:
      return {0, 0};
  }
}

bool AreClose(double got, double want, Tolerance tolerance) {
  if (std::isnan(got) || std::isnan(want)) {
    return std::isnan(got) && std::isnan(want);
  }
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::fabs(got - want) <=
         tolerance.absolute + tolerance.relative * std::fabs(want);
}

}  // namespace

absl::StatusOr<Case> ParseCase(absl::string_view text,
                               const OpRegistry& registry) {
  Case c;
  c.text = std::string(text);
  CaseReader reader(text);
  MICA_RETURN_IF_ERROR(reader.Read(&c));
  absl::StatusOr<Program> program = ParseProgram(reader.Program(), registry);
  if (!program.ok()) return Annotate(program.status(), text);
  c.program = std::make_shared<const Program>(*std::move(program));
  return c;
}

absl::StatusOr<Operands> DrawOperands(const Case& c, uint32_t seed,
                                      bool has_specials) {
  std::mt19937 random(seed);
  Operands operands;
  ForEachValue(c.op().arguments, [&](ValueId id) {
    const TensorType& type = c.program->type(id);
    absl::StatusOr<Tensor> tensor = Tensor::Allocate(type);
    const int64_t count =
        tensor.ok() ? type.extent_bytes() / ElementBytes(type.dtype) : 0;
    for (int64_t i = 0; i < count; ++i) {
      StoreElement(tensor->data(), type.dtype, i,
                   DrawNumber(random, type.dtype, c.ranges[id], has_specials));
    }
    if (tensor.ok()) operands.tensors.push_back(*std::move(tensor));
  });
  return operands;
}

KernelRequest MakeRequest(const Case& c, const RunOptions& options) {
  KernelRequest request = {.def = c.op().def,
                           .arguments = &c.op().arguments,
                           .num_threads = options.num_threads};
  ForEachValue(c.op().arguments, [&](ValueId id) {
    request.operands.push_back(
        {.type = c.program->type(id), .is_frozen = options.freezes_operands});
  });
  for (ValueId id : c.op().results) {
    const int index = static_cast<int>(request.results.size());
    request.results.push_back({.type = c.program->type(id),
                               .is_used = index != options.unused_result});
    TensorType& type = request.results.back().type;
    if (options.transposes_results && type.strides.empty()) {
      type.strides = TransposedStrides(type.dims);
    }
    if (options.puts_channels_last && type.rank() == 4) {
      const int64_t pixel = type.dims[1], row = type.dims[3] * pixel;
      type.strides = {type.dims[2] * row, 1, row, pixel};
    }
  }
  return request;
}

absl::StatusOr<std::vector<Tensor>> RunKernel(const Kernel& kernel,
                                              const Case& c,
                                              const Operands& operands,
                                              const RunOptions& options,
                                              std::shared_ptr<Device> device) {
  const KernelRequest request = MakeRequest(c, options);
  Verdict verdict = kernel.prepare(request);
  if (const auto* no = std::get_if<No>(&verdict)) {
    return absl::FailedPreconditionError(no->reason);
  }
  const Prepared& prepared = std::get<Prepared>(verdict);
  Memory memory;
  MICA_RETURN_IF_ERROR(AllocateOperands(operands, &memory));
  MICA_RETURN_IF_ERROR(AllocateResults(request, prepared, options, &memory));
  MICA_RETURN_IF_ERROR(PackOperands(prepared, &memory));
  MICA_RETURN_IF_ERROR(Launch(device, prepared, memory));
  MICA_RETURN_IF_ERROR(CheckDamage(memory));
  std::vector<Tensor> results;
  for (size_t i = 0; i < request.results.size(); ++i) {
    void* data = memory.args[request.operands.size() + i];
    if (data == nullptr) {
      results.emplace_back();
      continue;
    }
    MICA_ASSIGN_OR_RETURN(Tensor tensor,
                          Tensor::CopyOf({data, request.results[i].type}));
    results.push_back(std::move(tensor));
  }
  return results;
}

std::string CompareTensors(const TensorView& got, const TensorView& want,
                           double scale) {
  const Tolerance tolerance = ToleranceOf(want.type.dtype, scale);
  for (int64_t i = 0; i < want.type.num_elements(); ++i) {
    const double a = LoadElement<double>(got.data, got.type.dtype, i);
    const double b = LoadElement<double>(want.data, want.type.dtype, i);
    if (!AreClose(a, b, tolerance)) {
      return absl::StrCat("element ", i, " of ", want.type.ToString(), " is ",
                          a, ", not ", b);
    }
  }
  return "";
}

}  // namespace mica
