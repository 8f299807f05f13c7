// Whether a call's arguments are like those recorded.

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hit_code.h"
#include "python/capture/guards/input_guards.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/sequences.h"
#include "python/interpreter/interpreter.h"

namespace mica {

bool InputGuards::IsInt(const Node& node) {
  return (node.kind == Kind::kConstant || node.kind == Kind::kNumber) &&
         PyLong_CheckExact(node.value.get());
}

int InputGuards::FindInt(absl::string_view path) const {
  const auto it = absl::c_find_if(nodes_, [&](const Node& node) {
    return node.path == path && IsInt(node);
  });
  return it == nodes_.end() ? -1 : static_cast<int>(it - nodes_.begin());
}

MICA_HIT_CODE bool InputGuards::Match(
    const CallArgs& args, BoundInputs* bound, Miss* miss,
    const absl::flat_hash_set<std::string>* any_sizes) const {
  any_sizes_ = any_sizes;
  misplaced_type_ = nullptr;
  promoted_paths_.clear();
  bool same_form = args.num_positional == num_positional_;
  PyObject* recorded = keyword_names_.get();
  if (same_form && recorded != args.keyword_names) {
    const Py_ssize_t count =
        recorded == nullptr ? 0 : PyTuple_GET_SIZE(recorded);
    same_form = count == args.num_keywords();
    for (Py_ssize_t i = 0; same_form && i < count; ++i) {
      same_form = IsSameKey(PyTuple_GET_ITEM(recorded, i),
                            PyTuple_GET_ITEM(args.keyword_names, i));
    }
  }
  if (!same_form) {
    if (miss != nullptr) {
      const Py_ssize_t keywords =
          recorded == nullptr ? 0 : PyTuple_GET_SIZE(recorded);
      *miss = {.kind = "input",
               .note = {.path = "the arguments"},
               .expected = absl::StrCat(num_positional_, " positional and ",
                                        keywords, " keyword ones"),
               .got = absl::StrCat(args.num_positional, " and ",
                                   args.num_keywords(), ", or other names")};
    }
    return false;
  }
  bound->objects.resize(nodes_.size());
  bound->tensors.resize(tensors_.size());
  bound->of_arrays.clear();
  const auto count = static_cast<size_t>(args.size());
  for (size_t i = 0; i < roots_.size(); ++i) {
    PyObject* object = i < count ? args.args[i] : args.slots[i - count];
    if (MatchNode(roots_[i], object, bound, miss)) continue;
    promoted_paths_.clear();
    return false;
  }
  // All that differ, at once.
  if (!promoted_paths_.empty()) return false;
  return MatchTensors(*bound, miss) && MatchApart(*bound, miss);
}

PyTypeObject* InputGuards::FindMisplaced(const CallArgs& args) {
  for (Node& node : nodes_) {
    // Another object may have its address.
    if (node.kind == Kind::kPinned) node.value = LooseRef();
  }
  BoundInputs bound;
  Match(args, &bound, nullptr);
  return misplaced_type_;
}

MICA_HIT_CODE bool InputGuards::MatchNode(int id, PyObject* object,
                                          BoundInputs* bound,
                                          Miss* miss) const {
  const Node& node = nodes_[id];
  bound->objects[id] = object;
  if ((node.same_object && node.same_object.get() != object) ||
      absl::c_linear_search(node.others, object)) {
    if (miss != nullptr) {
      const bool is_known = static_cast<bool>(node.same_object);
      *miss = {.kind = "input",
               .note = {.path = node.path},
               .expected = is_known ? "an object of the program's state"
                                    : "an object of its own",
               .got = is_known ? "another" : "one of the program's state"};
    }
    return false;
  }
  switch (node.kind) {
    case Kind::kTensor: {
      const Tensor& tensor = tensors_[node.index];
      if (Py_TYPE(object) != AsType(node.type.get()) ||
          !MatchesMeta(tensor, object) || HasOwnAttributes(object)) {
        return Differ(node, object, miss);
      }
      bound->tensors[node.index] = object;
      return true;
    }
    case Kind::kArray:
      return MatchArray(node, object, bound) || Differ(node, object, miss);
    case Kind::kConstant:
      if (SameValue(node.value.get(), object)) return true;
      if (any_sizes_ != nullptr && PyLong_CheckExact(object) && IsInt(node) &&
          any_sizes_->contains(node.path)) {
        return true;
      }
      return MatchNumbers(node, object, miss);
    case Kind::kNumber:
      return AreNumbers(node.value.get(), object) || Differ(node, object, miss);
    case Kind::kPinned:
      if (node.value.get() == object) return true;
      if (Py_TYPE(object) == AsType(node.type.get())) {
        misplaced_type_ = AsType(node.type.get());
      }
      return Differ(node, object, miss);
    case Kind::kSame:
      return bound->objects[node.index] == object || Differ(node, object, miss);
    default:
      return Py_TYPE(object) == AsType(node.type.get())
                 ? MatchContainer(node, object, bound, miss)
                 : Differ(node, object, miss);
  }
}

MICA_HIT_CODE bool InputGuards::MatchesMeta(const Tensor& tensor,
                                            PyObject* object) const {
  return !tensor.open.empty() || any_sizes_ != nullptr
             ? tensor.meta.MatchesButSizes(object)
             : tensor.meta.Matches(object);
}

bool InputGuards::MatchArray(const Node& node, PyObject* object,
                             BoundInputs* bound) const {
  if (Py_TYPE(object) != AsType(node.type.get())) return false;
  PyRef made = TensorOfArray(object);
  if (!made || !MatchesMeta(tensors_[node.index], made.get())) return false;
  bound->tensors[node.index] = made.get();
  bound->of_arrays.push_back(std::move(made));
  return true;
}

bool InputGuards::MatchNumbers(const Node& node, PyObject* object,
                               Miss* miss) const {
  const bool is_first = promoted_paths_.empty();
  if (!DifferInNumbers(node.value.get(), object, node.path, &promoted_paths_)) {
    return Differ(node, object, miss);
  }
  if (is_first) Differ(node, object, miss);
  return true;
}

MICA_HIT_CODE bool InputGuards::IsSameKey(PyObject* was, PyObject* now) const {
  return was == now || (SameValue(was, now) && !pinned_keys_.contains(was));
}

MICA_HIT_CODE bool InputGuards::MatchContainer(const Node& node,
                                               PyObject* object,
                                               BoundInputs* bound,
                                               Miss* miss) const {
  switch (node.kind) {
    case Kind::kTuple:
    case Kind::kList:
      return MatchSequence(node, object, bound, miss);
    case Kind::kDeque:
      return MatchDeque(node, object, bound, miss);
    case Kind::kSet: {
      const std::vector<PyRef> items = ItemsOf(object);
      bool same = items.size() == node.keys.size();
      for (size_t i = 0; same && i < items.size(); ++i) {
        same = IsSameKey(node.keys[i].get(), items[i].get());
      }
      return same || Differ(node, object, miss);
    }
    case Kind::kDict: {
      if (!MatchItems(node, object, bound, miss)) return false;
      const PyRef factory = FactoryOf(object);
      if (factory &&
          !MatchNode(node.children.back(), factory.get(), bound, miss)) {
        return false;
      }
      return HasNoAttributes(object) || Differ(node, object, miss);
    }
    default:
      return (!PyDict_Check(object) || MatchItems(node, object, bound, miss)) &&
             MatchAttributes(node, object, bound, miss);
  }
}

MICA_HIT_CODE bool InputGuards::MatchSequence(const Node& node,
                                              PyObject* object,
                                              BoundInputs* bound,
                                              Miss* miss) const {
  const size_t count = node.children.size();
  if (static_cast<size_t>(Py_SIZE(object)) != count ||
      !HasNoAttributes(object)) {
    return Differ(node, object, miss);
  }
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = node.kind == Kind::kTuple ? PyTuple_GET_ITEM(object, i)
                                               : PyList_GET_ITEM(object, i);
    if (!MatchNode(node.children[i], item, bound, miss)) return false;
  }
  return true;
}

bool InputGuards::MatchDeque(const Node& node, PyObject* deque,
                             BoundInputs* bound, Miss* miss) const {
  const size_t count = node.children.size();
  if (static_cast<size_t>(Py_SIZE(deque)) != count ||
      BoundOf(deque) != node.index) {
    return Differ(node, deque, miss);
  }
  const std::vector<PyRef> items = ItemsInOrder(deque);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!MatchNode(node.children[i], items[i].get(), bound, miss)) return false;
  }
  return true;
}

MICA_HIT_CODE bool InputGuards::MatchItems(const Node& node, PyObject* object,
                                           BoundInputs* bound,
                                           Miss* miss) const {
  if (static_cast<size_t>(PyDict_GET_SIZE(object)) != node.keys.size()) {
    return Differ(node, object, miss);
  }
  if (PyODict_Check(object)) {
    const std::vector<PyRef> keys = KeysOf(object);
    for (size_t i = 0; i < node.keys.size(); ++i) {
      if (i >= keys.size() || !IsSameKey(node.keys[i].get(), keys[i].get())) {
        return Differ(node, object, miss);
      }
      PyObject* value = PyDict_GetItemWithError(object, keys[i].get());
      if (value == nullptr) return Differ(node, object, miss);
      if (!MatchNode(node.children[i], value, bound, miss)) return false;
    }
    return true;
  }
  return MatchDict(node, object, node.keys, 0, bound, miss);
}

MICA_HIT_CODE bool InputGuards::MatchAttributes(const Node& node,
                                                PyObject* object,
                                                BoundInputs* bound,
                                                Miss* miss) const {
  PyObject* dict = InstanceDict(object);
  const size_t count = node.names.size();
  if ((dict == nullptr ? 0 : static_cast<size_t>(PyDict_GET_SIZE(dict))) !=
      count) {
    return Differ(node, object, miss);
  }
  return count == 0 ||
         MatchDict(node, dict, node.names, node.keys.size(), bound, miss);
}

MICA_HIT_CODE bool InputGuards::MatchDict(const Node& node, PyObject* dict,
                                          absl::Span<const PyRef> keys,
                                          size_t child, BoundInputs* bound,
                                          Miss* miss) const {
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  for (size_t i = 0; PyDict_Next(dict, &position, &key, &value); ++i) {
    if (!IsSameKey(keys[i].get(), key)) return Differ(node, dict, miss);
    if (!MatchNode(node.children[child + i], value, bound, miss)) return false;
  }
  return true;
}

// Tensors that were different objects still have to be.
MICA_HIT_CODE bool InputGuards::MatchTensors(const BoundInputs& bound,
                                             Miss* miss) const {
  const auto differ = [&](size_t a, size_t b) {
    if (miss != nullptr) {
      *miss = {.kind = "input",
               .note = {.path = tensors_[b].path},
               .expected = "a tensor of its own",
               .got = absl::StrCat("the same object as ", tensors_[a].path)};
    }
    return false;
  };
  const size_t count = bound.tensors.size();
  for (size_t i = 0; i < count && !forbidden_.empty(); ++i) {
    if (!forbidden_.contains(bound.tensors[i])) continue;
    if (miss != nullptr) {
      *miss = {.kind = "input",
               .note = {.path = tensors_[i].path},
               .expected = "a tensor apart from the program's state",
               .got = "one of the program's state"};
    }
    return false;
  }
  constexpr size_t kFew = 12;
  if (count <= kFew) {
    for (size_t b = 1; b < count; ++b) {
      for (size_t a = 0; a < b; ++a) {
        if (bound.tensors[a] == bound.tensors[b]) return differ(a, b);
      }
    }
    return true;
  }
  absl::flat_hash_map<PyObject*, size_t> first;
  for (size_t b = 0; b < count; ++b) {
    const auto [it, is_new] = first.try_emplace(bound.tensors[b], b);
    if (!is_new) return differ(it->second, b);
  }
  return true;
}

MICA_HIT_CODE bool InputGuards::MatchApart(const BoundInputs& bound,
                                           Miss* miss) const {
  for (const auto& [a, b] : constants_apart_) {
    if (bound.objects[a] != bound.objects[b]) continue;
    if (miss != nullptr) {
      *miss = {.kind = "input",
               .note = {.path = nodes_[a].path},
               .expected = absl::StrCat("another object than ", nodes_[b].path),
               .got = "the same"};
    }
    return false;
  }
  constexpr size_t kFew = 8;
  absl::flat_hash_set<PyObject*> seen;
  const auto is_first = [&](size_t i) {
    PyObject* object = bound.objects[apart_[i]];
    if (apart_.size() > kFew) return seen.insert(object).second;
    return std::none_of(apart_.begin(), apart_.begin() + i, [&](int earlier) {
      return bound.objects[earlier] == object;
    });
  };
  for (size_t i = 0; i < apart_.size(); ++i) {
    const int node = apart_[i];
    PyObject* object = bound.objects[node];
    PyObject* dict =
        nodes_[node].kind == Kind::kInstance ? InstanceDict(object) : nullptr;
    if (is_first(i) && !apart_from_.contains(object) &&
        (dict == nullptr || !apart_from_.contains(dict))) {
      continue;
    }
    if (miss != nullptr) {
      *miss = {.kind = "input",
               .note = {.path = nodes_[node].path},
               .expected = "an object of its own",
               .got = "one that is reached in another way too"};
    }
    return false;
  }
  return true;
}

bool InputGuards::Differ(const Node& node, PyObject* got, Miss* miss) const {
  if (miss == nullptr) return false;
  std::string text = DescribeValue(got);
  if (node.kind == Kind::kPinned && misplaced_type_ != nullptr) {
    text = "another one";
  } else if (node.kind == Kind::kSame) {
    text = "another object";
  }
  *miss = {.kind = "input",
           .note = {.path = node.path},
           .expected = Describe(node),
           .got = std::move(text)};
  return false;
}

}  // namespace mica
