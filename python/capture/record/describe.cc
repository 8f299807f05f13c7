#include "python/capture/record/describe.h"

#include <cmath>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/text/text.h"

namespace mica {
namespace {

PyRef ToText(absl::string_view text) {
  return PyRef::Steal(PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

PyRef ToNumber(int64_t number) {
  return PyRef::Steal(PyLong_FromLongLong(number));
}

// A list of what `make` gives of each item; null after an error.
template <typename Items, typename Make>
PyRef ToList(const Items& items, const Make& make) {
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const auto& item : items) {
    const PyRef made = make(item);
    if (!list || !made || PyList_Append(list.get(), made.get()) != 0) {
      return PyRef();
    }
  }
  return list;
}

template <typename Items>
PyRef ToNumbers(const Items& items) {
  return ToList(items, [](int64_t item) { return ToNumber(item); });
}

PyRef Objects(const std::vector<PyRef>& objects) {
  return ToList(objects, [](const PyRef& object) { return object; });
}

// A tuple of parts none of which may be null.
PyRef ToTuple(std::vector<PyRef> parts) {
  PyRef tuple = PyRef::Steal(PyTuple_New(static_cast<int>(parts.size())));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!tuple || !parts[i]) return PyRef();
    PyTuple_SET_ITEM(tuple.get(), static_cast<int>(i), parts[i].release());
  }
  return tuple;
}

PyRef OrNone(const PyRef& object) {
  return object ? object : PyRef::Share(Py_None);
}

}  // namespace

// Reads what the classes of a record keep to themselves.
class RecordDescriber {
 public:
  using Alive = StateGuards::Alive;

  static PyRef Inputs(const InputGuards& inputs, const Alive& alive) {
    return ToList(inputs.nodes_, [&](const InputGuards::Node& node) {
      return ToTuple({ToText(NameOf(node.kind)),
                      OrNone(node.value ? alive.Share(node.value.get())
                                        : alive.Share(node.type.get())),
                      ToNumber(node.index), Objects(node.keys),
                      Objects(node.names), ToNumbers(node.children),
                      ToText(node.path)});
    });
  }

  static PyRef Results(const ResultTree& tree, const Alive& alive) {
    return ToList(tree.nodes_, [&](const ResultTree::Node& node) {
      return ToTuple({ToText(NameOf(node.kind)),
                      OrNone(alive.Share(node.object.get())),
                      ToNumber(node.index), Objects(node.keys),
                      Objects(node.names), ToNumbers(node.children)});
    });
  }

  static PyRef Windows(const Record& record) {
    const Graph& graph = record.graph();
    absl::Span<const Graph::Result> results = graph.results_;
    if (record.backward() != nullptr) {
      results = results.first(record.backward()->num_results());
    }
    return ToList(results, [&](const Graph::Result& result) {
      const LoweredResult& place = result.place;
      const char* source =
          place.source == LoweredResult::Source::kOutput  ? "output"
          : place.source == LoweredResult::Source::kInput ? "input"
                                                          : "variable";
      const TapeTensorId base = place.source == LoweredResult::Source::kInput
                                    ? graph.tape_.inputs[place.index]
                                : place.source == LoweredResult::Source::kState
                                    ? graph.tape_.states[place.index]
                                    : kNoTapeTensor;
      const absl::string_view base_dtype =
          base == kNoTapeTensor
              ? DTypeName(graph.plan().output_type(place.index).dtype)
              : absl::string_view(graph.tape_.tensors[base].dtype);
      const absl::string_view dtype = DTypeName(place.dtype);
      return ToTuple({ToText(source), ToNumber(place.index),
                      ToNumbers(place.sizes), ToNumbers(place.strides),
                      ToNumber(place.offset),
                      ToText(std::string(dtype == base_dtype ? "" : dtype)),
                      ToText(absl::StrCat(place.is_conj ? "conj" : "",
                                          place.is_neg ? "neg" : ""))});
    });
  }

  // Inputs and states with lazy bits, which the Program doesn't know of.
  static PyRef Lazy(const Graph& graph) {
    const Tape& tape = graph.tape_;
    std::vector<std::string> names;
    for (const auto* ids : {&tape.inputs, &tape.states}) {
      for (const TapeTensorId id : *ids) {
        const TapeTensor& tensor = tape.tensors[id];
        if (tensor.is_conj || tensor.is_neg) names.push_back(tensor.name);
      }
    }
    return ToList(names, [](const std::string& name) { return ToText(name); });
  }

  static PyRef Constants(const Graph& graph) {
    return ToList(graph.lowered_.large_constants, [&](TapeTensorId id) {
      const std::string& bytes = *graph.tape_.tensors[id].bytes;
      return PyRef::Steal(PyBytes_FromStringAndSize(
          bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
    });
  }

  // Whether a call only asks if a promoted scalar is one of float32.
  static bool IsRangeCheck(const TapeCall& call) {
    if (call.op != "mica.scalar_le") return false;
    constexpr double kLargest = std::numeric_limits<float>::max();
    return absl::c_any_of(call.args, [](const TapeValue& arg) {
      const auto* number = std::get_if<double>(&arg);
      return number != nullptr && std::fabs(*number) == kLargest;
    });
  }

  static PyRef HostReads(const Graph& graph) {
    std::vector<Graph::HostRead> reads;
    for (const Graph::HostRead& read : graph.host_reads_) {
      if (!IsRangeCheck(graph.tape_.calls[read.call])) reads.push_back(read);
    }
    return ToList(reads, [&](const Graph::HostRead& read) {
      const TapeCall& call = graph.tape_.calls[read.call];
      return ToText(absl::StrCat(call.file, ":", call.line));
    });
  }

  static PyRef Numbers(const HostInputs& inputs, const Alive& alive) {
    return ToList(inputs.sources(), [&](const NumberSource& source) {
      PyObject* now = source.dict && alive.Has(source.dict.get())
                          ? source.FindItem()
                          : source.recorded.get();
      return ToTuple({ToNumber(source.node), ToText(source.note.path),
                      OrNone(PyRef::Share(now))});
    });
  }

  static PyRef LostGradients(const Gradients& gradients) {
    std::vector<std::string> names;
    for (const Gradients::Leaf& leaf : gradients.leaves()) {
      if (!leaf.is_kept) names.push_back(absl::StrCat(leaf.name, ".grad"));
    }
    return ToList(names, [](const std::string& name) { return ToText(name); });
  }

  static PyRef All(const Record& record) {
    const Graph& graph = record.graph();
    const Alive alive = record.guards_.FindAlive();
    PyRef dict = PyRef::Steal(PyDict_New());
    // Both at once: what is made of them may let objects go.
    std::vector<std::string> kinds;
    const std::vector<std::string> guards = record.GuardsToText(&kinds);
    const auto put = [&](const char* key, const PyRef& value) {
      return dict && value &&
             PyDict_SetItemString(dict.get(), key, value.get()) == 0;
    };
    const bool ok =
        put("program", ToText(mica::ToText(graph.program()))) &&
        put("inputs", Inputs(record.inputs_, alive)) &&
        put("roots", ToNumbers(record.inputs_.roots_)) &&
        put("keywords", OrNone(record.inputs_.keyword_names_)) &&
        put("results", Results(record.result_, alive)) &&
        put("result_root", ToNumber(record.result_.root_)) &&
        put("windows", Windows(record)) && put("lazy", Lazy(graph)) &&
        put("states", ToList(record.states(), OrNone)) &&
        put("lost_gradients", LostGradients(record.gradients_)) &&
        put("effects",
            ToList(record.EffectsToText(),
                   [](const std::string& line) { return ToText(line); })) &&
        put("slots", ToList(record.slots_.places(),
                            [](const StatePlace& place) {
                              return ToText(place.note.path);
                            })) &&
        put("guards",
            ToList(guards,
                   [](const std::string& line) { return ToText(line); })) &&
        put("guard_kinds",
            ToList(kinds,
                   [](const std::string& kind) { return ToText(kind); })) &&
        put("hits", ToNumber(record.hits)) &&
        put("constants", Constants(graph)) &&
        put("numbers", Numbers(record.host_inputs_, alive)) &&
        put("number_outputs",
            ToNumbers(absl::MakeConstSpan(graph.lowered_.host_results)
                          .first(record.result_.numbers().size()))) &&
        put("number_ints", ToList(record.result_.numbers(),
                                  [&](int32_t id) {
                                    return PyRef::Share(
                                        IsInt(record, id) ? Py_True : Py_False);
                                  })) &&
        put("host_reads", HostReads(graph));
    return ok ? dict : PyRef();
  }

  // Whether a number that the program computes is of Python's int.
  static bool IsInt(const Record& record, int32_t id) {
    const TapeHostValue& value = record.graph().tape_.host_values[id];
    if (value.size < 0 || record.sizes() == nullptr) {
      return value.kind == TapeHostValue::Kind::kOp &&
             absl::StartsWith(value.op, "mica.int_");
    }
    const std::string& op =
        record.sizes()->made().facts().numbers[value.size].op;
    return op.empty() || absl::StartsWith(op, "mica.int_");
  }

  static PyRef Calls(absl::Span<const HostCall> calls) {
    return ToList(calls, [](const HostCall& call) {
      return ToTuple({call.callable, ToList(call.args, OrNone),
                      OrNone(call.keyword_names), ToText(call.note.path)});
    });
  }

  static PyRef Touched(const Record& record) {
    PyRef dict = PyRef::Steal(PyDict_New());
    const auto put = [&](const char* key, const PyRef& value) {
      return dict && value &&
             PyDict_SetItemString(dict.get(), key, value.get()) == 0;
    };
    const Alive alive = record.guards_.FindAlive();
    std::vector<PyRef> leaves;
    for (const Gradients::Leaf& leaf : record.gradients_.leaves()) {
      if (!leaf.tensor || !alive.Has(leaf.tensor.get())) continue;
      leaves.push_back(PyRef::Share(leaf.tensor.get()));
    }
    bool asks = false;
    for (const Draw& draw : record.draws_.draws()) {
      asks |= draw.kind != Draw::Kind::kGenerator;
    }
    const bool ok =
        put("states", ToList(record.states(), OrNone)) &&
        put("leaves", Objects(leaves)) &&
        put("calls",
            PyRef::Share(!record.effects_.has_calls() && !asks ? Py_False
                                                               : Py_True)) &&
        put("generators", ToList(record.draws_.generators(), OrNone)) &&
        put("written",
            ToList(record.effects_.places(),
                   [](const StatePlace& place) {
                     return ToTuple({ToText(place.note.path),
                                     PyRef::Share(place.holder.get()),
                                     OrNone(place.key)});
                   })) &&
        put("containers",
            ToList(record.effects_.containers(), [](const LooseRef& container) {
              return PyRef::Share(container.get());
            }));
    return ok ? dict : PyRef();
  }

 private:
  static const char* NameOf(InputGuards::Kind kind) {
    switch (kind) {
      case InputGuards::Kind::kTensor:
        return "tensor";
      case InputGuards::Kind::kArray:
        return "array";
      case InputGuards::Kind::kNumber:
        return "number";
      case InputGuards::Kind::kConstant:
        return "constant";
      case InputGuards::Kind::kTuple:
        return "tuple";
      case InputGuards::Kind::kList:
        return "list";
      case InputGuards::Kind::kDeque:
        return "deque";
      case InputGuards::Kind::kDict:
        return "dict";
      case InputGuards::Kind::kInstance:
        return "instance";
      case InputGuards::Kind::kSame:
        return "same";
      default:
        return "object";
    }
  }

  static const char* NameOf(ResultTree::Kind kind) {
    switch (kind) {
      case ResultTree::Kind::kTensor:
        return "tensor";
      case ResultTree::Kind::kInput:
        return "argument";
      case ResultTree::Kind::kDrawn:
        return "array";
      case ResultTree::Kind::kNumber:
      case ResultTree::Kind::kNaN:
        return "number";
      case ResultTree::Kind::kText:
        return "text";
      case ResultTree::Kind::kSame:
        return "same";
      case ResultTree::Kind::kTuple:
        return "tuple";
      case ResultTree::Kind::kList:
        return "list";
      case ResultTree::Kind::kDeque:
        return "deque";
      case ResultTree::Kind::kDict:
        return "dict";
      case ResultTree::Kind::kSet:
        return "set";
      case ResultTree::Kind::kInstance:
        return "instance";
      default:
        return "object";
    }
  }
};

PyRef DescribeRecord(const Record& record) {
  return RecordDescriber::All(record);
}

PyRef DescribeTouched(const Record& record) {
  return RecordDescriber::Touched(record);
}

PyRef DescribeCalls(absl::Span<const HostCall> calls) {
  return RecordDescriber::Calls(calls);
}

}  // namespace mica
