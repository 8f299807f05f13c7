// What the recorded call changed in the containers that it passed.

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "python/capture/guards/input_guards.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/host_values.h"
#include "python/capture/values/sequences.h"
#include "python/interpreter/interpreter.h"

namespace mica {

// Compares each container with its description.
class ChangeFinder {
 public:
  ChangeFinder(const InputGuards& guards, const HostValues& values)
      : guards_(guards), values_(values) {}

  std::pair<std::vector<InputGuards::Change>, Refusal> Run() {
    for (size_t i = 0; i < guards_.nodes_.size() && !refusal_; ++i) {
      Look(static_cast<int>(i));
    }
    return {std::move(changes_), std::move(refusal_)};
  }

 private:
  using Kind = InputGuards::Kind;
  using Node = InputGuards::Node;
  using Change = InputGuards::Change;

  // Whether a child's description still fits what is in its place.
  bool IsSame(int child, PyObject* now) const {
    const Node& node = guards_.nodes_[child];
    return node.recorded == now ||
           (node.kind == Kind::kConstant && SameValue(node.value.get(), now) &&
            !values_.HasKnown(now));
  }

  // But for whether it requires grad, which others look at.
  static bool IsAsItWas(const InputGuards::Tensor& tensor, PyObject* now) {
    TensorMeta meta = tensor.meta;
    meta.requires_grad = RequiresGrad(now);
    return meta.Matches(now);
  }

  void Refuse(const Node& node, absl::string_view what) {
    refusal_ = {.reason = absl::StrCat("changes an argument: ", what, " of ",
                                       node.path),
                .mend = "return new values instead"};
  }

  void Look(int id) {
    const Node& node = guards_.nodes_[id];
    Change change{.node = id, .path = node.path};
    const bool has_class = node.kind != Kind::kConstant &&
                           node.kind != Kind::kNumber &&
                           node.kind != Kind::kSame && node.recorded != nullptr;
    if (has_class && Py_TYPE(node.recorded) != AsType(node.type.get())) {
      return Refuse(node, "the class");
    }
    switch (node.kind) {
      case Kind::kTensor:
        if (!IsAsItWas(guards_.tensors_[node.index], node.recorded)) {
          Refuse(node, "the type or layout");
        } else if (HasOwnAttributes(node.recorded)) {
          Refuse(node, "an attribute");
        }
        return;
      case Kind::kSet: {
        const std::vector<PyRef> items = ItemsOf(node.recorded);
        const bool is_same =
            std::equal(items.begin(), items.end(), node.keys.begin(),
                       node.keys.end(), [](const PyRef& a, const PyRef& b) {
                         return SameValue(a.get(), b.get());
                       });
        if (!is_same) Refuse(node, "the items");
        return;
      }
      case Kind::kList:
      case Kind::kDeque:
        LookAtSequence(node, &change.items);
        break;
      case Kind::kInstance:
        if (PyObject* dict = InstanceDict(node.recorded)) {
          Compare(dict, node.names,
                  absl::MakeConstSpan(node.children).subspan(node.keys.size()),
                  &change.attributes);
        }
        if (!PyDict_Check(node.recorded)) break;
        [[fallthrough]];
      case Kind::kDict:
        Compare(node.recorded, node.keys,
                absl::MakeConstSpan(node.children).first(node.keys.size()),
                &change.items);
        break;
      default:
        return;
    }
    const auto is_any = [](const Change::Keyed& keyed) {
      return !keyed.removed.empty() || !keyed.values.empty();
    };
    if (is_sequence_changed_ || is_any(change.items) ||
        is_any(change.attributes)) {
      changes_.push_back(std::move(change));
    }
    is_sequence_changed_ = false;
  }

  void LookAtSequence(const Node& node, Change::Keyed* items) {
    const std::vector<PyRef> now = ItemsInOrder(node.recorded);
    is_sequence_changed_ = now.size() != node.children.size();
    for (size_t i = 0; i < now.size(); ++i) {
      is_sequence_changed_ =
          is_sequence_changed_ || !IsSame(node.children[i], now[i].get());
      items->values.push_back(now[i].get());
    }
    if (!is_sequence_changed_) items->values.clear();
  }

  // The steps that turn a described dict into what it is now, in its order.
  void Compare(PyObject* dict, absl::Span<const PyRef> keys,
               absl::Span<const int> children, Change::Keyed* change) {
    const std::vector<PyRef> now = KeysOf(dict);
    absl::flat_hash_map<PyObject*, size_t> before;
    for (size_t i = 0; i < keys.size(); ++i) before[keys[i].get()] = i;
    const auto find = [&](PyObject* key) {
      if (const auto it = before.find(key); it != before.end()) {
        return it->second;
      }
      for (size_t i = 0; i < keys.size(); ++i) {
        if (SameValue(keys[i].get(), key)) return i;
      }
      return keys.size();
    };
    std::vector<size_t> places;
    std::vector<bool> is_kept(keys.size(), false);
    for (const PyRef& key : now) {
      if (!IsConstant(key.get())) {
        refusal_ = {.reason =
                        "gives a dict of an argument a key that isn't a "
                        "constant"};
        return;
      }
      places.push_back(find(key.get()));
      if (places.back() < keys.size()) is_kept[places.back()] = true;
    }
    // Kept keys stay where they are, and new ones come last.
    const bool is_in_order = std::is_sorted(places.begin(), places.end());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!is_in_order || !is_kept[i]) change->removed.push_back(keys[i]);
    }
    for (size_t i = 0; i < now.size(); ++i) {
      PyObject* value = PyDict_GetItemWithError(dict, now[i].get());
      if (value == nullptr) return PyErr_Clear();
      if (is_in_order && places[i] < keys.size() &&
          IsSame(children[places[i]], value)) {
        continue;
      }
      change->set.push_back(values_.PlainOf(now[i].get()));
      change->values.push_back(value);
    }
  }

  const InputGuards& guards_;
  const HostValues& values_;
  std::vector<Change> changes_;
  Refusal refusal_;
  bool is_sequence_changed_ = false;
};

bool InputGuards::AddsResults(const Change& change) const {
  const Node& node = nodes_[change.node];
  const std::vector<PyObject*>& now = change.items.values;
  return node.kind == Kind::kList && now.size() > node.children.size() &&
         (IsTensor(now.back()) || !IsPythonClass(Py_TYPE(now.back())));
}

bool InputGuards::LentItem::Replace(const PyRef& from, const PyRef& to) const {
  bool is_done = false;
  if (key) {
    is_done = PyDict_GetItemWithError(holder.get(), key.get()) == from.get() &&
              PyDict_SetItem(holder.get(), key.get(), to.get()) == 0;
  } else {
    is_done = index < Py_SIZE(holder.get()) &&
              PyRef::Steal(PySequence_GetItem(holder.get(), index)).get() ==
                  from.get() &&
              SetItemAt(holder.get(), index, to.get());
  }
  PyErr_Clear();
  return is_done;
}

std::vector<InputGuards::LentItem> InputGuards::LendOriginals() const {
  const PyErrorKeeper keeper;
  std::vector<LentItem> lent;
  for (const Node& node : nodes_) {
    const bool is_sequence =
        node.kind == Kind::kList || node.kind == Kind::kDeque;
    if (!is_sequence && node.kind != Kind::kDict &&
        node.kind != Kind::kInstance) {
      continue;
    }
    for (size_t i = 0; i < node.children.size(); ++i) {
      const Node& child = nodes_[node.children[i]];
      if (!child.original) continue;
      LentItem item{.index = static_cast<Py_ssize_t>(i),
                    .own = PyRef::Share(child.value.get()),
                    .original = PyRef::Share(child.original.get())};
      const bool is_item = i < node.keys.size();
      if (!is_sequence) {
        item.key = PyRef::Share(
            (is_item ? node.keys[i] : node.names[i - node.keys.size()]).get());
      }
      item.holder = PyRef::Share(node.kind == Kind::kInstance && !is_item
                                     ? InstanceDict(node.recorded)
                                     : node.recorded);
      if (!item.holder) continue;
      if (item.Replace(item.own, item.original))
        lent.push_back(std::move(item));
    }
  }
  return lent;
}

void InputGuards::TakeBack(absl::Span<const LentItem> lent) {
  const PyErrorKeeper keeper;
  for (const LentItem& item : lent) item.Replace(item.original, item.own);
}

std::pair<std::vector<InputGuards::Change>, Refusal> InputGuards::FindChanges(
    const HostValues& values) const {
  return ChangeFinder(*this, values).Run();
}

}  // namespace mica
