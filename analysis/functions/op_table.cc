#include "analysis/functions/op_table.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <utility>
#include <variant>
#include <vector>

#include "absl/hash/hash.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/fetch_ahead.h"
#include "glog/logging.h"

namespace mica {
namespace {

// Forms of one hash that are compared; more are those of NaNs, which equal
// nothing.
constexpr int kMostOfOneHash = 8;

// Of equal arguments: whether they are so in the signs of zeros, too.
bool SameSigns(const Argument& a, const Argument& b) {
  const auto same = [](double x, double y) {
    return std::signbit(x) == std::signbit(y);
  };
  if (const auto* x = std::get_if<double>(&a)) {
    return same(*x, std::get<double>(b));
  }
  if (const auto* x = std::get_if<std::vector<double>>(&a)) {
    return std::equal(x->begin(), x->end(),
                      std::get<std::vector<double>>(b).begin(), same);
  }
  if (const auto* x = std::get_if<std::complex<double>>(&a)) {
    const auto& y = std::get<std::complex<double>>(b);
    return same(x->real(), y.real()) && same(x->imag(), y.imag());
  }
  return true;
}

bool SameArguments(const Arguments& a, const Arguments& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::holds_alternative<ValueRef>(a[i]) &&
        std::holds_alternative<ValueRef>(b[i])) {
      continue;
    }
    const auto* one = std::get_if<ValueRefs>(&a[i]);
    const auto* other = std::get_if<ValueRefs>(&b[i]);
    if (one != nullptr && other != nullptr) {
      if (!std::equal(one->begin(), one->end(), other->begin(), other->end(),
                      [](ValueRef x, ValueRef y) {
                        return (x.id == kNoValue) == (y.id == kNoValue);
                      })) {
        return false;
      }
    } else if (!(a[i] == b[i]) || !SameSigns(a[i], b[i])) {
      return false;
    }
  }
  return true;
}

uint64_t HashOfOp(const Program& program, const Op& op) {
  uint64_t hash = absl::HashOf(op.def, op.arguments.size());
  for (const Argument& argument : op.arguments) {
    uint64_t value = 0;
    if (const auto* number = std::get_if<int64_t>(&argument)) {
      value = static_cast<uint64_t>(*number);
    } else if (const auto* list =
                   std::get_if<std::vector<int64_t>>(&argument)) {
      value = absl::HashOf(*list);
    } else if (const auto* refs = std::get_if<ValueRefs>(&argument)) {
      value = refs->size();
    }
    hash = absl::HashOf(hash, argument.index(), value);
  }
  // One object for all types of one form.
  for (ValueId id : op.results) {
    hash = absl::HashOf(hash, program.value(id).type);
  }
  for (const auto& body : op.bodies) hash = absl::HashOf(hash, body.get());
  return hash;
}

}  // namespace

bool SameType(const Program& program, ValueId a, ValueId b) {
  return program.value(a).type == program.value(b).type ||
         program.type(a) == program.type(b);
}

bool SameOp(const Program& program, const Op& x, const Op& y) {
  return x.def == y.def && x.bodies == y.bodies &&
         SameArguments(x.arguments, y.arguments) &&
         std::equal(x.results.begin(), x.results.end(), y.results.begin(),
                    y.results.end(), [&](ValueId a, ValueId b) {
                      return SameType(program, a, b);
                    });
}

OpTable::OpTable(const Program& program)
    : program_(program),
      producers_(program.num_values(), -1),
      first_readers_(program.num_values(), -1),
      uses_(program.num_values(), 0),
      is_kept_(program.num_values(), false) {
  const auto num_ops = static_cast<OpId>(program.ops().size());
  forms_.reserve(num_ops);
  words_.reserve(num_ops);
  first_operands_.reserve(num_ops + 1);
  first_results_.reserve(num_ops);
  constexpr size_t kUsualOperands = 2;  // Of an op.
  operands_.reserve(kUsualOperands * num_ops);
  first_operands_.push_back(0);
  for (OpId id = 0; id < num_ops; ++id) AddOp(id);
  for (const Update& update : program.updates()) {
    is_kept_[update.value] = true;
  }
  for (ValueId id : program.outputs()) {
    if (id != kNoValue) is_kept_[id] = true;
  }
}

void OpTable::AddOp(OpId id) {
  FetchAhead(program_.ops(), id);
  const Op& op = program_.ops()[id];
  last_form_ = FormOf(id);
  forms_.push_back(last_form_);
  words_.push_back(2 * static_cast<uint64_t>(last_form_) +
                   (op.source.is_backward ? 1 : 0));
  ForEachValue(op.arguments, [&](ValueId value) {
    operands_.push_back(value);
    ++uses_[value];
    if (first_readers_[value] < 0) first_readers_[value] = id;
  });
  first_operands_.push_back(static_cast<int32_t>(operands_.size()));
  first_results_.push_back(op.results.empty() ? kNoValue : op.results[0]);
  for (size_t i = 0; i < op.results.size(); ++i) {
    DCHECK_EQ(op.results[i], op.results[0] + static_cast<ValueId>(i));
    producers_[op.results[i]] = id;
  }
}

// Most ops follow the form that theirs followed before: what equals that needs
// no hash.
int32_t OpTable::FormOf(OpId id) {
  const Op& op = program_.ops()[id];
  if (last_form_ >= 0) {
    const int32_t guess = form_ops_[last_form_].next;
    if (guess >= 0 && SameOp(program_, first_of_form(guess), op)) return guess;
  }
  int32_t found = -1;
  const auto [it, is_new] =
      by_hash_.try_emplace(HashOfOp(program_, op), num_forms());
  if (is_new) {
    found = NewForm(id);
  } else {
    int32_t form = it->second;
    for (int i = 0; i < kMostOfOneHash && form >= 0; ++i) {
      if (SameOp(program_, first_of_form(form), op)) {
        found = form;
        break;
      }
      form = form_ops_[form].same_hash;
    }
    if (found < 0) {
      found = NewForm(id);
      form_ops_[found].same_hash = std::exchange(it->second, found);
    }
  }
  if (last_form_ >= 0) form_ops_[last_form_].next = found;
  return found;
}

int32_t OpTable::NewForm(OpId id) {
  form_ops_.push_back(
      {.first = id, .has_effect = HasEffect(program_.ops()[id])});
  return num_forms() - 1;
}

std::vector<bool> OpTable::FindLiveOps() const {
  std::vector<bool> values = is_kept_;
  std::vector<bool> ops(num_ops(), false);
  for (OpId id = num_ops(); id-- > 0;) {
    bool is_live = has_effect(id);
    const int32_t count = num_results(id);
    for (int32_t i = 0; i < count; ++i) {
      is_live = is_live || values[result(id, i)];
    }
    if (!is_live) continue;
    ops[id] = true;
    for (ValueId value : operands(id)) values[value] = true;
  }
  return ops;
}

}  // namespace mica
