#include "kernels/cuda/row_kernel.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

constexpr int64_t kWarp = 32;

// Threads of a row, and rows of a block.
struct Shape {
  int64_t threads = kWarp;
  int64_t rows = 8;
};

Shape ChooseShape(int64_t length) {
  if (length <= 4 * kWarp) return {};
  if (length <= 32 * kWarp) return {.threads = kWarp, .rows = 4};
  int64_t threads = 128;
  while (threads < 1024 && threads * 8 < length) threads *= 2;
  return {.threads = threads, .rows = 1};
}

constexpr absl::string_view kWarpFunctions = R"cuda(
__device__ __forceinline__ number row_sum(number x) {
  for (int by = 16; by > 0; by /= 2) x += __shfl_xor_sync(0xffffffffu, x, by);
  return x;
}
__device__ __forceinline__ number row_max(number x) {
  for (int by = 16; by > 0; by /= 2) {
    x = larger(x, __shfl_xor_sync(0xffffffffu, x, by));
  }
  return x;
}
)cuda";

// Of a whole block: warps, then the warps' results.
constexpr absl::string_view kBlockFunctions = R"cuda(
template <typename F>
__device__ __forceinline__ number over_block(number x, number none, F f) {
  __shared__ number all[32];
  for (int by = 16; by > 0; by /= 2) {
    x = f(x, __shfl_xor_sync(0xffffffffu, x, by));
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < THREADS / 32 ? all[threadIdx.x % 32] : none;
  for (int by = 16; by > 0; by /= 2) {
    x = f(x, __shfl_xor_sync(0xffffffffu, x, by));
  }
  return x;
}
__device__ __forceinline__ number row_sum(number x) {
  return over_block(x, 0, [](number a, number b) { return a + b; });
}
__device__ __forceinline__ number row_max(number x) {
  return over_block(x, -infinity(),
                    [](number a, number b) { return larger(a, b); });
}
)cuda";

std::string Parameters(const RowKernel& kernel) {
  std::string code;
  for (const RowArray& array : kernel.arrays) {
    absl::StrAppend(&code, code.empty() ? "" : ", ",
                    array.is_output ? "" : "const ", ElementName(array.dtype),
                    "* all_", array.name);
  }
  return code;
}

// Definitions of `name(i)` and `put_name(i, x)`.
std::string Accessors(const RowKernel& kernel) {
  std::string code;
  for (const RowArray& array : kernel.arrays) {
    const std::string element =
        absl::StrCat("all_", array.name, "[at_", array.name,
                     " + (long long)(i) * ", array.stride, "LL]");
    if (array.is_output) {
      absl::StrAppend(&code, "#define put_", array.name, "(i, x) ", element,
                      " = put<", ElementName(array.dtype), ">((number)(x))\n");
    } else {
      absl::StrAppend(&code, "#define ", array.name, "(i) ((number)get(",
                      element, "))\n");
    }
  }
  return code;
}

int64_t NumRows(const RowKernel& kernel) {
  return Loop{.dims = kernel.rows}.size();
}

std::string SumDefinitions(const RowKernel& kernel) {
  std::string code;
  for (const std::string& name : kernel.sums) {
    absl::StrAppend(&code, "  number ", name, "[ITEMS];\n  FOR_ROW ", name,
                    "[k] = 0;\n");
  }
  return code;
}

// Adds what the rows of a block have, and writes it.
std::string SumResults(const RowKernel& kernel, const Shape& shape) {
  std::string code;
  for (size_t s = 0; s < kernel.sums.size(); ++s) {
    absl::StrAppend(
        &code,
        "  __syncthreads();\n  FOR_ROW rows[threadIdx.y][i] = ", kernel.sums[s],
        "[k];\n  __syncthreads();\n",
        "  if (threadIdx.y == 0) FOR_ROW {\n    number all = 0;\n",
        "    for (int r = 0; r < ", shape.rows, "; ++r) all += rows[r][i];\n",
        "    partial[((long long)blockIdx.x * ", kernel.sums.size(), " + ", s,
        ") * ", kernel.length, " + i] = all;\n  }\n");
  }
  return code;
}

std::string SourceOf(const RowKernel& kernel, const Shape& shape,
                     int64_t num_parts) {
  Loop loop{.dims = kernel.rows};
  std::vector<std::string> names;
  for (const RowArray& array : kernel.arrays) {
    loop.strides.push_back(array.row_strides);
    names.push_back(absl::StrCat("at_", array.name));
  }
  for (const auto& [name, strides] : kernel.numbers) {
    loop.strides.push_back(strides);
    names.push_back(name);
  }
  const bool has_sums = !kernel.sums.empty();
  const int64_t items = (kernel.length + shape.threads - 1) / shape.threads;
  const absl::string_view index = IndexName(loop.size());
  const std::string first =
      absl::StrCat("(", index, ")blockIdx.x * ", shape.rows, " + threadIdx.y");
  return absl::StrCat(
      Prelude(), "typedef ", NumberName(kernel.compute), " number;\n#define ",
      "THREADS ", shape.threads, "\n#define ITEMS ", items, "\n",
      "#define FOR_ROW _Pragma(\"unroll\") for (int k = 0, i = threadIdx.x; ",
      "k < ITEMS; ++k, i += THREADS) if (i < ", kernel.length, ")\n",
      shape.threads == kWarp ? kWarpFunctions : kBlockFunctions,
      Accessors(kernel), "extern \"C\" __global__ void __launch_bounds__(",
      shape.threads * shape.rows, ") ", kEntry, "(", Parameters(kernel),
      has_sums ? ", number* partial" : "",
      ") {\n  const number length = ", kernel.length, ";\n",
      has_sums
          ? absl::StrCat("  __shared__ number rows[", shape.rows, "][",
                         kernel.length, "];\n", SumDefinitions(kernel),
                         "  for (", index, " row = ", first, "; row < ",
                         loop.size(), "; row += ", shape.rows * num_parts,
                         ") {\n")
          : absl::StrCat("  const ", index, " row = ", first,
                         ";\n  if (row >= ", loop.size(), ") return;\n  {\n"),
      OffsetsOf(loop, "row", names, "d"), kernel.body, "  }\n",
      SumResults(kernel, shape), "}\n");
}

}  // namespace

int64_t NumParts(const Target& target, const RowKernel& kernel) {
  const int64_t rows = ChooseShape(kernel.length).rows;
  const int64_t most = (NumRows(kernel) + 4 * rows - 1) / (4 * rows);
  return std::clamp<int64_t>(most, 1, 4 * target.num_processors);
}

CodeCall MakeRowCall(const Target& target, const RowKernel& kernel) {
  const Shape shape = ChooseShape(kernel.length);
  const int64_t num_parts = NumParts(target, kernel);
  CodeCall call{.code = Code::Of(target, SourceOf(kernel, shape, num_parts))};
  for (const RowArray& array : kernel.arrays) call.params.push_back(array.at);
  if (!kernel.sums.empty()) call.params.push_back(kernel.partial);
  const int64_t blocks = BlocksFor(NumRows(kernel), shape.rows);
  call.blocks[0] =
      static_cast<uint32_t>(kernel.sums.empty() ? blocks : num_parts);
  call.threads[0] = static_cast<uint32_t>(shape.threads);
  call.threads[1] = static_cast<uint32_t>(shape.rows);
  return call;
}

}  // namespace mica::cuda
