#include "python/capture/host_values.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/same_bits.h"
#include "python/capture/constants.h"

namespace mica {
namespace {

// An int up to here is the same number as a float.
constexpr int64_t kMaxExactInt = int64_t{1} << 53;

std::optional<double> NumberOf(PyObject* object) {
  if (PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  if (!PyLong_CheckExact(object)) return std::nullopt;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow != 0 || number > kMaxExactInt || number < -kMaxExactInt) {
    return std::nullopt;
  }
  return static_cast<double>(number);
}

double Compute(absl::string_view op, absl::Span<const double> x) {
  if (op == "mica.scalar_add") return x[0] + x[1];
  if (op == "mica.scalar_sub") return x[0] - x[1];
  if (op == "mica.scalar_mul") return x[0] * x[1];
  if (op == "mica.scalar_div") return x[0] / x[1];
  if (op == "mica.scalar_pow") return std::pow(x[0], x[1]);
  if (op == "mica.scalar_lt") return x[0] < x[1] ? 1 : 0;
  if (op == "mica.scalar_le") return x[0] <= x[1] ? 1 : 0;
  if (op == "mica.scalar_eq") return x[0] == x[1] ? 1 : 0;
  if (op == "mica.scalar_neg") return -x[0];
  return std::sqrt(x[0]);
}

}  // namespace

PyObject* HostInputs::FindItem(const Source& source) {
  PyObject* item = PyDict_GetItemWithError(source.dict.get(), source.key.get());
  if (item == nullptr) PyErr_Clear();
  return item;
}

void VaryingNumbers::AddItem(PyObject* dict, PyObject* key) {
  if (!items_.insert({dict, key}).second) return;
  pins_.push_back(PyRef::Share(dict));
  pins_.push_back(PyRef::Share(key));
}

int VaryingNumbers::Traverse(visitproc visit, void* arg) const {
  for (const PyRef& pin : pins_) Py_VISIT(pin.get());
  return 0;
}

bool HostInputs::Read(const BoundInputs& inputs, std::vector<double>* values,
                      Miss* miss) const {
  values->clear();
  for (const Source& source : sources_) {
    PyObject* number =
        source.node < 0 ? FindItem(source) : inputs.objects[source.node];
    if (number != nullptr && PyFloat_CheckExact(number)) {
      values->push_back(PyFloat_AS_DOUBLE(number));
      continue;
    }
    if (miss != nullptr) {
      *miss = {.kind = "state",
               .note = source.note,
               .expected = "a float",
               .got = DescribeValue(number)};
    }
    return false;
  }
  return true;
}

void HostInputs::AppendText(std::vector<std::string>* lines) const {
  for (const Source& source : sources_) {
    lines->push_back(absl::StrCat(source.note.path, " is any float"));
  }
}

int HostInputs::Traverse(visitproc visit, void* arg) const {
  for (const Source& source : sources_) {
    Py_VISIT(source.dict.get());
    Py_VISIT(source.key.get());
    Py_VISIT(source.recorded.get());
  }
  return 0;
}

HostValues::Id HostValues::Add(PyObject* number, Node node) {
  const auto [it, is_new] =
      ids_.try_emplace(number, static_cast<Id>(nodes_.size()));
  node.value = node.tape.value = PyFloat_AS_DOUBLE(number);
  nodes_.push_back(std::move(node));
  if (is_new) {
    pins_.push_back(PyRef::Share(number));
    return it->second;
  }
  // One object from two places: which of them a use means, nobody knows.
  MarkExactId(it->second);
  nodes_.back().is_exact = true;
  return static_cast<Id>(nodes_.size()) - 1;
}

void HostValues::AddItem(PyObject* number, PyObject* dict, PyObject* key,
                         GuardNote note) {
  items_.insert({dict, key});
  Node node;
  node.tape.kind = TapeHostValue::Kind::kInput;
  node.tape.name = note.path;
  node.source = {.dict = PyRef::Share(dict),
                 .key = PyRef::Share(key),
                 .note = std::move(note),
                 .recorded = PyRef::Share(number)};
  Add(number, std::move(node));
}

void HostValues::AddInput(PyObject* number, int index, std::string path) {
  Node node;
  node.tape.kind = TapeHostValue::Kind::kInput;
  node.tape.name = path;
  node.source = {.node = index, .note = {.path = std::move(path)}};
  Add(number, std::move(node));
}

HostValues::Id HostValues::AddRead(PyObject* number, int32_t call,
                                   int32_t output) {
  Node node;
  node.tape.kind = TapeHostValue::Kind::kRead;
  node.tape.call = call;
  node.tape.output = output;
  return Add(number, std::move(node));
}

bool HostValues::AddOp(PyObject* result, const char* op,
                       absl::Span<PyObject* const> operands) {
  Node node;
  node.tape.kind = TapeHostValue::Kind::kOp;
  node.tape.op = op;
  std::vector<double> numbers;
  for (PyObject* operand : operands) {
    const std::optional<double> number = NumberOf(operand);
    if (!number.has_value()) return false;
    numbers.push_back(*number);
    node.tape.operands.push_back({.id = Find(operand), .constant = *number});
  }
  if (!PyFloat_CheckExact(result) ||
      !SameBits(PyFloat_AS_DOUBLE(result), Compute(op, numbers))) {
    return false;
  }
  Add(result, std::move(node));
  return true;
}

bool HostValues::AddComparison(const char* op, PyObject* a, PyObject* b,
                               UserLine at) {
  const std::optional<double> first = NumberOf(a), second = NumberOf(b);
  if (!first.has_value() || !second.has_value()) return false;
  comparisons_.push_back({.op = op,
                          .a = {.id = Find(a), .constant = *first},
                          .b = {.id = Find(b), .constant = *second},
                          .outcome = Compute(op, {*first, *second}) != 0,
                          .at = std::move(at)});
  return true;
}

std::vector<HostValues::Comparison> HostValues::Comparisons() const {
  std::vector<Comparison> varying;
  for (const Comparison& comparison : comparisons_) {
    for (const TapeHostOperand& operand : {comparison.a, comparison.b}) {
      if (operand.id < 0 || !IsDynamic(operand.id)) continue;
      varying.push_back(comparison);
      break;
    }
  }
  return varying;
}

void HostValues::MarkExactId(Id id) {
  if (nodes_[id].is_exact) return;
  nodes_[id].is_exact = true;
  for (const TapeHostOperand& operand : nodes_[id].tape.operands) {
    if (operand.id >= 0) MarkExactId(operand.id);
  }
}

void HostValues::MarkExactDeep(PyObject* object) {
  if (ids_.empty() || object == nullptr) return;
  MarkExact(object);
  if (!PyTuple_Check(object)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    MarkExactDeep(PyTuple_GET_ITEM(object, i));
  }
}

bool HostValues::HasKnown(PyObject* object) const {
  if (ids_.empty()) return false;
  if (Find(object) >= 0) return true;
  if (PyList_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
      if (Find(PyList_GET_ITEM(object, i)) >= 0) return true;
    }
    return false;
  }
  if (!PyTuple_Check(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (HasKnown(PyTuple_GET_ITEM(object, i))) return true;
  }
  return false;
}

bool HostValues::IsDynamic(Id id) const {
  const Node& node = nodes_[id];
  if (node.tape.kind != TapeHostValue::Kind::kOp) return !node.is_exact;
  for (const TapeHostOperand& operand : node.tape.operands) {
    if (operand.id >= 0 && IsDynamic(operand.id)) return true;
  }
  return false;
}

std::vector<TapeHostValue> HostValues::Finish(
    HostInputs* inputs, std::vector<HostInputs::Source>* exact) {
  std::vector<TapeHostValue> values;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    node.tape.is_constant = !IsDynamic(static_cast<Id>(i));
    if (node.tape.kind == TapeHostValue::Kind::kInput) {
      if (node.is_exact) {
        exact->push_back(node.source);
      } else {
        node.tape.input = static_cast<int32_t>(inputs->sources().size());
        inputs->Add(node.source);
      }
    }
    values.push_back(node.tape);
  }
  return values;
}

}  // namespace mica
