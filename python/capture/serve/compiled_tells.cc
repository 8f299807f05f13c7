// What a compiled callable tells of its records, and the stance "check".

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/base/hit_code.h"
#include "framework/ir/control_flow.h"
#include "framework/text/text.h"
#include "python/capture/record/describe.h"
#include "python/capture/serve/compiled.h"
#include "python/capture/serve/report_values.h"
#include "python/capture/serve/splits.h"
#include "python/interpreter/gc_pause.h"

namespace mica {
namespace {

PyRef Flag(bool value) { return PyRef::Share(value ? Py_True : Py_False); }

PyRef Number(int64_t number) {
  return PyRef::Steal(PyLong_FromLongLong(number));
}

PyRef Texts(const std::vector<std::string>& texts) {
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const std::string& text : texts) {
    PyRef item = Text(text);
    if (!list || !item || PyList_Append(list.get(), item.get()) != 0) {
      return PyRef();
    }
  }
  return list;
}

// Repeated layers that were decided for once: name, ops and calls of each.
PyRef Functions(const Plan& plan) {
  std::vector<std::pair<const Program*, int64_t>> counts;
  for (const CallSite& call : plan.calls()) {
    if (call.caller >= 0) continue;  // Part of another function.
    const auto it = absl::c_find_if(counts, [&call](const auto& known) {
      return known.first == call.function;
    });
    if (it == counts.end()) {
      counts.emplace_back(call.function, 1);
    } else {
      ++it->second;
    }
  }
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const auto& [function, count] : counts) {
    int64_t num_ops = 0;
    ForEachCalledOp(*function, [&num_ops](const Op&) { ++num_ops; });
    PyRef item = PyRef::Steal(Py_BuildValue("(sLL)", function->name().c_str(),
                                            static_cast<long long>(num_ops),
                                            static_cast<long long>(count)));
    if (!list || !item || PyList_Append(list.get(), item.get()) != 0) {
      return PyRef();
    }
  }
  return list;
}

PyRef Counts(const std::map<std::string, int64_t>& counts) {
  PyRef dict = PyRef::Steal(PyDict_New());
  for (const auto& [name, count] : counts) {
    if (!dict || !Put(dict.get(), name.c_str(), Number(count))) return PyRef();
  }
  return dict;
}

// (relative, cosine, why products weren't measured, a list of products, each
// (where, scope, n, k, precision, relative, cosine)); None if nothing was
// measured.
PyRef ErrorOf(const PrecisionError& error) {
  if (!error.is_measured) return PyRef::Share(Py_None);
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const PrecisionError::Product& product : error.products) {
    PyRef item = PyRef::Steal(Py_BuildValue(
        "(ssLLsdd)", product.where.c_str(), product.scope.c_str(),
        static_cast<long long>(product.n), static_cast<long long>(product.k),
        product.precision.c_str(), product.error.relative,
        product.error.cosine));
    if (!list || !item || PyList_Append(list.get(), item.get()) != 0) {
      return PyRef();
    }
  }
  return PyRef::Steal(Py_BuildValue("(ddsN)", error.worst.relative,
                                    error.worst.cosine, error.failure.c_str(),
                                    list.release()));
}

bool PutWeights(const Graph::Weights& weights, PyObject* d) {
  return Put(d, "packed_bytes", Number(weights.packed_bytes)) &&
         Put(d, "offloaded_bytes", Number(weights.offloaded_bytes)) &&
         Put(d, "foreign_bytes", Number(weights.foreign_bytes)) &&
         Put(d, "not_offloaded", Text(weights.error));
}

// The state's tensors by their names in the Program.
PyRef Variables(const Record& record) {
  PyRef dict = PyRef::Steal(PyDict_New());
  const auto variables = record.graph().program().variables();
  const std::vector<PyRef> states = record.states();
  for (size_t i = 0; i < states.size(); ++i) {
    if (!states[i]) continue;
    if (!dict || !Put(dict.get(), variables[i].name.c_str(), states[i])) {
      return PyRef();
    }
  }
  return dict;
}

// The sizes that vary, as Python has them.
std::vector<std::string> SizesOf(const Record& record) {
  std::vector<std::string> names = record.NumbersOfSizes();
  for (const InputGuards::Tensor& tensor : record.inputs().tensors()) {
    for (const int dim : tensor.open) {
      names.push_back(absl::StrCat(tensor.path, ".shape[", dim, "]"));
    }
  }
  return names;
}

PyRef ReportRecord(const Record& record) {
  const Graph& graph = record.graph();
  std::vector<std::string> ops;
  std::map<std::string, int64_t> opaque;
  ForEachCalledOp(graph.plan().program(), [&](const Op& op) {
    ops.push_back(op.def->name());
    if (op.def->is_opaque()) ++opaque[op.def->name()];
  });
  std::map<std::string, int64_t> kernels;
  for (const Step& step : graph.plan().steps()) {
    ++kernels[std::string(step.kernel.substr(0, step.kernel.find('.')))];
  }
  std::vector<std::string> calls;
  for (const TapeCall& call : graph.tape().calls) calls.push_back(call.op);
  PyRef dict = PyRef::Steal(PyDict_New());
  if (!dict) return PyRef();
  PyObject* d = dict.get();
  // Both at once: what is made of them may let objects go.
  std::vector<std::string> kinds;
  const std::vector<std::string> guards = record.GuardsToText(&kinds);
  std::vector<std::string> backward;
  int64_t num_kept = 0;
  if (record.backward() != nullptr) {
    num_kept = record.backward()->num_kept();
    for (const BackwardPass::Part& part : record.backward()->parts()) {
      ForEachCalledOp(part.graph->plan().program(), [&](const Op& op) {
        backward.push_back(op.def->name());
      });
    }
  }
  const bool ok =
      Put(d, "precision_error", ErrorOf(graph.precision_error())) &&
      Put(d, "calls", Texts(calls)) &&
      Put(d, "backward_ops", Texts(backward)) &&
      Put(d, "num_kept", Number(num_kept)) && Put(d, "ops", Texts(ops)) &&
      Put(d, "inaccuracy", Text(graph.inaccuracy())) &&
      Put(d, "opaque", Counts(opaque)) &&
      Put(d, "functions", Functions(graph.plan())) &&
      Put(d, "kernels", Counts(kernels)) &&
      Put(d, "variables", Variables(record)) &&
      Put(d, "guards", Texts(guards)) && Put(d, "guard_kinds", Texts(kinds)) &&
      Put(d, "effects", Texts(record.EffectsToText())) &&
      Put(d, "sizes", Texts(SizesOf(record))) &&
      Put(d, "num_sizes",
          Number(record.sizes() == nullptr ? 1 : record.sizes()->num_runs())) &&
      Put(d, "num_ways",
          Number(record.ways() == nullptr ? 1 : record.ways()->num_runs())) &&
      Put(d, "num_forks",
          Number(record.ways() == nullptr ? 0 : record.ways()->num_forks())) &&
      Put(d, "num_watched", Number(record.num_watched())) &&
      Put(d, "hits", Number(record.hits)) &&
      Put(d, "hit_ns", Number(record.hit_times.fastest_ns)) &&
      Put(d, "watched_ns", Number(record.watched_ns)) &&
      Put(d, "program", Text(ToText(graph.program()))) &&
      Put(d, "plan", Text(graph.plan().ToText())) &&
      Put(d, "arena_bytes", Number(graph.plan().arena_bytes())) &&
      Put(d, "live_set_bytes", Number(graph.plan().live_set_bytes())) &&
      PutWeights(graph.weights(), d);
  return ok ? dict : PyRef();
}

// Null, with a Python error set, if either is.
PyObject* Pair(PyRef first, PyRef second) {
  if (!first || !second) return nullptr;
  return PyTuple_Pack(2, first.get(), second.get());
}

}  // namespace

PyObject* Compiled::Describe() const {
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const auto& record : records_) {
    const PyRef item = DescribeRecord(*record);
    if (!list || !item || PyList_Append(list.get(), item.get()) != 0) {
      return nullptr;
    }
  }
  return list.release();
}

PyObject* Compiled::Symbolic(absl::Span<const NamedSize> open,
                             absl::Span<const int> results, int num_numbers,
                             const CallArgs& args) const {
  const std::shared_ptr<Record> record = Fitting(args);
  const absl::StatusOr<Program> program =
      record == nullptr
          ? absl::FailedPreconditionError("no record fits the call")
          : SymbolicProgram(*record, open, results, num_numbers);
  if (program.ok()) return Text(ToText(*program)).release();
  PyErr_SetString(PyExc_NotImplementedError,
                  std::string(program.status().message()).c_str());
  return nullptr;
}

PyObject* Compiled::Touched(const CallArgs& args) const {
  const TorchState now = TorchState::Current();
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const auto& record : records_) {
    Record::BoundCall bound;
    // What was found to be alive is so until it is told.
    const GcPause pause;
    if (!record->Matches(args, now, &bound, nullptr)) continue;
    const PyRef item = DescribeTouched(*record);
    if (!list || !item || PyList_Append(list.get(), item.get()) != 0) {
      return nullptr;
    }
  }
  return list.release();
}

PyObject* Compiled::Rehearse(const CallArgs& args) {
  const TorchState now = TorchState::Current();
  for (size_t i = 0; i < records_.size(); ++i) {
    const std::shared_ptr<Record> record = records_[i];
    PyRef result;
    Rehearsal rehearsal;
    Record::RaisedCall raised;
    switch (record->Serve(args, now, &result, nullptr, &raised, &rehearsal)) {
      case Record::Outcome::kHit:
        NoteHit(record);
        readings_ = std::move(rehearsal.readings);
        return Pair(std::move(result), DescribeCalls(rehearsal.calls));
      case Record::Outcome::kMiss:
      case Record::Outcome::kDiscarded:
        continue;
      case Record::Outcome::kFailed:
      case Record::Outcome::kRaised:
        Py_RETURN_NONE;
    }
  }
  Py_RETURN_NONE;
}

PyObject* Compiled::Watch(const CallArgs& args) {
  PyRef result;
  Rehearsal rehearsal{.readings = std::exchange(readings_, {})};
  const Refusal refusal = Record::Watch(callable_.get(), args, options_.capture,
                                        &result, &rehearsal);
  if (!result) return nullptr;
  if (!refusal) return Pair(std::move(result), DescribeCalls(rehearsal.calls));
  return Pair(std::move(result),
              PyRef::Steal(PyUnicode_FromString(refusal.ToString().c_str())));
}

std::shared_ptr<Record> Compiled::Fitting(const CallArgs& args) const {
  const TorchState now = TorchState::Current();
  for (const auto& record : records_) {
    if (record->Fits(args, now)) return record;
  }
  return nullptr;
}

MICA_HIT_CODE bool Compiled::Matches(const CallArgs& args) const {
  if (records_.empty()) return false;
  records_[0]->Prefetch();
  return records_[0]->Fits(args, TorchState::Current());
}

PyObject* Compiled::Describe(const CallArgs& args) const {
  const std::shared_ptr<Record> record = Fitting(args);
  if (record == nullptr) Py_RETURN_NONE;
  return DescribeRecord(*record).release();
}

PyObject* Compiled::Report() const {
  PyRef dict = PyRef::Steal(PyDict_New());
  PyRef records = PyRef::Steal(PyList_New(0));
  if (!dict || !records) return nullptr;
  for (const auto& record : records_) {
    PyRef item = ReportRecord(*record);
    if (!item || PyList_Append(records.get(), item.get()) != 0) return nullptr;
  }
  const auto counted = [](const std::map<std::string, Counted>& items) {
    PyRef list = PyRef::Steal(PyList_New(0));
    for (const auto& [key, item] : items) {
      PyRef tuple = PyRef::Steal(Py_BuildValue(
          "(NNL)", Text(item.text).release(), Text(item.mend).release(),
          static_cast<long long>(item.count)));
      if (!list || !tuple || PyList_Append(list.get(), tuple.get()) != 0) {
        return PyRef();
      }
    }
    return list;
  };
  PyRef kinds = PyRef::Steal(PyDict_New());
  for (const auto& [kind, count] : misses_by_kind_) {
    if (!kinds || !Put(kinds.get(), kind.c_str(), Number(count)))
      return nullptr;
  }
  PyObject* d = dict.get();
  const bool ok =
      Put(d, "miss_kinds", kinds) && Put(d, "dropped", Number(dropped_)) &&
      Put(d, "drops", counted(drops_)) && Put(d, "name", Text(title())) &&
      Put(d, "records", records) && Put(d, "refusals", counted(refusals_)) &&
      Put(d, "misses", counted(misses_)) &&
      Put(d, "fixed_sizes", Text(why_fixed_)) &&
      Put(d, "given_up", Text(WhyEager())) && Put(d, "hits", Number(hits_)) &&
      Put(d, "captures", Number(captures_)) &&
      Put(d, "eager_calls", Number(eager_calls_)) &&
      Put(d, "exact", Flag(options_.capture.graph.exact)) &&
      Put(d, "frozen", Flag(options_.capture.graph.frozen)) &&
      Put(d, "precision",
          Text(std::string(PrecisionName(options_.capture.graph.precision)))) &&
      Put(d, "split_calls", Number(split_calls_)) &&
      Put(d, "last_graphs",
          Number(splits_ == nullptr ? 0 : splits_->events().graphs)) &&
      (splits_ != nullptr
           ? splits_->Report(d)
           : Put(d, "pieces", Texts({})) && Put(d, "graph_breaks", Texts({})) &&
                 Put(d, "unsplit", Texts({})));
  return ok ? dict.release() : nullptr;
}

}  // namespace mica
