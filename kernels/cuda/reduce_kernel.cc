#include "kernels/cuda/reduce_kernel.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

constexpr int64_t kLanes = 32;  // Threads of a warp.
constexpr int64_t kRowsOfBlock = 8;
constexpr int64_t kFieldBytes = 8;

// How threads share the work. Those of one warp read memory that lies together:
// along what is reduced (rows), or along what is kept (columns).
struct Shape {
  bool is_by_columns = false;
  int64_t threads_x = kLanes, threads_y = kRowsOfBlock;
  int64_t outputs_of_block = kRowsOfBlock;
  int64_t splits = 1;  // Blocks that share one output's elements.
};

int64_t ProductOf(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1},
                         std::multiplies<>());
}

// The least stride of a dim that has several elements.
int64_t LeastStride(const Dims& dims, const Dims& strides) {
  int64_t least = INT64_MAX;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] > 1) least = std::min(least, std::abs(strides[d]));
  }
  return least;
}

Shape ChooseShape(const Target& target, const Reduction& r) {
  const int64_t kept = ProductOf(r.kept_dims);
  const int64_t reduced = ProductOf(r.reduced_dims);
  const ReduceInput& input = r.inputs[0];
  Shape shape;
  shape.is_by_columns =
      kept >= kLanes && LeastStride(r.kept_dims, input.kept_strides) <
                            LeastStride(r.reduced_dims, input.reduced_strides);
  if (shape.is_by_columns) {
    shape.outputs_of_block = kLanes;
    shape.threads_y = 16;
  } else if (reduced > 1024) {
    shape.threads_x = 512;
    shape.threads_y = shape.outputs_of_block = 1;
  }
  const int64_t blocks = BlocksFor(kept, shape.outputs_of_block);
  const int64_t of_block =
      shape.is_by_columns ? shape.threads_y : shape.threads_x;
  const int64_t wanted =
      4 * target.num_processors / std::max<int64_t>(blocks, 1);
  const int64_t most = reduced / (of_block * 8);
  shape.splits = std::clamp<int64_t>(std::min(wanted, most), 1, 512);
  return shape;
}

std::string Accumulator(const Reduction& r) {
  std::string fields, starts, downs;
  for (const Reduction::Field& field : r.fields) {
    absl::StrAppend(&fields, "  ", field.type, " ", field.name, ";\n");
    absl::StrAppend(&starts, "  a.", field.name, " = ", field.start, ";\n");
    absl::StrAppend(&downs, "  b.", field.name,
                    " = __shfl_down_sync(0xffffffffu, a.", field.name,
                    ", by);\n");
  }
  return absl::StrCat(
      "typedef ", NumberName(r.compute), " number;\nstruct acc {\n", fields,
      "};\n__device__ __forceinline__ acc start() {\n  acc a;\n", starts,
      "  return a;\n}\n",
      "__device__ __forceinline__ void add(acc& a, number x, ",
      r.elements.size() > 1 ? "number y, " : "", "long long i) {\n  ", r.add,
      "\n}\n",
      "__device__ __forceinline__ void merge(acc& a, const acc& b) {\n  ",
      r.merge, "\n}\n",
      "__device__ __forceinline__ acc down(const acc& a, int by) {\n  acc b;\n",
      downs, "  return b;\n}\n",
      "__device__ __forceinline__ void merge_lanes(acc& a) {\n"
      "  for (int by = 16; by > 0; by /= 2) merge(a, down(a, by));\n}\n");
}

std::string OutputParameters(const Reduction& r) {
  std::string code;
  for (size_t k = 0; k < r.outputs.size(); ++k) {
    absl::StrAppend(&code, ", ", ElementName(r.outputs[k].dtype), "* out", k);
  }
  return code;
}

// Writes the results of `a`, for output number `o`.
std::string Finish(const Reduction& r) {
  Loop loop{.dims = r.kept_dims};
  std::vector<std::string> names;
  for (size_t k = 0; k < r.outputs.size(); ++k) {
    loop.strides.push_back(r.outputs[k].strides);
    names.push_back(absl::StrCat("p", k));
  }
  std::string code = OffsetsOf(loop, "o", names, "k");
  for (size_t k = 0; k < r.outputs.size(); ++k) {
    absl::StrAppend(&code, "    out", k, "[p", k, "] = put<",
                    ElementName(r.outputs[k].dtype), ">(", r.outputs[k].result,
                    ");\n");
  }
  return code;
}

std::string LoadOf(const Reduction& r, size_t k) {
  const std::string element =
      absl::StrCat("get(in", k, "[b", k, " + o", k, "])");
  if (r.compute == DType::kBool) return absl::StrCat(element, " != 0");
  if (IsFloating(r.compute)) return absl::StrCat("(number)", element);
  return absl::StrCat("put<long long>(", element, ")");
}

// Statements that see all elements of output `o` from number `begin` on, in
// steps.
std::string SeeElements(const Reduction& r, absl::string_view begin,
                        absl::string_view step) {
  Loop kept{.dims = r.kept_dims}, reduced{.dims = r.reduced_dims};
  std::vector<std::string> bases, offsets;
  for (size_t k = 0; k < r.inputs.size(); ++k) {
    kept.strides.push_back(r.inputs[k].kept_strides);
    reduced.strides.push_back(r.inputs[k].reduced_strides);
    bases.push_back(absl::StrCat("b", k));
    offsets.push_back(absl::StrCat("o", k));
  }
  std::string code = OffsetsOf(kept, "o", bases, "j");
  const absl::string_view index = IndexName(reduced.size());
  absl::StrAppend(&code, "#pragma unroll 4\n    for (", index, " i = ", begin,
                  "; i < ", reduced.size(), "; i += ", step, ") {\n",
                  OffsetsOf(reduced, "i", offsets, "i"));
  for (size_t k = 0; k < r.inputs.size(); ++k) {
    absl::StrAppend(&code, "    const number x", k, " = ", LoadOf(r, k), ";\n");
  }
  absl::StrAppend(&code, "    add(a");
  for (const std::string& element : r.elements) {
    absl::StrAppend(&code, ", (number)(", element, ")");
  }
  return absl::StrCat(code, ", i);\n    }\n");
}

std::string InputParameters(const Reduction& r) {
  std::string code;
  for (size_t k = 0; k < r.inputs.size(); ++k) {
    absl::StrAppend(&code, k == 0 ? "" : ", ", "const ",
                    ElementName(r.inputs[k].dtype), "* in", k);
  }
  return code;
}

// Merges what the threads of a block have seen into that of its first row.
std::string MergeThreads(const Shape& shape) {
  if (shape.is_by_columns) {
    return absl::StrCat("  __shared__ acc all[", shape.threads_y, "][",
                        shape.threads_x + 1,
                        "];\n  all[threadIdx.y][threadIdx.x] = a;\n"
                        "  for (int by = ",
                        shape.threads_y / 2,
                        "; by > 0; by /= 2) {\n"
                        "    __syncthreads();\n    if (threadIdx.y < by) {\n"
                        "      merge(a, all[threadIdx.y + by][threadIdx.x]);\n"
                        "      all[threadIdx.y][threadIdx.x] = a;\n    }\n  }\n"
                        "  const bool writes = threadIdx.y == 0;\n");
  }
  std::string code = "  merge_lanes(a);\n";
  if (shape.threads_x > kLanes) {
    absl::StrAppend(&code, "  __shared__ acc all[32];\n",
                    "  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = a;\n"
                    "  __syncthreads();\n  a = threadIdx.x < ",
                    shape.threads_x / kLanes,
                    " ? all[threadIdx.x] : start();\n"
                    "  if (threadIdx.x < 32) merge_lanes(a);\n");
  }
  return absl::StrCat(code, "  const bool writes = threadIdx.x == 0;\n");
}

std::string FirstSource(const Reduction& r, const Shape& shape) {
  const int64_t kept = ProductOf(r.kept_dims);
  const absl::string_view own =
      shape.is_by_columns ? "threadIdx.x" : "threadIdx.y";
  const absl::string_view along =
      shape.is_by_columns ? "threadIdx.y" : "threadIdx.x";
  const int64_t width = shape.is_by_columns ? shape.threads_y : shape.threads_x;
  const bool is_last = shape.splits == 1;
  return absl::StrCat(
      Prelude(), Accumulator(r), "extern \"C\" __global__ void ", kEntry, "(",
      InputParameters(r), is_last ? OutputParameters(r) : ", acc* partial",
      ") {\n  const long long count = ", ProductOf(r.reduced_dims),
      ";\n  const ", IndexName(kept), " o = (", IndexName(kept),
      ")blockIdx.x * ", shape.outputs_of_block, " + ", own,
      ";\n  acc a = start();\n  if (o < ", kept, ") {\n",
      SeeElements(r, absl::StrCat("blockIdx.y * ", width, " + ", along),
                  absl::StrCat(width * shape.splits)),
      "  }\n", MergeThreads(shape), "  if (writes && o < ", kept, ") {\n",
      is_last ? Finish(r)
              : absl::StrCat("    partial[(long long)blockIdx.y * ", kept,
                             " + o] = a;\n"),
      "  }\n}\n");
}

// A warp an output merges what the blocks of the first kernel have seen.
std::string SecondSource(const Reduction& r, const Shape& shape) {
  const int64_t kept = ProductOf(r.kept_dims);
  return absl::StrCat(
      Prelude(), Accumulator(r), "extern \"C\" __global__ void ", kEntry,
      "(const acc* partial", OutputParameters(r),
      ") {\n  const long long count = ", ProductOf(r.reduced_dims),
      ";\n  const ", IndexName(kept), " o = (", IndexName(kept),
      ")blockIdx.x * ", kRowsOfBlock,
      " + threadIdx.y;\n"
      "  if (o >= ",
      kept,
      ") return;\n  acc a = start();\n"
      "  for (int i = threadIdx.x; i < ",
      shape.splits,
      "; i += 32) {\n"
      "    merge(a, partial[(long long)i * ",
      kept,
      " + o]);\n  }\n"
      "  merge_lanes(a);\n  if (threadIdx.x == 0) {\n",
      Finish(r), "  }\n}\n");
}

}  // namespace

void AddReduceCalls(const Target& target, const Reduction& r, Scratch& scratch,
                    std::vector<Call>& calls) {
  const int64_t kept = ProductOf(r.kept_dims);
  if (kept == 0 || r.outputs.empty()) return;
  const Shape shape = ChooseShape(target, r);
  CodeCall first{.code = Code::Of(target, FirstSource(r, shape))};
  for (const ReduceInput& input : r.inputs) first.params.push_back(input.at);
  first.blocks[0] =
      static_cast<uint32_t>(BlocksFor(kept, shape.outputs_of_block));
  first.blocks[1] = static_cast<uint32_t>(shape.splits);
  first.threads[0] = static_cast<uint32_t>(shape.threads_x);
  first.threads[1] = static_cast<uint32_t>(shape.threads_y);
  if (shape.splits == 1) {
    for (const ReduceOutput& out : r.outputs) first.params.push_back(out.at);
    calls.push_back(std::move(first));
    return;
  }
  const Ref partial = scratch.Take(kept * shape.splits * kFieldBytes *
                                   static_cast<int64_t>(r.fields.size()));
  first.params.push_back(partial);
  CodeCall second{.code = Code::Of(target, SecondSource(r, shape)),
                  .params = {partial}};
  for (const ReduceOutput& out : r.outputs) second.params.push_back(out.at);
  second.blocks[0] = static_cast<uint32_t>(BlocksFor(kept, kRowsOfBlock));
  second.threads[0] = kLanes;
  second.threads[1] = kRowsOfBlock;
  calls.push_back(std::move(first));
  calls.push_back(std::move(second));
}

}  // namespace mica::cuda
