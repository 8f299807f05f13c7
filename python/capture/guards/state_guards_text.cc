// What is told of guards of the state.

#include "absl/strings/str_cat.h"
#include "python/capture/guards/state_guards.h"
#include "python/capture/values/constants.h"

namespace mica {

std::string StateGuards::Describe(const Kept& kept) const {
  if (!kept.is_by_place()) return DescribeValue(kept.get());
  for (const Tensor& facts : tensors_) {
    if (facts.tensor.get() == kept.get()) return facts.meta.ToString();
  }
  return absl::StrCat("a ", TypeName(kept.type()));
}

int StateGuards::Traverse(visitproc visit, void* arg) const {
  if (const int stop = held_.Traverse(visit, arg)) return stop;
  for (const ClassFacts& facts : classes_) Py_VISIT(facts.index.get());
  return 0;
}

std::string StateGuards::PathOf(PyObject* object) const {
  if (const auto it = dict_index_.find(object); it != dict_index_.end()) {
    return absl::StrCat("that holds ", dicts_[it->second].note.path);
  }
  for (const ItemsFacts& facts : items_) {
    if (facts.container.get() == object) return facts.note.path;
  }
  return "of the state";
}

int64_t StateGuards::num_facts() const {
  size_t count = instances_.size() + slots_.size() + types_.size() +
                 functions_.size() + cells_.size() + context_vars_.size() +
                 weak_refs_.size() + locks_.size() + arrays_.size() +
                 tensors_.size() + answers_.size() + classes_of_.size();
  for (const DictFacts& facts : dicts_) {
    count += facts.items.size() + (facts.is_whole ? 1 : 0) +
             (facts.has_keys ? 1 : 0);
  }
  for (const ItemsFacts& facts : items_) count += facts.is_of_tuple ? 0 : 1;
  return static_cast<int64_t>(count);
}

std::vector<std::string> StateGuards::ToText() const {
  const Alive alive = FindAlive();
  std::vector<std::string> lines;
  const auto add = [&](const GuardNote& note, const std::string& claim) {
    std::string line = absl::StrCat(note.path, claim);
    if (note.at.line != 0) {
      absl::StrAppend(&line, "  (", note.at.ToString(), ")");
    }
    lines.push_back(std::move(line));
  };
  const auto is = [&](const Kept& value) {
    if (!value) return std::string(" is absent");
    if (!alive.Has(value.get())) return absl::StrCat(" is ", Describe(value));
    return absl::StrCat(IsConstant(value.get()) ? " == " : " is ",
                        DescribeValue(value.get()));
  };
  for (const DictFacts& facts : dicts_) {
    for (const Item& item : facts.items) add(item.note, is(item.value));
    if (facts.is_whole) {
      add(facts.note,
          absl::StrCat(" has the same ", facts.contents.size(), " items"));
    }
    if (facts.has_keys) {
      add(facts.note,
          absl::StrCat(" has the same ", facts.keys.size(), " keys"));
    }
  }
  for (const InstanceFacts& facts : instances_) {
    add(facts.note,
        absl::StrCat(" is the same ", TypeName(AsType(facts.type.get()))));
  }
  for (const ClassOfFacts& facts : classes_of_) {
    add(facts.note, absl::StrCat(" is a ", TypeName(facts.type)));
  }
  for (const TypeFacts& facts : types_) {
    add(facts.note, " has the same attributes");
  }
  for (const FunctionFacts& facts : functions_) {
    add(facts.note, " has the same code and defaults");
  }
  for (const auto* places : {&cells_, &weak_refs_, &context_vars_}) {
    for (const CellFacts& facts : *places) add(facts.note, is(facts.value));
  }
  for (const CellFacts& facts : locks_) add(facts.note, " is free");
  for (const ItemsFacts& facts : items_) {
    if (facts.is_of_tuple) continue;
    add(facts.note,
        absl::StrCat(" has the same ", facts.items.size(), " items"));
  }
  for (const SlotFacts& facts : slots_) add(facts.note, is(facts.value));
  for (const AnswerFacts& facts : answers_) add(facts.note, is(facts.value));
  for (const Tensor& facts : tensors_) {
    add(facts.note, absl::StrCat(" is ", facts.meta.ToString()));
  }
  for (const ArrayFacts& facts : arrays_) {
    add(facts.note, " has the same contents");
  }
  return lines;
}

}  // namespace mica
