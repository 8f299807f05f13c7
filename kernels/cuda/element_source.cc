#include "kernels/cuda/element_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/calls.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

constexpr int64_t kThreads = ElementSource::kThreads;
constexpr int64_t kElementsOfThread = 4;

// ForEachPick() with names.
template <typename F>
void ForEachNamedPick(const ElementLoop& loop, F&& visit) {
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    for (size_t k = 0; k < loop.inputs[i].picks.size(); ++k) {
      visit(loop.inputs[i].picks[k], absl::StrCat("pick", i, "_", k));
    }
  }
}

bool HasPicks(const ElementLoop& loop) {
  bool has = false;
  ForEachPick(loop, [&](const Pick&) { has = true; });
  return has;
}

// All arrays and numbers over the loop's dims, and what their offsets are
// called.
struct Places {
  Loop loop;
  std::vector<std::string> names;
  size_t first_output = 0;

  void Add(const Dims& strides, std::string name) {
    loop.strides.push_back(strides);
    names.push_back(std::move(name));
  }
};

Places PlacesOf(const ElementLoop& loop) {
  Places places{.loop = {.dims = loop.dims}};
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    places.Add(loop.inputs[i].strides, absl::StrCat("o", i));
  }
  ForEachNamedPick(loop, [&](const Pick& pick, const std::string& name) {
    places.Add(pick.strides, absl::StrCat("at_", name));
  });
  places.first_output = places.names.size();
  for (size_t i = 0; i < loop.outputs.size(); ++i) {
    places.Add(loop.outputs[i].strides, absl::StrCat("p", i));
  }
  for (const auto& [name, strides] : loop.numbers) places.Add(strides, name);
  places.loop = Simplify(places.loop, places.first_output);
  return places;
}

std::string Parameters(const ElementLoop& loop) {
  std::vector<std::string> all;
  for (size_t i = 0; i < loop.inputs.size(); ++i) {
    all.push_back(
        absl::StrCat("const ", ElementName(loop.inputs[i].dtype), "* in", i));
  }
  ForEachNamedPick(loop, [&](const Pick& pick, const std::string& name) {
    all.push_back(absl::StrCat("const ", ElementName(pick.dtype), "* ", name));
  });
  for (size_t i = 0; i < loop.outputs.size(); ++i) {
    all.push_back(absl::StrCat(ElementName(loop.outputs[i].dtype), "* out", i));
  }
  if (HasPicks(loop)) all.emplace_back(kErrorParameters);
  return absl::StrJoin(all, ", ");
}

// The number of an operand's element, converted as torch converts: what goes
// through an integer type wraps there.
std::string NumberOf(const ElementLoop& loop, const std::string& element) {
  if (loop.keeps_types) return element;
  const DType compute = loop.compute;
  if (compute == DType::kBool) return absl::StrCat(element, " != 0");
  if (IsFloating(compute)) return absl::StrCat("(number)", element);
  const std::string value = absl::StrCat("put<long long>(", element, ")");
  if (compute == DType::kI64) return value;
  return absl::StrCat("(", ElementName(compute), ")", value);
}

// Statements that load input `i` to its place among all turns'.
std::string LoadCode(const ElementLoop& loop, size_t i) {
  const ElementArray& input = loop.inputs[i];
  std::string code, offset = absl::StrCat("o", i), is_legal;
  for (size_t k = 0; k < input.picks.size(); ++k) {
    const Pick& pick = input.picks[k];
    const std::string name = absl::StrCat("pick", i, "_", k);
    const std::string at = absl::StrCat("index", i, "_", k);
    absl::StrAppend(&code, "    long long ", at, " = put<long long>(get(", name,
                    "[at_", name, "]));\n");
    if (pick.takes_negative) {
      absl::StrAppend(&code, "    if (", at, " < 0) ", at, " += ", pick.size,
                      ";\n");
    }
    absl::StrAppend(&is_legal, k == 0 ? "" : " && ", at, " >= 0 && ", at, " < ",
                    pick.size);
    absl::StrAppend(&offset, " + ", at, " * ", IntegerLiteral(pick.stride));
  }
  const std::string value =
      NumberOf(loop, absl::StrCat("get(in", i, "[", offset, "])"));
  if (is_legal.empty()) {
    return absl::StrCat("    all", i, "[turn] = ", value, ";\n");
  }
  return absl::StrCat(code, "    all", i, "[turn] = 0;\n    if (", is_legal,
                      ") {\n      all", i, "[turn] = ", value,
                      ";\n    } else {\n      ", kTellIndexError, "\n    }\n");
}

std::string SourceOf(const ElementLoop& loop, const Places& places) {
  const size_t num_inputs = loop.inputs.size();
  const int64_t count = places.loop.size();
  const absl::string_view index = IndexName(count);
  std::string code = absl::StrCat(
      Prelude(), "typedef ", NumberName(loop.compute),
      " number;\nextern \"C\" __global__ void __launch_bounds__(", kThreads,
      ") ", kEntry, "(", Parameters(loop), ") {\n  const ", index, " first = (",
      index, ")blockIdx.x * ", kThreads * kElementsOfThread,
      " + threadIdx.x;\n");
  const std::string head = absl::StrCat(
      "#pragma unroll\n  for (int turn = 0; turn < ", kElementsOfThread,
      "; ++turn) {\n    const ", index, " i = first + turn * ", kThreads,
      ";\n    if (i >= ", count, ") break;\n",
      OffsetsOf(places.loop, "i", places.names, "i"));
  // All loads come first, so that they are under way together.
  for (size_t i = 0; i < num_inputs; ++i) {
    absl::StrAppend(
        &code, "  ",
        loop.keeps_types ? absl::StrCat("decltype(get(*in", i, "))") : "number",
        " all", i, "[", kElementsOfThread, "];\n");
  }
  if (num_inputs > 0) {
    absl::StrAppend(&code, head);
    for (size_t i = 0; i < num_inputs; ++i) {
      absl::StrAppend(&code, LoadCode(loop, i));
    }
    absl::StrAppend(&code, "  }\n");
  }
  absl::StrAppend(&code, head);
  for (size_t i = 0; i < num_inputs; ++i) {
    absl::StrAppend(&code, "    const auto x", i, " = all", i, "[turn];\n");
  }
  absl::StrAppend(&code, loop.body);
  for (size_t i = 0; i < loop.outputs.size(); ++i) {
    absl::StrAppend(&code, "    const auto y", i, " = ",
                    loop.keeps_types ? "(" : "(number)(", loop.results[i],
                    ");\n");
  }
  for (size_t i = 0; i < loop.outputs.size(); ++i) {
    absl::StrAppend(&code, "    out", i, "[p", i, "] = put<",
                    ElementName(loop.outputs[i].dtype), ">(y", i, ");\n");
  }
  return absl::StrCat(code, "  }\n}\n");
}

// How many elements, which follow each other, a thread moves at once: as many
// as 16 bytes hold of the widest; 1 where they don't follow each other, or
// indices say where they are.
int WidthOf(const ElementLoop& loop, const Places& places) {
  if (HasPicks(loop) || places.loop.dims.empty()) return 1;
  int64_t widest = 1;
  for (const auto* list : {&loop.inputs, &loop.outputs}) {
    for (const ElementArray& array : *list) {
      widest = std::max(widest, ElementBytes(array.dtype));
    }
  }
  const int64_t width = std::min<int64_t>(16 / widest, 8);
  const size_t last = places.loop.dims.size() - 1;
  if (width < 2 || places.loop.dims[last] % width != 0) return 1;
  const size_t num_arrays = places.first_output + loop.outputs.size();
  for (size_t k = 0; k < num_arrays; ++k) {
    const Dims& strides = places.loop.strides[k];
    if (strides[last] != 0 && strides[last] != 1) return 1;
    for (size_t d = 0; d < last; ++d) {
      if (strides[last] == 1 && strides[d] % width != 0) return 1;
    }
  }
  for (size_t k = places.first_output; k < num_arrays; ++k) {
    if (places.loop.strides[k][last] != 1) return 1;
  }
  return static_cast<int>(width);
}

constexpr int64_t kVectorsOfThread = 2;

// As SourceOf(), by vectors of `width` elements.
std::string VectorSourceOf(const ElementLoop& loop, const Places& places,
                           int width) {
  const size_t num_inputs = loop.inputs.size();
  const size_t last = places.loop.dims.size() - 1;
  const int64_t count = places.loop.size() / width;
  const absl::string_view index = IndexName(places.loop.size());
  const auto is_spread = [&](size_t i) {
    return places.loop.strides[i][last] == 0;
  };
  std::string aligned = "0";
  for (size_t i = 0; i < num_inputs; ++i) {
    if (!is_spread(i))
      absl::StrAppend(&aligned, " | (unsigned long long)in", i);
  }
  for (size_t i = 0; i < loop.outputs.size(); ++i) {
    absl::StrAppend(&aligned, " | (unsigned long long)out", i);
  }
  std::string code = absl::StrCat(
      Prelude(), "typedef ", NumberName(loop.compute),
      " number;\n#define WIDTH ", width,
      "\nextern \"C\" __global__ void __launch_bounds__(", kThreads, ") ",
      kEntry, "(", Parameters(loop), ") {\n  const bool is_aligned = ((",
      aligned, ") % 16) == 0;\n  const ", index, " first = (", index,
      ")blockIdx.x * ", kThreads * kVectorsOfThread, " + threadIdx.x;\n");
  for (size_t i = 0; i < num_inputs; ++i) {
    const absl::string_view element = ElementName(loop.inputs[i].dtype);
    absl::StrAppend(&code, "  ",
                    is_spread(i) ? std::string(element)
                                 : absl::StrCat("Vec<", element, ", WIDTH>"),
                    " all", i, "[", kVectorsOfThread, "];\n");
  }
  const std::string head = absl::StrCat(
      "#pragma unroll\n  for (int turn = 0; turn < ", kVectorsOfThread,
      "; ++turn) {\n    const ", index, " vector = first + turn * ", kThreads,
      ";\n    if (vector >= ", count, ") break;\n    const ", index,
      " i = vector * WIDTH;\n", OffsetsOf(places.loop, "i", places.names, "i"));
  absl::StrAppend(&code, head);
  for (size_t i = 0; i < num_inputs; ++i) {
    absl::StrAppend(&code, "    all", i, "[turn] = ");
    if (is_spread(i)) {
      absl::StrAppend(&code, "in", i, "[o", i, "];\n");
    } else {
      absl::StrAppend(&code, "load_vec<WIDTH>(in", i, " + o", i,
                      ", is_aligned);\n");
    }
  }
  absl::StrAppend(&code, "  }\n", head);
  for (size_t i = 0; i < loop.outputs.size(); ++i) {
    absl::StrAppend(&code, "    Vec<", ElementName(loop.outputs[i].dtype),
                    ", WIDTH> made", i, ";\n");
  }
  absl::StrAppend(&code,
                  "#pragma unroll\n    for (int w = 0; w < WIDTH; ++w) {\n");
  for (size_t i = 0; i < num_inputs; ++i) {
    absl::StrAppend(
        &code, "    const auto x", i, " = ",
        NumberOf(loop, absl::StrCat("get(all", i, "[turn]",
                                    is_spread(i) ? "" : ".at[w]", ")")),
        ";\n");
  }
  for (size_t k = 0; k < loop.numbers.size(); ++k) {
    const size_t at = places.first_output + loop.outputs.size() + k;
    absl::StrAppend(&code, "    const long long ", loop.numbers[k].first,
                    " = from_", loop.numbers[k].first, " + w * ",
                    IntegerLiteral(places.loop.strides[at][last]), ";\n");
  }
  absl::StrAppend(&code, loop.body);
  for (size_t i = 0; i < loop.outputs.size(); ++i) {
    absl::StrAppend(&code, "    const auto y", i, " = ",
                    loop.keeps_types ? "(" : "(number)(", loop.results[i],
                    ");\n");
  }
  for (size_t i = 0; i < loop.outputs.size(); ++i) {
    absl::StrAppend(&code, "    made", i, ".at[w] = put<",
                    ElementName(loop.outputs[i].dtype), ">(y", i, ");\n");
  }
  absl::StrAppend(&code, "    }\n");
  for (size_t i = 0; i < loop.outputs.size(); ++i) {
    absl::StrAppend(&code, "    store_vec<WIDTH>(out", i, " + p", i, ", made",
                    i, ", is_aligned);\n");
  }
  return absl::StrCat(code, "  }\n}\n");
}

}  // namespace

ElementSource MakeElementSource(const ElementLoop& loop) {
  Places places = PlacesOf(loop);
  const int64_t count = places.loop.size();
  const int width = WidthOf(loop, places);
  if (width == 1) {
    return {.text = SourceOf(loop, places),
            .num_blocks = BlocksFor(count, kThreads * kElementsOfThread)};
  }
  // Numbers of a vector's first element; each has its own.
  for (size_t k = 0; k < loop.numbers.size(); ++k) {
    std::string& name =
        places.names[places.first_output + loop.outputs.size() + k];
    name = absl::StrCat("from_", name);
  }
  return {.text = VectorSourceOf(loop, places, width),
          .num_blocks = BlocksFor(count, kThreads * kVectorsOfThread * width)};
}

}  // namespace mica::cuda
