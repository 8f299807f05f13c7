#ifndef MICA_KERNELS_CPU_SIMD_TRAINING_H_
#define MICA_KERNELS_CPU_SIMD_TRAINING_H_

#include <cstdint>

// The part of the table of vector loops that only training needs. float32.

namespace mica::cpu {

// Gradients of activations, from the gradient of the result g and the input x
// (or the result y). `low` and `high` are the activation's constants.
enum class Gradient : int {
  kThreshold,  // x <= low ? 0 : g
  kHardtanh,   // low < x < high ? g : 0
  kLeakyRelu,  // x > 0 ? g : g * low
  kHardswish,
  kHardsigmoid,
  kSilu,
  kSigmoid,  // Of y.
  kTanh,     // Of y.
};
inline constexpr int kNumGradients = 8;

// How [images, channels, pixels] lie: the pixels of a channel next to each
// other, or the channels of a pixel.
struct ChannelLayout {
  int64_t image_stride = 0;
  int64_t channel_stride = 1;
  int64_t pixel_stride = 1;
};
enum class Innermost : int { kPixels, kChannels };

// y = (x - mean) * rstd * weight + bias by the batch's own statistics.
struct BatchNormArgs {
  const float* x = nullptr;
  float* y = nullptr;  // Or null. May be x.
  ChannelLayout x_layout, y_layout;
  Innermost innermost = Innermost::kPixels;
  int64_t images = 0, channels = 0, pixels = 0;
  const float* weight = nullptr;  // [channels] or null, as the next ones.
  const float* bias = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  const float* old_mean = nullptr;  // Running statistics.
  const float* old_variance = nullptr;
  float* new_mean = nullptr;
  float* new_variance = nullptr;
  double momentum = 0, eps = 0;
};

// Gradients of the same.
struct BatchNormBackwardArgs {
  const float* grad = nullptr;
  const float* x = nullptr;
  float* grad_x = nullptr;  // Or null. May be grad or x.
  ChannelLayout grad_layout, x_layout, grad_x_layout;
  Innermost innermost = Innermost::kPixels;
  int64_t images = 0, channels = 0, pixels = 0;
  const float* weight = nullptr;  // [channels] or null.
  const float* mean = nullptr;
  const float* rstd = nullptr;
  float* grad_weight = nullptr;  // Or null.
  float* grad_bias = nullptr;    // Or null.
};

// The largest element of each window of one plane [rows, cols], and its place.
struct MaxPoolArgs {
  const float* x = nullptr;  // Dense.
  int64_t rows = 0, cols = 0;
  int64_t out_rows = 0, out_cols = 0;
  int64_t kernel_rows = 1, kernel_cols = 1;
  int64_t row_step = 1, col_step = 1;
  int64_t row_padding = 0, col_padding = 0;
  int64_t row_dilation = 1, col_dilation = 1;
  float* out = nullptr;        // Dense.
  int64_t* places = nullptr;   // Dense.
  int32_t* scratch = nullptr;  // out_cols.
};

// One sample's step of an LSTM of n units, backwards.
struct LstmBackwardArgs {
  const float* kept = nullptr;  // [5n]: what lstm_cell of the step left.
  const float* c = nullptr;     // [n], before the step.
  const float* dy = nullptr;    // [n] or null: of the output at this step,
  const float* dh = nullptr;    // [n]: of h, for the steps behind it.
  float* dc = nullptr;          // [n]: of c, after the step and then before.
  float* dgates = nullptr;      // [4n], before the gates' functions.
  float* dbias = nullptr;       // [4n], which they are added to.
  int64_t n = 0;
};

struct TrainingTable {
  void (*gradient[kNumGradients])(const float* g, const float* x, float* out,
                                  int64_t n, float low, float high) = {};
  // Of channels begin..end.
  void (*batch_norm)(const BatchNormArgs& args, int64_t begin,
                     int64_t end) = nullptr;
  void (*batch_norm_backward)(const BatchNormBackwardArgs& args, int64_t begin,
                              int64_t end) = nullptr;
  void (*max_pool)(const MaxPoolArgs& args) = nullptr;
  // As SimdTable::lstm_cell with kept[5n] for a backward pass: the gates,
  // which their functions' values replace, then what c becomes.
  void (*lstm_cell)(float* kept, const float* c, float* h, int64_t n) = nullptr;
  void (*lstm_cell_backward)(const LstmBackwardArgs& args) = nullptr;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_SIMD_TRAINING_H_
