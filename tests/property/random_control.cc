#include "tests/property/random_control.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/program_builder.h"
#include "glog/logging.h"
#include "tests/property/random_values.h"

namespace mica {
namespace {

constexpr int kMaxDepth = 3;
using Ints = std::vector<int64_t>;

template <typename T>
T Get(absl::StatusOr<T> value) {
  CHECK(value.ok()) << value.status();
  return *std::move(value);
}

const TensorType& Counter() {
  static const auto& type = *new TensorType{.dtype = DType::kI64};
  return type;
}

// One block; blocks in it have Makers of their own. values_ are f32.
class BlockMaker : private RandomValues {
 public:
  BlockMaker(const OpRegistry& ops, std::mt19937_64& random,
             absl::string_view name, int depth)
      : RandomValues(random), ops_(ops), depth_(depth), builder_(ops, name) {}

  Program MakeProgram(const RandomControlOptions& options) {
    const int64_t rows = options.rows, columns = options.columns;
    AddInputs({{.dims = {rows, columns}},
               {.dims = {columns, columns}},
               {.dims = {rows, columns}},
               {.dims = {columns}}});
    AddOps(3 + Pick(8));
    std::vector<ValueId> outputs;
    for (int64_t i = Pick(4); i >= 0; --i) outputs.push_back(AnyRecent());
    return Get(builder_.Build(outputs));
  }

 private:
  const TensorType& type(ValueId id) const { return builder_.type(id); }
  ValueId Add(absl::string_view op, Arguments arguments) {
    return Get(builder_.Add(op, std::move(arguments)));
  }
  ValueId Like(ValueId id) {
    std::vector<ValueId> found;
    for (ValueId value : values_) {
      if (type(value) == type(id)) found.push_back(value);
    }
    return found[Pick(found.size())];
  }

  void AddInputs(const std::vector<TensorType>& types) {
    for (const TensorType& type : types) {
      inputs_.push_back(Get(builder_.AddInput("", type)));
      if (type.dtype == DType::kF32) values_.push_back(inputs_.back());
    }
  }

  ValueId AddConstant(const TensorType& type) {
    std::vector<float> numbers(type.num_elements());
    for (float& number : numbers) number = static_cast<float>(Pick(5)) - 2;
    std::vector<uint8_t> bytes(type.num_bytes());
    if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return Get(builder_.AddConstant("", type, std::move(bytes)));
  }
  ValueId AddCount(int64_t number) {
    std::vector<uint8_t> bytes(sizeof number);
    std::memcpy(bytes.data(), &number, sizeof number);
    return Get(builder_.AddConstant("", Counter(), std::move(bytes)));
  }

  void AddOps(int64_t count) {
    for (int64_t i = 0; i < count; ++i) AddRandomOp();
  }

  void AddRandomOp() {
    const ValueId x = AnyRecent();
    const ValueRef ref{x};
    switch (Pick(depth_ < kMaxDepth ? 12 : 9)) {
      case 0:
        Keep(Add("aten.relu", {ref}));
        break;
      case 1:
        Keep(Add("aten.neg", {ref}));
        break;
      case 2:
        Keep(Add("aten.tanh", {ref}));
        break;
      case 3: {
        const ValueId sum = Add("aten.add.Tensor", {ref, ValueRef{Like(x)}});
        Keep(Add("aten.tanh", {ValueRef{sum}}));
        break;
      }
      case 4:
        Keep(Add("aten.mul.Scalar", {ref, 0.5}));
        break;
      case 5:
        AddView(x);
        break;
      case 6:
        AddProduct(x);
        break;
      case 7:
        Keep(AddConstant({.dims = type(x).dims}));
        break;
      case 8:
        Keep(Add("aten.clone", {ref, std::string("contiguous_format")}));
        break;
      case 9:
      case 10:
        AddIf();
        break;
      case 11:
        AddWhile();
        break;
    }
  }

  void AddView(ValueId x) {
    if (type(x).rank() == 2 && Chance(50)) {
      Keep(Add("aten.t", {ValueRef{x}}));
    } else if (type(x).rank() >= 1 && type(x).dims[0] > 1) {
      Keep(Add("aten.select.int", {ValueRef{x}, int64_t{0}, Pick(2)}));
    }
  }

  void AddProduct(ValueId x) {
    if (type(x).rank() != 2) return;
    for (ValueId y : values_) {
      if (type(y).rank() != 2 || type(y).dims[0] != type(x).dims[1]) continue;
      const ValueId product = Add("aten.mm", {ValueRef{x}, ValueRef{y}});
      Keep(Add("aten.tanh", {ValueRef{product}}));
      return;
    }
  }

  // bool[] that the data decide.
  ValueId AddPredicate() {
    const ValueId sum = Add("aten.sum", {ValueRef{AnyRecent()}});
    return Add("aten.gt.Scalar", {ValueRef{sum}, 0.0});
  }

  std::vector<ValueId> SomeValues(int64_t most) {
    std::vector<ValueId> some;
    for (int64_t i = Pick(most); i >= 0; --i) some.push_back(AnyRecent());
    return some;
  }
  std::vector<TensorType> TypesOf(const std::vector<ValueId>& ids) const {
    std::vector<TensorType> types;
    for (ValueId id : ids) types.push_back(type(id));
    return types;
  }
  static ValueRefs Refs(const std::vector<ValueId>& ids) {
    ValueRefs refs;
    for (ValueId id : ids) refs.push_back(ValueRef{id});
    return refs;
  }

  void AddControl(absl::string_view op, Arguments arguments, Bodies bodies,
                  const std::vector<bool>& is_readable) {
    ProgramBuilder::OpSpec spec{.def = Get(builder_.FindOp(op)),
                                .arguments = std::move(arguments),
                                .bodies = std::move(bodies)};
    const auto results = Get(builder_.AddOp(std::move(spec)));
    for (size_t i = 0; i < results.size(); ++i) {
      if (is_readable[i] && type(results[i]).dtype == DType::kF32) {
        Keep(results[i]);
      }
    }
  }

  BlockMaker Inner() { return BlockMaker(ops_, random_, "", depth_ + 1); }

  // A value of this type, made if there is none.
  ValueId OfType(const TensorType& wanted) {
    std::vector<ValueId> found;
    for (ValueId value : values_) {
      if (type(value) == wanted) found.push_back(value);
    }
    if (!found.empty()) return found[Pick(found.size())];
    const ValueId dense = AddConstant({.dims = wanted.dims});
    if (type(dense) == wanted) return dense;
    const OpDef* clone = Get(builder_.FindOp("aten.clone"));
    if (OwnedType(wanted) == wanted) {
      return Get(builder_.AddOp({.def = clone,
                                 .arguments = {ValueRef{dense}},
                                 .types = {wanted}}))[0];
    }
    const Dims strides = wanted.EffectiveStrides();
    const ValueId base = AddConstant(
        {.dims = {wanted.extent_bytes() / ElementBytes(wanted.dtype)}});
    return Add("aten.as_strided",
               {ValueRef{base}, Ints(wanted.dims.begin(), wanted.dims.end()),
                Ints(strides.begin(), strides.end()), int64_t{0}});
  }

  void AddIf() {
    const ValueId predicate = AddPredicate();
    const std::vector<ValueId> operands = SomeValues(3);
    BlockMaker then = Inner(), other = Inner();
    std::vector<ValueId> outputs[2];
    std::vector<bool> is_readable;
    for (BlockMaker* maker : {&then, &other}) {
      maker->AddInputs(TypesOf(operands));
      maker->AddOps(Pick(5));
    }
    for (int64_t i = Pick(3); i >= 0; --i) {
      outputs[0].push_back(then.AnyRecent());
      is_readable.push_back(Chance(80));
      const TensorType wanted = then.type(outputs[0].back());
      if (is_readable.back()) {
        outputs[1].push_back(other.OfType(wanted));
      } else {
        outputs[1].push_back(Chance(50) ? kNoValue : other.AnyRecent());
      }
    }
    Bodies bodies = {
        std::make_shared<const Program>(Get(then.builder_.Build(outputs[0]))),
        std::make_shared<const Program>(
            Get(other.builder_.BuildBody(outputs[1])))};
    AddControl("mica.if", {ValueRef{predicate}, Refs(operands)},
               std::move(bodies), is_readable);
  }

  void AddWhile() {
    std::vector<ValueId> carried = SomeValues(4);
    std::vector<ValueId> invariants = SomeValues(2);
    carried.push_back(AddCount(0));
    std::vector<TensorType> types;
    for (ValueId id : carried) types.push_back(OwnedType(type(id)));
    const size_t num_carried = types.size();
    for (ValueId id : invariants) types.push_back(type(id));
    BlockMaker cond = Inner(), body = Inner();
    cond.AddInputs(types);
    const ValueRef count{cond.inputs_[num_carried - 1]};
    ValueId holds = cond.Add("aten.lt.Scalar", {count, Pick(5)});
    if (Chance(30)) {
      holds = cond.Add("aten.logical_and",
                       {ValueRef{holds}, ValueRef{cond.AddPredicate()}});
    }
    body.AddInputs(types);
    body.AddOps(Pick(5));
    std::vector<ValueId> outputs;
    for (size_t i = 0; i + 1 < num_carried; ++i) {
      outputs.push_back(body.OfType(types[i]));
    }
    outputs.push_back(
        body.Add("aten.add.Scalar",
                 {ValueRef{body.inputs_[num_carried - 1]}, int64_t{1}}));
    Bodies bodies = {
        std::make_shared<const Program>(Get(cond.builder_.Build({holds}))),
        std::make_shared<const Program>(Get(body.builder_.Build(outputs)))};
    AddControl("mica.while", {Refs(carried), Refs(invariants)},
               std::move(bodies), std::vector<bool>(num_carried, true));
  }

  const OpRegistry& ops_;
  const int depth_;
  ProgramBuilder builder_;
  std::vector<ValueId> inputs_;
};

}  // namespace

Program RandomControlProgram(uint64_t seed, const OpRegistry& ops,
                             const RandomControlOptions& options) {
  std::mt19937_64 random(seed);
  return BlockMaker(ops, random, absl::StrCat("control", seed), 0)
      .MakeProgram(options);
}

}  // namespace mica
