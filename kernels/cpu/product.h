// float32 matrix products on our own tiles.

#ifndef MICA_KERNELS_CPU_PRODUCT_H_
#define MICA_KERNELS_CPU_PRODUCT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// Rows [k_begin, k_end) of panels [panel_begin, panel_end) of a b that isn't
// float32, panel after panel, as packed floats.
struct WidenPart {
  int64_t panel_begin = 0, panel_end = 0, k_begin = 0, k_end = 0;
};
using WidenFn =
    std::function<void(const void* b, const WidenPart& part, float* packed)>;

// c[i] = act(alpha a[i] b[i] + bias) + residual[i] for i in 0..batch-1, with
// a[m,k], b[k,n], c[m,n], bias[n]. Strides are in elements.
struct ProductSpec {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t a_batch_stride = 0, a_row_stride = 0, a_col_stride = 1;
  int64_t b_batch_stride = 0, b_row_stride = 0, b_col_stride = 1;
  int64_t c_batch_stride = 0, c_row_stride = 0, c_col_stride = 1;
  float alpha = 1.0f;
  bool has_bias = false;
  bool has_residual = false;
  bool residual_is_c = false;  // It is read before c is written there.
  int64_t residual_batch_stride = 0, residual_row_stride = 0;
  Activation activation = Activation::kNone;
  bool is_frozen = false;  // b never changes, and is given packed.
  int num_threads = 1;
  WidenFn widen;           // If set, b is what this reads, block by block,
  int64_t widen_step = 1;  // from a multiple of so many rows on.
};

// From this many products with one b on it pays to pack it first.
inline constexpr int64_t kProductsToPack = 3;

// Scratch memory of different threads, or uses, starts on different cache
// lines.
inline int64_t RoundUpFloats(int64_t floats) { return (floats + 15) / 16 * 16; }

// Where one product's operands lie; bias and residual may be null.
struct ProductArgs {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* bias = nullptr;
  const float* residual = nullptr;
  float* c = nullptr;
  float* scratch = nullptr;
};

// How b gets to the tiles.
enum class WeightForm {
  kPacked,       // By Pack(), once.
  kPackAndRun,   // Packed at every run.
  kInPlace,      // Its rows are read where they are.
  kXsmm,         // The same, by libxsmm's code for this very size.
  kDotProducts,  // Its columns are; for few rows of a.
  kSwapped,      // The same: a is packed, and c^T = b^T a^T transposed.
  kColumn,       // Its only column is: the rows of a meet it one by one.
};

// Of libxsmm: reads a row-major product as a column-major one of swapped
// operands. Never freed; the library keeps one for each size.
using SmallProductFn = void (*)(const float* b, const float* a, float* c, ...);

// A product that is ready to run. Immutable, thread-safe.
class Product {
 public:
  // Returns the reason why the tiles can't do it.
  static std::optional<std::string> Prepare(const ProductSpec& spec,
                                            Product& product);

  int64_t scratch_floats() const;
  // Of b packed; requires a frozen b.
  int64_t packed_floats() const;
  void Pack(const float* b, float* packed) const;
  // See PackRequest.
  std::string packed_layout() const;
  void Run(const ProductArgs& args) const;
  WeightForm form() const { return form_; }
  // Whether each part of the residual is read before c is written there.
  bool residual_may_be_c() const;

 private:
  int num_panels() const;
  // Rows and panels of one product of the batch, and rows of b.
  struct Part {
    int64_t row_begin = 0, row_end = 0, panel_begin = 0, panel_end = 0,
            k_begin = 0, k_end = 0;
  };
  // The part's rows and panels of b, panel after panel.
  void PackPanels(const float* b, const Part& part, float* packed) const;
  void RunOne(const ProductArgs& args, int num_threads) const;
  void RunDots(const ProductArgs& args, int num_threads) const;
  void RunOneRow(const ProductArgs& args, int num_threads) const;
  void RunColumn(const ProductArgs& args, int num_threads) const;
  void RunSwapped(const ProductArgs& args, int num_threads) const;
  // What follows the sums, in these columns of c; pointers may be null.
  void Finish(const ProductArgs& args, int64_t col, int64_t cols,
              const float* bias, const float* residual) const;
  // A thread's part; of an unpacked b it packs what it comes to, block by
  // block.
  void RunPart(const ProductArgs& args, const Part& part, float* scratch) const;
  // The same of a b that lies as tiles read it: `b` points to the part's first
  // row and panel, whose panels are that far apart.
  void RunRows(const ProductArgs& args, const float* b, int64_t panel_stride,
               const Part& part, float* scratch) const;
  void RunTiles(const ProductArgs& args, const float* b, int64_t panel_stride,
                const Part& part, float* scratch) const;
  // Whether more than one thread share out rows of a: else they share panels.
  bool CutsRows(int num_threads) const;
  // All of it by rows for the threads, which pack each block of b together.
  void RunStrips(const ProductArgs& args, int num_threads) const;
  // How many rows of a, and of b, tiles take at a time.
  int64_t RowsOfA() const;
  int64_t RowsOfB() const;
  // How many panels, of those rows, are packed at a time.
  int64_t PanelsAtOnce() const;
  // Floats of such a block, of so many panels.
  int64_t BlockFloats(int64_t panels) const;
  // Floats of scratch memory of one thread's part.
  int64_t PartScratch() const;
  // Where the operands are swapped: of a packed, and of a part's result.
  int64_t SwappedAFloats() const;
  int64_t SwappedPartFloats() const;

  ProductSpec spec_;
  WeightForm form_ = WeightForm::kPackAndRun;
  SmallProductFn small_ = nullptr;
  int num_threads_ = 1;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_PRODUCT_H_
