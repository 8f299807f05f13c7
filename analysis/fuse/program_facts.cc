#include "analysis/fuse/program_facts.h"

#include "analysis/rewrite.h"

namespace mica {

ProgramFacts::ProgramFacts(const Program& program)
    : program_(program),
      uses_(CountUses(program)),
      readers_(program.num_values()) {
  for (size_t i = 0; i < program.ops().size(); ++i) {
    ForEachValue(program.ops()[i].arguments, [&](ValueId id) {
      readers_[id].push_back(static_cast<OpId>(i));
    });
  }
}

ValueId ProgramFacts::ValueOf(const Op& op, int param) {
  const auto* ref = std::get_if<ValueRef>(&op.arguments[param]);
  return ref == nullptr ? kNoValue : ref->id;
}

OpId ProgramFacts::ProducerOf(ValueId value) const {
  if (value == kNoValue) return kNoOp;
  const Value& v = program_.value(value);
  return v.kind == ValueKind::kResult ? v.index : kNoOp;
}

bool IsNumber(const Argument& argument, double wanted) {
  if (const auto* integer = std::get_if<int64_t>(&argument)) {
    return static_cast<double>(*integer) == wanted;
  }
  const auto* real = std::get_if<double>(&argument);
  return real != nullptr && *real == wanted;
}

}  // namespace mica
