#include "tests/property/random_program.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/ir/program_builder.h"
#include "glog/logging.h"
#include "tests/property/random_values.h"

namespace mica {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMaxElements = 4096;
constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 8, 16, 17};
constexpr int64_t kOtherSizes[] = {1, 6, 7, 9, 10, 11, 13, 19};
static_assert(std::size(kSizes) == std::size(kOtherSizes));

// values_ are of dtype_.
class RandomBuilder : private RandomValues {
 public:
  RandomBuilder(const OpRegistry& ops, std::mt19937_64& random,
                absl::string_view name, const RandomProgramOptions& options)
      : RandomValues(random),
        numbers_(random()),
        options_(options),
        builder_(ops, name),
        dtype_(Chance(25) ? DType::kF64 : DType::kF32) {}

  Program Build() {
    const int num_inputs = 1 + Pick(3);
    for (int i = 0; i < num_inputs; ++i) Keep(NewLeaf(RandomDims()));
    const int num_ops = 1 + Pick(options_.max_ops);
    for (int i = 0; i < num_ops; ++i) AddRandomOp();
    AddUpdates();
    std::vector<ValueId> outputs;
    const int num_outputs = Pick(4);
    for (int i = 0; i <= num_outputs; ++i) outputs.push_back(Any());
    if (Chance(50)) outputs.back() = values_.back();
    absl::StatusOr<Program> program = builder_.Build(outputs);
    CHECK(program.ok()) << program.status();
    return *std::move(program);
  }

 private:
  const TensorType& type(ValueId id) const { return builder_.type(id); }
  int64_t RandomSize() {
    return (options_.use_other_sizes ? kOtherSizes
                                     : kSizes)[Pick(std::size(kSizes))];
  }

  Dims RandomDims() {
    Dims dims(Pick(4));
    for (Dim& dim : dims) dim = RandomSize();
    return dims;
  }

  // Other dense strides than row-major: those of a permutation.
  Dims RandomStrides(const Dims& dims) {
    Ints order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    Dims strides(dims.size());
    int64_t stride = 1;
    for (int64_t axis : order) {
      strides[axis] = stride;
      stride *= std::max<int64_t>(dims[axis], 1);
    }
    return strides;
  }

  // An input, a variable or a constant.
  ValueId NewLeaf(Dims dims) {
    TensorType type{.dtype = dtype_, .dims = std::move(dims)};
    if (options_.choose_strides && Chance(15)) {
      type.strides = RandomStrides(type.dims);
    }
    const std::string name = absl::StrCat("leaf", num_leaves_++);
    switch (Pick(5)) {
      case 0:
      case 1:
        targets_.push_back(*builder_.AddInput(name, type));
        return targets_.back();
      case 2:
        type.strides.clear();
        return NewConstant(name, std::move(type));
      default:
        targets_.push_back(*builder_.AddVariable(name, name, type));
        return targets_.back();
    }
  }

  template <typename T>
  void FillNumbers(std::vector<uint8_t>* bytes) {
    for (size_t at = 0; at < bytes->size(); at += sizeof(T)) {
      const T number = static_cast<T>(numbers_() % 1000) / 1000 - T{0.5};
      std::memcpy(bytes->data() + at, &number, sizeof(T));
    }
  }

  ValueId NewConstant(const std::string& name, TensorType type) {
    std::vector<uint8_t> bytes(type.num_bytes());
    if (dtype_ == DType::kF64) {
      FillNumbers<double>(&bytes);
    } else {
      FillNumbers<float>(&bytes);
    }
    return *builder_.AddConstant(name, std::move(type), std::move(bytes));
  }

  // The result with this number.
  ValueId Add(absl::string_view op, Arguments arguments, int result = 0) {
    const absl::StatusOr<const OpDef*> def = builder_.FindOp(op);
    CHECK(def.ok()) << def.status();
    const size_t num_params = (*def)->schema().params.size();
    while (arguments.size() < num_params) {
      arguments.push_back(
          (*def)->schema().params[arguments.size()].default_value);
    }
    const OpCall::TypeOf type_of = [this](ValueId id) -> const TensorType& {
      return builder_.type(id);
    };
    const auto inferred = InferTypes(OpCall(**def, arguments, type_of));
    CHECK(inferred.ok()) << inferred.status();
    std::vector<TensorType> types(inferred->begin(), inferred->end());
    if (options_.choose_strides && !(*def)->is_view()) {
      for (TensorType& type : types) {
        if (Chance(10)) type.strides = RandomStrides(type.dims);
      }
    }
    const auto results = builder_.AddOp(
        {.def = *def,
         .arguments = std::move(arguments),
         .types = std::move(types),
         .source = {.file = builder_.InternName("random.py"),
                    .line = static_cast<int32_t>(values_.size())}});
    CHECK(results.ok()) << results.status();
    return (*results)[result];
  }

  void AddRandomOp() {
    switch (Pick(12)) {
      case 0:
      case 1:
        return AddUnary();
      case 2:
      case 3:
        return AddBinary();
      case 4:
        return AddProduct();
      case 5:
        return AddReduction();
      case 6:
      case 7:
      case 8:
        return AddView();
      case 9:
        return AddJoin();
      case 10:
        return AddChoice();
      default:
        return AddLayer();
    }
  }

  void AddUnary() {
    constexpr const char* kOps[] = {"aten.relu", "aten.tanh",    "aten.neg",
                                    "aten.gelu", "aten.sigmoid", "aten.abs",
                                    "aten.sin",  "aten.clone"};
    Keep(Add(kOps[Pick(std::size(kOps))], {ValueRef{AnyRecent()}}));
  }

  // A leaf that broadcasts with `dims`: some are 1, leading ones left out.
  ValueId NewBroadcastable(const Dims& dims) {
    Dims chosen(dims.begin() + Pick(dims.size() + 1), dims.end());
    for (Dim& dim : chosen) {
      if (Chance(25)) dim = 1;
    }
    return NewLeaf(std::move(chosen));
  }

  void AddBinary() {
    const ValueId a = AnyRecent();
    ValueId b = Any();
    if (type(a).dims != type(b).dims) b = NewBroadcastable(type(a).dims);
    const ValueRef first{Chance(50) ? a : b};
    const ValueRef second{first.id == a ? b : a};
    // Keeps sums of sums from growing.
    const ValueRef half{Add("aten.mul.Scalar", {first, 0.5})};
    switch (Pick(7)) {
      case 5:
        Keep(Add("aten.lerp.Scalar", {half, second, 0.25}));
        return;
      case 6:
        Keep(Add("aten.addcmul", {half, half, second, 0.25}));
        return;
      case 0:
        Keep(Add("aten.add.Tensor", {half, second}));
        return;
      case 1:
        Keep(Add("aten.sub.Tensor", {half, second, 0.5}));
        return;
      case 2:
        Keep(Add("aten.mul.Tensor", {half, second}));
        return;
      case 3:
        Keep(Add("aten.maximum", {half, second}));
        return;
      default:
        Keep(Add("aten.add.Scalar", {half, 0.25}));
    }
  }

  // A two-dimensional value: a recent one if there is any.
  ValueId AnyMatrix() {
    for (int tries = 0; tries < 8; ++tries) {
      const ValueId id = AnyRecent();
      if (type(id).rank() == 2) return id;
    }
    return Keep(NewLeaf({RandomSize(), RandomSize()}));
  }

  void AddProduct() {
    const ValueId a = AnyMatrix();
    const int64_t inner = type(a).dims[1];
    const int64_t columns = RandomSize();
    ValueId b = NewLeaf({inner, columns});
    if (Chance(50)) b = Add("aten.t", {ValueRef{NewLeaf({columns, inner})}});
    ValueId y = kNoValue;
    if (Chance(60)) {
      const ValueId bias = NewLeaf({columns});
      y = Add("aten.addmm", {ValueRef{bias}, ValueRef{a}, ValueRef{b}});
      if (Chance(40)) y = Add("aten.gelu", {ValueRef{y}});
    } else {
      y = Add("aten.mm", {ValueRef{a}, ValueRef{b}});
    }
    Keep(Add("aten.tanh", {ValueRef{y}}));
  }

  void AddReduction() {
    const ValueId x = AnyRecent();
    const int rank = type(x).rank();
    if (rank == 0) return AddUnary();
    const int64_t axis = Pick(rank) - (Chance(50) ? rank : 0);
    const bool keeps = Chance(50);
    switch (Pick(4)) {
      case 0:
        Keep(Add("aten.mean.dim", {ValueRef{x}, Ints{axis}, keeps}));
        return;
      case 1:
        Keep(Add("aten.amax", {ValueRef{x}, Ints{axis}, keeps}));
        return;
      case 2:
        Keep(Add("aten.max.dim", {ValueRef{x}, axis, keeps}));
        return;
      default:
        Keep(Add("aten._softmax", {ValueRef{x}, axis, false}));
    }
  }

  void AddView() {
    const ValueId id = AnyRecent();
    const ValueRef x{id};
    const Dims dims = type(id).dims;
    const int rank = static_cast<int>(dims.size());
    const int64_t axis = rank == 0 ? 0 : Pick(rank);
    const int choice = rank == 0 ? 5 : Pick(8);
    switch (choice) {
      case 0:
        Keep(Add("aten.transpose.int", {x, axis, Pick(rank)}));
        return;
      case 1: {
        Ints order(rank);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        Keep(Add("aten.permute", {x, order}));
        return;
      }
      case 2:
      case 3: {
        const int64_t start = Pick(dims[axis]);
        const int64_t end = start + 1 + Pick(dims[axis] - start);
        Keep(Add("aten.slice.Tensor", {x, axis, start, end, 1 + Pick(3)}));
        return;
      }
      case 4:
        Keep(Add("aten.select.int", {x, axis, Pick(dims[axis])}));
        return;
      case 5:
        if (rank == 4) return AddUnary();
        Keep(Add("aten.unsqueeze", {x, Pick(rank + 1)}));
        return;
      case 6: {
        Ints sizes(dims.begin(), dims.end());
        int64_t elements = type(id).num_elements();
        for (int64_t& size : sizes) {
          if (size != 1 || elements * 3 > kMaxElements) continue;
          size = 3;
          elements *= 3;
        }
        Keep(Add("aten.expand", {x, sizes}));
        return;
      }
      default: {
        if (!type(id).is_row_major()) return AddUnary();
        const int64_t inner = dims[rank - 1];
        Keep(Add("aten.view", {x, Ints{-1, inner}}));
      }
    }
  }

  void AddJoin() {
    const ValueId a = AnyRecent();
    const int rank = type(a).rank();
    if (rank == 0 || type(a).num_elements() > kMaxElements / 4) {
      return AddUnary();
    }
    const int64_t axis = Pick(rank);
    Dims dims = type(a).dims;
    dims[axis] = RandomSize();
    const ValueId b = NewLeaf(dims);
    ValueRefs parts = {{a}, {b}};
    if (Chance(30)) parts.push_back({a});
    Keep(Add("aten.cat", {parts, axis}));
  }

  void AddChoice() {
    const ValueId a = AnyRecent();
    const ValueId b = NewBroadcastable(type(a).dims);
    const ValueRef mask{Add("aten.gt.Tensor", {ValueRef{a}, ValueRef{b}})};
    if (Chance(50)) {
      Keep(Add("aten.where.self", {mask, ValueRef{a}, ValueRef{b}}));
    } else {
      Keep(Add("aten.masked_fill.Scalar", {ValueRef{a}, mask, 0.125}));
    }
  }

  void AddLayer() {
    const ValueId x = AnyRecent();
    if (type(x).rank() == 0) return AddUnary();
    const int64_t size = type(x).dims.back();
    ValueId sum = x;
    if (Chance(50)) {
      sum = Add("aten.add.Tensor",
                {ValueRef{x}, ValueRef{NewLeaf(type(x).dims)}});
    }
    const ValueRef weight{NewLeaf({size})};
    const ValueRef bias{NewLeaf({size})};
    // The eps is large: a row of nearly equal numbers must not become noise.
    const int result = Chance(25) ? 1 + Pick(2) : 0;
    Keep(Add("aten.native_layer_norm",
             {ValueRef{sum}, Ints{size}, weight, bias, 0.1}, result));
  }

  void AddUpdates() {
    std::shuffle(targets_.begin(), targets_.end(), random_);
    for (ValueId target : targets_) {
      if (!Chance(20)) continue;
      std::vector<ValueId> fitting;
      for (ValueId id : values_) {
        if (id != target && SameShape(type(id), type(target))) {
          fitting.push_back(id);
        }
      }
      if (fitting.empty()) continue;
      const absl::Status status =
          builder_.AddUpdate(target, fitting[Pick(fitting.size())]);
      CHECK(status.ok()) << status;
    }
  }

  std::mt19937_64 numbers_;  // Apart: how many there are depends on sizes.
  const RandomProgramOptions& options_;
  ProgramBuilder builder_;
  const DType dtype_;
  std::vector<ValueId> targets_;  // Inputs and variables.
  int num_leaves_ = 0;
};

}  // namespace

Program RandomProgram(uint64_t seed, const OpRegistry& ops,
                      const RandomProgramOptions& options) {
  std::mt19937_64 random(seed);
  return RandomBuilder(ops, random, absl::StrCat("random", seed), options)
      .Build();
}

}  // namespace mica
