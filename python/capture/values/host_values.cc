#include "python/capture/values/host_values.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/same_bits.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/held.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// A whole number near a float, the same for all between two others.
bool IsWholePart(const TapeHostValue& value) {
  return value.op == "mica.int_floor" || value.op == "mica.int_ceil" ||
         value.op == "mica.int_trunc" || value.op == "mica.int_round";
}

}  // namespace

PyObject* NumberSource::FindItem() const {
  if (!dict) return nullptr;
  PyObject* item = PyDict_GetItemWithError(dict.get(), key.get());
  if (item == nullptr) PyErr_Clear();
  return item;
}

void PromotedScalars::AddItem(PyObject* dict, PyObject* key) {
  constexpr size_t kMaxItems = 1 << 14;
  if (items_.size() >= kMaxItems) {
    for (Items* items : {&items_, &exact_items_, &size_items_}) items->clear();
    keys_.clear();
  }
  if (items_.insert({dict, key}).second) keys_.push_back(PyRef::Share(key));
  if (exact_items_.contains({dict, key})) size_items_.insert({dict, key});
}

void PromotedScalars::AddInput(std::string path) {
  if (exact_inputs_.contains(path)) size_inputs_.insert(path);
  inputs_.insert(std::move(path));
}

void PromotedScalars::NoteExact(absl::Span<const NumberSource> sources) {
  for (const NumberSource& source : sources) {
    if (source.draw >= 0 || !PyLong_CheckExact(source.recorded.get())) continue;
    if (source.node >= 0) {
      exact_inputs_.insert(source.note.path);
    } else if (HasItem(source.dict.get(), source.key.get())) {
      exact_items_.insert({source.dict.get(), source.key.get()});
    }
  }
}

int PromotedScalars::Traverse(visitproc visit, void* arg) const {
  for (const PyRef& key : keys_) Py_VISIT(key.get());
  return 0;
}

HostValues::Id HostValues::Add(PyObject* number, Node node) {
  const auto [it, is_new] =
      ids_.try_emplace(number, static_cast<Id>(nodes_.size()));
  node.value = node.tape.value = ScalarOf(number).value_or(0);
  node.is_int = PyLong_CheckExact(number);
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

void HostValues::AddItem(PyObject* number, PyObject* original, PyObject* dict,
                         PyObject* key, GuardNote note) {
  items_.insert({dict, key});
  places_.push_back(
      {.holder = PyRef::Share(dict), .key = PyRef::Share(key), .note = note});
  Node node;
  node.original = PyRef::Share(original);
  node.tape.kind = TapeHostValue::Kind::kInput;
  node.tape.name = note.path;
  node.source = {.dict = PyRef::Share(dict),
                 .key = PyRef::Share(key),
                 .note = std::move(note),
                 .recorded = PyRef::Share(number)};
  Add(number, std::move(node));
}

const NumberSource* HostValues::FindReplaced(
    absl::FunctionRef<bool(const NumberSource&)> is_set) const {
  for (const Node& node : nodes_) {
    const NumberSource& source = node.source;
    if (source.key && source.FindItem() != source.recorded.get() &&
        !is_set(source)) {
      return &source;
    }
  }
  return nullptr;
}

void HostValues::AddInput(PyObject* number, PyObject* original, int index,
                          std::string path) {
  Node node;
  node.original = PyRef::Share(original);
  node.tape.kind = TapeHostValue::Kind::kInput;
  node.tape.name = path;
  node.source = {.node = index,
                 .note = {.path = std::move(path)},
                 .recorded = PyRef::Share(number)};
  Add(number, std::move(node));
}

HostValues::Id HostValues::AddDraw(PyObject* number, int draw, GuardNote note) {
  Node node;
  node.tape.kind = TapeHostValue::Kind::kInput;
  node.tape.name = note.path;
  node.source = {
      .draw = draw, .note = std::move(note), .recorded = PyRef::Share(number)};
  return Add(number, std::move(node));
}

HostValues::Id HostValues::AddRead(PyObject* number, int32_t call,
                                   int32_t output) {
  Node node;
  node.tape.kind = TapeHostValue::Kind::kRead;
  node.tape.call = call;
  node.tape.output = output;
  return Add(number, std::move(node));
}

bool HostValues::AddComparison(const char* op, PyObject* a, PyObject* b,
                               UserLine at) {
  const std::optional<double> first = ScalarOf(a), second = ScalarOf(b);
  if (!first.has_value() || !second.has_value()) return false;
  double outcome = 0;
  FindHostOp(op)->compute(*first, *second, &outcome);
  Comparison comparison{.op = op,
                        .a = {.id = Find(a), .constant = *first},
                        .b = {.id = Find(b), .constant = *second},
                        .outcome = outcome != 0,
                        .at = std::move(at)};
  if (AreSizes({comparison.a, comparison.b})) {
    size_comparisons_.push_back(std::move(comparison));
    return true;
  }
  // A Program for other sizes compares with these, but has no other number of
  // comparisons.
  for (const Id id : {comparison.a.id, comparison.b.id}) {
    if (id >= 0 && nodes_[id].is_of_round) PinSizesOf(id);
  }
  comparisons_.push_back(std::move(comparison));
  return true;
}

void HostValues::DemandFloat32(Id id) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (IsSize(id)) return;
  const TapeHostOperand number = {.id = id, .constant = nodes_[id].value};
  if (!(std::fabs(number.constant) <= kLargest)) return MarkExactId(id);
  if (!float32_.insert(id).second) return;
  DemandRange(number, -kLargest, kLargest);
}

void HostValues::Demand(const char* op, TapeHostOperand a, TapeHostOperand b) {
  PinSizesOf(a.id);
  PinSizesOf(b.id);
  comparisons_.push_back(
      {.op = op, .a = a, .b = b, .outcome = true, .at = CurrentUserLine()});
}

void HostValues::DemandRange(TapeHostOperand number, double low, double high) {
  Demand("mica.scalar_le", {.id = -1, .constant = low}, number);
  Demand("mica.scalar_le", number, {.id = -1, .constant = high});
}

HostValues::Id HostValues::MovedFrom(Id id) const {
  while (true) {
    const TapeHostValue& tape = nodes_[id].tape;
    const bool is_sum = tape.op == "mica.int_add";
    if (!is_sum && tape.op != "mica.int_sub") return id;
    const Id a = tape.operands[0].id, b = tape.operands[1].id;
    if (a >= 0 && b < 0) {
      id = a;
    } else if (is_sum && a < 0 && b >= 0) {
      id = b;
    } else {
      return id;
    }
  }
}

void HostValues::DemandDistance(TapeHostOperand a, TapeHostOperand b) {
  const double distance = b.constant - a.constant;
  PyRef number = MakeNumber(&PyLong_Type, distance);
  if (number) number = NewNumber(number.get());
  if (!number) {
    PyErr_Clear();
    MarkExactId(a.id);
    return MarkExactId(b.id);
  }
  Node node{.value = distance, .is_int = true};
  node.tape = {.kind = TapeHostValue::Kind::kOp,
               .op = "mica.int_sub",
               .operands = {b, a},
               .value = distance};
  const Id id = Add(number.get(), std::move(node));
  Demand("mica.scalar_eq", {.id = id, .constant = distance},
         {.id = -1, .constant = distance});
}

bool HostValues::Varies(const Comparison& comparison) const {
  const auto varies = [this](const TapeHostOperand& operand) {
    return operand.id >= 0 && IsDynamic(operand.id);
  };
  return varies(comparison.a) || varies(comparison.b);
}

std::vector<HostValues::Comparison> HostValues::Comparisons() const {
  std::vector<Comparison> varying;
  for (size_t i = 0; i < comparisons_.size(); ++i) {
    if (!Varies(comparisons_[i])) continue;
    varying.push_back(comparisons_[i]);
    varying.back().number = static_cast<int32_t>(i);
  }
  return varying;
}

void HostValues::MarkExactId(Id id) {
  // What each step does with sizes tells by itself what becomes of them.
  if (nodes_[id].is_exact && !nodes_[id].is_text_of_sizes) return;
  if (notes_text_uses_) return text_uses_.push_back(id);
  if (IsSize(id)) {
    notes_size_uses_ ? size_uses_.push_back(id) : PinSize(id);
    return;
  }
  nodes_[id].is_exact = true;
  if (nodes_[id].tape.kind == TapeHostValue::Kind::kRead && nodes_[id].is_int) {
    exact_reads_.push_back(nodes_[id].tape.call);
  }
  if (IsWholePart(nodes_[id].tape)) return AddBounds(nodes_[id]);
  for (const TapeHostOperand& operand : nodes_[id].tape.operands) {
    if (operand.id >= 0) MarkExactId(operand.id);
  }
}

void HostValues::AddBounds(const Node& node) {
  const std::string& op = node.tape.op;
  const TapeHostOperand& operand = node.tape.operands[0];
  const double whole = node.value;
  double low = whole - 1, high = whole + 1;
  bool has_low = false, has_high = false;
  if (op == "mica.int_round") {
    // A half goes to the even one.
    low = whole - 0.5;
    high = whole + 0.5;
    has_low = has_high = std::fmod(whole, 2) == 0;
  } else if (op == "mica.int_floor" || (op == "mica.int_trunc" && whole > 0)) {
    low = whole;
    has_low = true;
  } else if (op == "mica.int_ceil" || whole < 0) {
    high = whole;
    has_high = true;
  }
  const auto word = [](bool is_within) {
    return is_within ? "mica.scalar_le" : "mica.scalar_lt";
  };
  Demand(word(has_low), {.id = -1, .constant = low}, operand);
  Demand(word(has_high), operand, {.id = -1, .constant = high});
}

void HostValues::MarkExactDeep(PyObject* object) {
  if ((empty() && addresses_.empty()) || object == nullptr) return;
  if (IsScalar(object)) return MarkExact(object);
  UseText(object);
  if (!PyObject_IS_GC(object)) return;
  ForEachHeld(object, Through::kCode, [this](PyObject* held) {
    MarkExact(held);
    UseText(held);
  });
}

void HostValues::MarkExactReachable(PyObject* object) {
  if ((empty() && addresses_.empty()) || object == nullptr) return;
  ForEachHeld(object, Through::kAttributes, [this](PyObject* held) {
    MarkExact(held);
    UseText(held);
  });
}

bool HostValues::HasKnown(PyObject* object) const {
  if (ids_.empty() || object == nullptr) return false;
  if (FindAny(object) >= 0) return true;
  if (PyList_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
      if (FindAny(PyList_GET_ITEM(object, i)) >= 0) return true;
    }
    return false;
  }
  if (PySlice_Check(object)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    return FindAny(slice->start) >= 0 || FindAny(slice->stop) >= 0 ||
           FindAny(slice->step) >= 0;
  }
  if (!PyTuple_Check(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (HasKnown(PyTuple_GET_ITEM(object, i))) return true;
  }
  return false;
}

std::vector<HostValues::Id> HostValues::PickedFrom(Id id) const {
  const TapeHostValue& tape = nodes_[id].tape;
  std::vector<Id> from;
  if (tape.op != "mica.int_max" && tape.op != "mica.int_min") return from;
  for (const TapeHostOperand& operand : tape.operands) {
    if (operand.id >= 0) from.push_back(operand.id);
  }
  return from;
}

PyRef HostValues::PlainOf(PyObject* object) const {
  const Id id = Find(object);
  if (id < 0) return PyRef::Share(object);
  if (nodes_[id].original) return nodes_[id].original;
  PyRef shared = SharedInt(object);
  return shared ? shared : PyRef::Share(object);
}

void HostValues::ForEachOwn(
    absl::FunctionRef<void(PyObject*, PyObject*)> visit) const {
  for (const auto& [number, id] : ids_) {
    const PyRef plain = PlainOf(number);
    if (plain.get() != number) visit(number, plain.get());
  }
}

bool HostValues::IsDynamic(Id id) const {
  const Node& node = nodes_[id];
  if (node.is_size) return false;
  if (node.tape.kind != TapeHostValue::Kind::kOp) return !node.is_exact;
  if (node.is_exact && IsWholePart(node.tape)) return false;
  for (const TapeHostOperand& operand : node.tape.operands) {
    if (operand.id >= 0 && IsDynamic(operand.id)) return true;
  }
  return false;
}

bool HostValues::NeedsNoRun(Id id) const {
  const Node& node = nodes_[id];
  if (node.is_size || node.has_sizes || node.recipe != nullptr ||
      node.tape.kind == TapeHostValue::Kind::kRead) {
    return false;
  }
  return absl::c_all_of(node.tape.operands,
                        [this](const TapeHostOperand& operand) {
                          return operand.id < 0 || NeedsNoRun(operand.id);
                        });
}

std::vector<TapeHostValue> HostValues::Finish(
    std::vector<NumberSource>* inputs, std::vector<NumberSource>* exact) {
  std::vector<TapeHostValue> values;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (node.recipe != nullptr) {  // No number of a Program's.
      values.push_back({.is_constant = true});
      continue;
    }
    node.tape.is_constant = !IsDynamic(static_cast<Id>(i));
    node.tape.size = node.size_index;
    if (node.tape.kind == TapeHostValue::Kind::kInput && !node.is_size) {
      if (node.is_exact) {
        exact->push_back(node.source);
      } else {
        node.tape.input = static_cast<int32_t>(inputs->size());
        inputs->push_back(node.source);
      }
    }
    values.push_back(node.tape);
  }
  return values;
}

}  // namespace mica
