#include "kernels/cuda/flash_attention.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/calls.h"
#include "kernels/cuda/flash_attention_source.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

constexpr int64_t kRowsOfBlock = 64;
constexpr int64_t kThreads = 128;  // A warp for 16 rows.

// The offset of a batch's and a head's first row, as code, and the rows'
// stride.
std::string Defines(absl::string_view name, const Lane& lane,
                    int64_t heads_of_one = 1) {
  return absl::StrCat("#define ", name,
                      "_AT ((long long)(blockIdx.y / HEADS) * ",
                      lane.strides[0], " + (long long)(blockIdx.y % HEADS / ",
                      heads_of_one, ") * ", lane.strides[1], ")\n#define ",
                      name, "_STRIDE ", lane.strides[2], "LL\n");
}

std::string Head(const FlashOperands& o, int64_t columns) {
  const int64_t head = o.q.dims[3], size = (head + 15) / 16 * 16;
  const int64_t shared = o.q.dims[1] / o.k.dims[1];
  return absl::StrCat(
      Prelude(), "typedef float number;\ntypedef ", ElementName(o.q.dtype),
      " element;\n#define HALF \"", o.q.dtype == DType::kF16 ? "f16" : "bf16",
      "\"\n#define THREADS ", kThreads, "\n#define ROWS ", kRowsOfBlock,
      "\n#define COLUMNS ", columns, "\n#define HEAD ", head, "\n#define SIZE ",
      size, "\n#define STRIDE ", size + 8, "\n#define HEADS ", o.q.dims[1],
      "\n#define QUERIES ", o.q.dims[2], "\n#define KEYS ", o.k.dims[2],
      "\n#define CAUSAL ", o.is_causal ? 1 : 0, "\n#define SCALE ",
      Literal(DType::kF32, o.scale), "\n", Defines("Q", o.q),
      Defines("K", o.k, shared), Defines("V", o.v, shared));
}

CodeCall MakeCall(const Target& target, const FlashOperands& o, int64_t rows,
                  std::string source, std::vector<Ref> params) {
  CodeCall call{.code = Code::Of(target, std::move(source)),
                .params = std::move(params)};
  call.blocks[0] = static_cast<uint32_t>(BlocksFor(rows, kRowsOfBlock));
  call.blocks[1] = static_cast<uint32_t>(o.q.dims[0] * o.q.dims[1]);
  call.threads[0] = kThreads;
  return call;
}

std::string BackwardHead(const FlashOperands& o, const FlashGradient& g) {
  const int64_t columns = o.q.dims[3] <= 64 ? 64 : 16;
  return absl::StrCat(
      Head(o, columns), Defines("G", g.grad), Defines("L", g.log_sum),
      "#define DOTS_AT ((long long)blockIdx.y * QUERIES)\n", kFlashTools);
}

constexpr const char* kBackwardParams =
    "(const element* q, const element* k, const element* v, const element* "
    "grad, const float* log_sum, const float* dots, ";

std::vector<Ref> BackwardRefs(const FlashOperands& o, const FlashGradient& g) {
  return {{.arg = o.q.arg},    {.arg = o.k.arg},       {.arg = o.v.arg},
          {.arg = g.grad.arg}, {.arg = g.log_sum.arg}, g.dots_at};
}

}  // namespace

bool FitsFlash(const Lane& lane, const FlashOperands& o) {
  return lane.dtype == o.q.dtype && lane.dims[3] == o.q.dims[3] &&
         lane.strides[3] == 1 && lane.strides[0] % 8 == 0 &&
         lane.strides[1] % 8 == 0 && lane.strides[2] % 8 == 0;
}

bool FitsFlash(const Target& target, const FlashOperands& o) {
  return target.arch >= 80 && IsHalf(o.q.dtype) && o.q.dims[3] % 8 == 0 &&
         o.q.dims[3] <= 128 && o.q.dims[0] * o.q.dims[1] < 65536 &&
         FitsFlash(o.q, o) && FitsFlash(o.k, o) && FitsFlash(o.v, o);
}

CodeCall MakeFlashForward(const Target& target, const FlashOperands& o,
                          const Lane& out, const Lane& log_sum) {
  const int64_t columns = o.q.dims[3] <= 64 ? 64 : 32;
  return MakeCall(
      target, o, o.q.dims[2],
      absl::StrCat(Head(o, columns), Defines("OUT", out), Defines("L", log_sum),
                   kFlashTools,
                   "extern \"C\" __global__ void __launch_bounds__(", kThreads,
                   ") ", kEntry,
                   "(const element* q, const element* k, const element* v, "
                   "element* out, float* log_sum) {\n",
                   kFlashForward),
      {{.arg = o.q.arg},
       {.arg = o.k.arg},
       {.arg = o.v.arg},
       {.arg = out.arg},
       {.arg = log_sum.arg}});
}

CodeCall MakeFlashBackwardQ(const Target& target, const FlashOperands& o,
                            const FlashGradient& g, const Lane& dq) {
  std::vector<Ref> params = BackwardRefs(o, g);
  params.push_back({.arg = dq.arg});
  return MakeCall(
      target, o, o.q.dims[2],
      absl::StrCat(BackwardHead(o, g), Defines("DQ", dq),
                   "extern \"C\" __global__ void __launch_bounds__(", kThreads,
                   ") ", kEntry, kBackwardParams, "element* dq) {\n",
                   kFlashBackwardQ),
      std::move(params));
}

CodeCall MakeFlashBackwardKV(const Target& target, const FlashOperands& o,
                             const FlashGradient& g, const Lane& dk,
                             const Lane& dv) {
  std::vector<Ref> params = BackwardRefs(o, g);
  params.push_back({.arg = dk.arg});
  params.push_back({.arg = dv.arg});
  return MakeCall(
      target, o, o.k.dims[2],
      absl::StrCat(BackwardHead(o, g), Defines("DK", dk), Defines("DV", dv),
                   "extern \"C\" __global__ void __launch_bounds__(", kThreads,
                   ") ", kEntry, kBackwardParams,
                   "element* dk, element* dv) {\n", kFlashBackwardKV),
      std::move(params));
}

}  // namespace mica::cuda
