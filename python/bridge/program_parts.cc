// A Program taken apart for Python: plain lists, numbers and texts.

#include "python/bridge/program_parts.h"

#include <nanobind/stl/string.h>

#include <complex>
#include <string>
#include <variant>

#include "python/bridge/bindings.h"

namespace mica {
namespace {

namespace nb = nanobind;

// A value is ("%", name), so that it is no string; a dtype is ("dtype", name).
struct ToPython {
  const Program& program;

  nb::object operator()(std::monostate) const { return nb::none(); }
  nb::object operator()(ValueRef ref) const {
    if (ref.id == kNoValue) return nb::none();
    return nb::make_tuple("%", program.value(ref.id).name);
  }
  nb::object operator()(const ValueRefs& refs) const {
    nb::list list;
    for (const ValueRef ref : refs) list.append((*this)(ref));
    return list;
  }
  nb::object operator()(DType dtype) const {
    return nb::make_tuple("dtype", std::string(DTypeName(dtype)));
  }
  nb::object operator()(int64_t value) const { return nb::int_(value); }
  nb::object operator()(double value) const { return nb::float_(value); }
  nb::object operator()(std::complex<double> value) const {
    return nb::steal(PyComplex_FromDoubles(value.real(), value.imag()));
  }
  nb::object operator()(bool value) const { return nb::bool_(value); }
  nb::object operator()(const std::string& text) const {
    return nb::cast(text);
  }
  template <typename T>
  nb::object operator()(const std::vector<T>& values) const {
    nb::list list;
    for (const T value : values) list.append((*this)(value));
    return list;
  }
};

nb::list NamesOf(const Program& program, absl::Span<const ValueId> ids) {
  nb::list names;
  for (const ValueId id : ids) {
    if (id == kNoValue) {
      names.append(nb::none());
    } else {
      names.append(program.value(id).name);
    }
  }
  return names;
}

nb::dict PartsOfOp(const Program& program, const Op& op) {
  nb::dict dict;
  dict["op"] = op.def->name();
  nb::list arguments, types, hidden;
  const auto& params = op.def->schema().params;
  for (size_t i = 0; i < params.size(); ++i) {
    arguments.append(nb::make_tuple(
        params[i].name, std::visit(ToPython{program}, op.arguments[i])));
  }
  for (const ValueId id : op.results) {
    types.append(program.type(id).ToString());
  }
  for (const int i : op.def->hidden_results()) hidden.append(params[i].name);
  dict["arguments"] = arguments;
  dict["results"] = NamesOf(program, op.results);
  dict["types"] = types;
  dict["hidden"] = hidden;
  dict["is_view"] = op.def->is_view();
  dict["is_opaque"] = op.def->is_opaque();
  dict["num_bodies"] = op.bodies.size();
  dict["line"] = op.source.ToString();
  dict["scope"] = op.source.scope == nullptr ? "" : *op.source.scope;
  dict["is_backward"] = op.source.is_backward;
  return dict;
}

}  // namespace

nb::dict PartsOfProgram(const Program& program) {
  nb::list ops, constants, updates, variables;
  for (const Op& op : program.ops()) ops.append(PartsOfOp(program, op));
  for (const Constant& constant : program.constants()) {
    constants.append(nb::make_tuple(
        program.value(constant.value).name,
        program.type(constant.value).ToString(),
        nb::bytes(constant.bytes.data(), constant.bytes.size())));
  }
  for (const Variable& variable : program.variables()) {
    variables.append(
        nb::make_tuple(program.value(variable.value).name, variable.name));
  }
  for (const Update& update : program.updates()) {
    updates.append(nb::make_tuple(program.value(update.target).name,
                                  program.value(update.value).name));
  }
  nb::dict dict;
  dict["ops"] = ops;
  dict["constants"] = constants;
  dict["variables"] = variables;
  dict["updates"] = updates;
  dict["inputs"] = NamesOf(program, program.inputs());
  dict["outputs"] = NamesOf(program, program.outputs());
  return dict;
}

}  // namespace mica
