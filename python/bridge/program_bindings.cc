#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/fuse/region_verdicts.h"
#include "analysis/pipeline/fusing.h"
#include "framework/base/environment.h"
#include "framework/ir/control_flow.h"
#include "framework/op/region_code.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "kernels/cpu/region_compiler.h"
#include "kernels/cpu/simd_table.h"
#include "ops/all.h"
#include "python/bridge/bindings.h"
#include "python/bridge/program_parts.h"
#include "python/bridge/status.h"

namespace mica {
namespace {

namespace nb = nanobind;

using NamedTypes = std::vector<std::pair<std::string, std::string>>;

PyProgram Parse(const std::string& text) {
  return {std::make_shared<const Program>(
      ValueOrThrow(ParseProgram(text, AllOps())))};
}

NamedTypes TypesOf(const Program& program, absl::Span<const ValueId> ids) {
  NamedTypes types;
  for (ValueId id : ids) {
    types.emplace_back(program.value(id).name, program.type(id).ToString());
  }
  return types;
}

NamedTypes VariablesOf(const PyProgram& self) {
  NamedTypes types;
  for (const Variable& variable : self.program->variables()) {
    types.emplace_back(variable.name,
                       self.program->type(variable.value).ToString());
  }
  return types;
}

// The names of the inputs that a run writes.
std::vector<std::string> UpdatedInputsOf(const PyProgram& self) {
  std::vector<std::string> names;
  for (const Update& update : self.program->updates()) {
    const Value& target = self.program->value(update.target);
    if (target.kind == ValueKind::kInput) names.push_back(target.name);
  }
  return names;
}

// The users' names of the variables that a run writes.
std::vector<std::string> UpdatedVariablesOf(const PyProgram& self) {
  std::vector<std::string> names;
  for (const Update& update : self.program->updates()) {
    const Value& target = self.program->value(update.target);
    if (target.kind != ValueKind::kVariable) continue;
    names.push_back(self.program->variables()[target.index].name);
  }
  return names;
}

std::map<std::string, int> CountOps(const PyProgram& self, bool only_opaque) {
  std::map<std::string, int> counts;
  ForEachOp(*self.program, [&](const Op& op) {
    if (!only_opaque || op.def->is_opaque()) ++counts[op.def->name()];
  });
  return counts;
}

nb::dict ToDict(const std::map<std::string, int>& counts) {
  nb::dict dict;
  for (const auto& [name, count] : counts) dict[name.c_str()] = count;
  return dict;
}

// The schema, in ATen's notation, of every operator that has a meaning here.
std::map<std::string, std::string> RegisteredOps() {
  std::map<std::string, std::string> schemas;
  for (const OpDef* def : AllOps().All()) {
    schemas[def->name()] = ToText(def->schema());
  }
  return schemas;
}

// Compiles `count` different regions: who does it, how many it did, and the
// milliseconds in all.
nb::tuple CompileRegions(int count) {
  cpu::RegionCompiler::Options options = cpu::RegionCompiler::DefaultOptions();
  options.folder.clear();
  if (!options.is_on) return nb::make_tuple("", 0, 0.0);
  cpu::RegionCompiler compiler(std::move(options));
  std::vector<std::shared_ptr<const cpu::RegionMachineCode>> all;
  for (int i = 0; i < count; ++i) {
    const auto code = RegionCode::Parse(absl::StrCat(
        "mul.f32 %0 ", i + 2, "; add.f32 $0 %1; tanh.f32 $1 -> $2"));
    region::Signature signature{.code = *code, .operands = {}, .results = {}};
    signature.operands.resize(2);
    signature.results.resize(1);
    all.push_back(compiler.Request(signature));
  }
  compiler.Wait();
  const auto stats = compiler.stats();
  return nb::make_tuple(stats.compiler, stats.compiled, stats.compile_ms);
}

// Of a Program as it was recorded.
std::string FusionOf(const PyProgram& self) {
  const Fusing fusing = ValueOrThrow(
      FusingOf(EnvironmentVariable("MICA_FUSE"), PassPipeline::All()));
  const PassContext context{AllOps(), AllKernels(), fusing.regions};
  const Program passed = ValueOrThrow(
      fusing.passes.Without("merge-elementwise").Run(*self.program, context));
  return RegionVerdictsText(passed, context);
}

}  // namespace

void BindProgram(nb::module_& m) {
  m.def("registered_ops", &RegisteredOps);
  m.def("compile_regions", &CompileRegions, nb::arg("count"));
  m.def("instruction_set", [] { return std::string(cpu::Simd().name); });
  nb::class_<PyProgram>(m, "Program")
      .def_static("parse", &Parse, nb::arg("text"))
      .def("__str__",
           [](const PyProgram& self) { return ToText(*self.program); })
      .def_prop_ro("name",
                   [](const PyProgram& self) { return self.program->name(); })
      .def_prop_ro("inputs",
                   [](const PyProgram& self) {
                     return TypesOf(*self.program, self.program->inputs());
                   })
      .def_prop_ro("outputs",
                   [](const PyProgram& self) {
                     return TypesOf(*self.program, self.program->outputs());
                   })
      .def_prop_ro("variables", &VariablesOf)
      .def("fusion", &FusionOf)
      .def("parts",
           [](const PyProgram& self) { return PartsOfProgram(*self.program); })
      .def_prop_ro("updated_inputs", &UpdatedInputsOf)
      .def_prop_ro("updated_variables", &UpdatedVariablesOf)
      .def_prop_ro(
          "num_ops",
          [](const PyProgram& self) { return self.program->ops().size(); })
      .def_prop_ro("op_counts",
                   [](const PyProgram& self) {
                     return ToDict(CountOps(self, /*only_opaque=*/false));
                   })
      .def_prop_ro("opaque_ops", [](const PyProgram& self) {
        return ToDict(CountOps(self, /*only_opaque=*/true));
      });
}

}  // namespace mica
