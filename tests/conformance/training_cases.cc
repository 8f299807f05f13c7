#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/conformance/cases.h"

namespace mica {
namespace {

constexpr absl::string_view kTraining[] = {
    // Activations.
    "aten.leaky_relu_backward(f32[5,7], f32[5,7], 0.1, false)",
    "aten.leaky_relu_backward(f32[300], f32[300], -0.1, false)",
    "aten.leaky_relu_backward(f64[5,7]{1,5}, f64[5,7], 0.1, true)",
    "aten.elu_backward(f32[5,7], 1, 1, 1, false, f32[5,7])",
    "aten.elu_backward(f32[300], 0.5, 2, 1.5, true, f32[300])",
    "aten.elu_backward(f64[5,7], 0.5, 2, 1.5, false, f64[5,7]{1,5})",
    "aten.threshold_backward(f32[2,3,8,8], f32[2,3,8,8], 0)",
    "aten.threshold_backward(f32[2,3,8,8]{0,0,0,0}, f32[2,3,8,8], 0)",
    "aten.threshold_backward(f32[2,3,4,5]{60,1,15,3}, f32[2,3,4,5], 0.5)",
    "aten.hardtanh_backward(f32[2,3,8,8], f32[2,3,8,8], 0.0, 6.0)",
    "aten.hardtanh_backward(f32[300], f32[300], -1, 1)",
    "aten.native_dropout_backward(f32[5,7], bool[5,7], 1.25)",
    "aten.native_dropout_backward(f64[5,7]{1,5}, bool[5,7], 2)",
    "aten.glu_backward(f32[5,4], f32[5,8], 1)",
    "aten.glu_backward(f64[3,7], f64[6,7]{1,6}, -2)",
    "aten._prelu_kernel_backward(f32[2,3,5], f32[2,3,5], f32[3,1])",
    "aten._prelu_kernel_backward(f64[4,7]{1,4}, f64[4,7], f64[])",
    // Losses.
    "aten.mse_loss_backward(f32[], f32[5,7], f32[5,7], 1)",
    "aten.mse_loss_backward(f32[5,7], f32[5,7], f32[5,7]{1,5}, 0)",
    "aten.mse_loss_backward(f64[], f64[5,7], f64[7], 2)",
    "aten.mse_loss_backward(f32[], f32[0,7], f32[0,7], 1)",
    "aten.smooth_l1_loss_backward(f32[], f32[5,7], f32[5,7], 1, 0.5)",
    "aten.smooth_l1_loss_backward(f64[5,7], f64[5,7], f64[5,7], 0, 1.0)",
    "aten.huber_loss_backward(f32[], f32[5,7], f32[5,7], 1, 0.5)",
    "aten.huber_loss_backward(f64[5,7], f64[5,7], f64[5,7], 0, 2.0)",
    "aten.binary_cross_entropy_backward(f32[], f32[5,7]~0.01..0.99, "
    "f32[5,7]~0..1)",
    "aten.binary_cross_entropy_backward(f64[5,7], f64[5,7]~0.01..0.99, "
    "f64[5,7]~0..1, f64[7], 0)",
    "aten.nll_loss_backward(f32[], f32[5,7], i64[5]~0..6, none, 1, -100, "
    "f32[]~1..5)",
    "aten.nll_loss_backward(f32[5], f32[5,7], i64[5]~0..6, f32[7], 0, 3, "
    "f32[])",
    "aten.nll_loss_backward(f32[], f32[5,7]{1,5}, i64[5]{2}~0..6, f32[7], 1, "
    "3, f32[]~1..5)",
    "aten.nll_loss_backward(f64[], f64[7], i64[]~0..6, f64[7], 2, -100, f64[])",
    "aten.nll_loss_backward(f32[], f32[64,10], i64[64]~0..9, none, 2, -100, "
    "f32[])",
    "aten.nll_loss2d_forward(f32[2,7,3,4], i64[2,3,4]~0..6, none, 1, -100)",
    "aten.nll_loss2d_forward(f32[2,7,3,4], i64[2,3,4]~0..6, f32[7]~0.1..1, 0, "
    "3)",
    "aten.nll_loss2d_forward(f64[2,7,3,4]{84,1,28,7}, i64[2,3,4]~0..6, none, "
    "2, 2)",
    "aten.nll_loss2d_backward(f32[], f32[2,7,3,4], i64[2,3,4]~0..6, none, 1, "
    "-100, f32[]~1..5)",
    "aten.nll_loss2d_backward(f64[2,3,4], f64[2,7,3,4], i64[2,3,4]~0..6, "
    "f64[7], 0, 3, f64[])",
    // Normalisations.
    "aten.native_batch_norm(f32[4,3,5,5], f32[3], f32[3], none, none, true, "
    "0.1, 1e-5)",
    "aten.native_batch_norm(f32[4,3,5,5], f32[3], f32[3], f32[3], "
    "f32[3]~0.5..2, false, 0.1, 1e-5)",
    "aten.native_batch_norm(f64[6,3], none, none, f64[3], f64[3]~0.5..2, "
    "false, 0.1, 1e-5)",
    "aten.native_batch_norm(f32[2,19,4,4]{304,1,76,19}, f32[19], none, f32[19],"
    " f32[19]~0.5..2, false, 0.1, 1e-5)",
    "aten._native_batch_norm_legit_functional(f32[4,3,5,5], f32[3], f32[3], "
    "f32[3], f32[3], true, 0.1, 1e-5)",
    "aten._native_batch_norm_legit_functional(f32[16,5], none, f32[5], f32[5], "
    "f32[5], true, 0.3, 1e-3)",
    "aten._native_batch_norm_legit_functional(f32[32,16,8,8], f32[16], f32[16],"
    " f32[16], f32[16], true, 0.1, 1e-5)",
    "aten._native_batch_norm_legit_functional(f32[2,19,4,4]{304,1,76,19}, "
    "f32[19], f32[19], f32[19], f32[19], true, 0.1, 1e-5)",
    "aten._native_batch_norm_legit_functional(f32[3,4,33], f32[4], none, "
    "f32[4], f32[4], true, 1.0, 1e-5)",
    "aten._native_batch_norm_legit_functional(f64[4,3,5], f64[3], f64[3], "
    "f64[3], f64[3]~0.5..2, false, 0.1, 1e-5)",
    "aten.native_batch_norm_backward(f32[4,3,5,5], f32[4,3,5,5], f32[3], "
    "f32[3], f32[3], f32[3], f32[3]~0.5..2, true, 1e-5, [true,true,true])",
    "aten.native_batch_norm_backward(f32[32,16,8,8], f32[32,16,8,8], f32[16], "
    "none, none, f32[16], f32[16]~0.5..2, true, 1e-5, [true,true,true])",
    "aten.native_batch_norm_backward(f32[16,5], f32[16,5], none, none, none, "
    "f32[5], f32[5]~0.5..2, true, 1e-5, [true,false,true])",
    "aten.native_batch_norm_backward(f32[2,19,4,4]{304,1,76,19}, "
    "f32[2,19,4,4]{304,1,76,19}, f32[19], none, none, f32[19], "
    "f32[19]~0.5..2, true, 1e-5, [true,true,false])",
    "aten.native_batch_norm_backward(f32[4,3,5,5], f32[4,3,5,5], f32[3], "
    "f32[3], f32[3]~0.5..2, f32[0], f32[0], false, 1e-5, [true,true,true])",
    "aten.native_batch_norm_backward(f32[4,3,5,5], f32[4,3,5,5], f32[3], "
    "f32[3], f32[3], f32[3], f32[3]~0.5..2, true, 1e-5, [false,true,true])",
    "aten.native_batch_norm_backward(f64[4,3], f64[4,3], f64[3], none, none, "
    "f64[3], f64[3]~0.5..2, true, 1e-5, [true,true,true])",
    "aten.native_group_norm_backward(f32[2,6,5], f32[2,6,5], f32[2,3], "
    "f32[2,3]~0.5..2, f32[6], 2, 6, 5, 3, [true,true,true])",
    "aten.native_group_norm_backward(f64[2,4], f64[2,4], f64[2,2], "
    "f64[2,2]~0.5..2, none, 2, 4, 1, 2, [true,false,true])",
    "aten.native_group_norm_backward(f32[2,4,3,3]{36,1,12,4}, f32[2,4,3,3], "
    "f32[2,1], f32[2,1]~0.5..2, f32[4], 2, 4, 9, 1, [false,true,true])",
    // Windows.
    "aten.convolution_backward(f32[2,6,5,8], f32[2,4,9,8], f32[6,2,3,3], [6], "
    "[2,1], [1,1], [1,1], false, [0,0], 2, [true,true,true])",
    "aten.convolution_backward(f32[4,16,8,8], f32[4,1,8,8], f32[16,1,3,3], "
    "[16], [1,1], [1,1], [1,1], false, [0,0], 1, [false,true,true])",
    "aten.convolution_backward(f32[3,16,8,8], f32[3,8,8,8], f32[16,8,3,3], "
    "[16], [1,1], [1,1], [1,1], false, [0,0], 1, [true,true,true])",
    "aten.convolution_backward(f32[2,8,4,4], f32[2,6,7,7], f32[8,6,1,1], "
    "[0], [2,2], [0,0], [1,1], false, [0,0], 1, [true,true,false])",
    "aten.convolution_backward(f32[2,8,6,6], f32[2,6,6,6], f32[8,6,1,1], "
    "[0], [1,1], [0,0], [1,1], false, [0,0], 1, [true,true,false])",
    "aten.convolution_backward(f32[2,8,5,4], f32[2,8,9,8], f32[8,1,3,3], "
    "none, [2,2], [1,1], [1,1], false, [0,0], 8, [true,true,false])",
    "aten.convolution_backward(f32[2,32,9,8], f32[2,32,9,8], f32[32,1,3,3], "
    "none, [1,1], [1,1], [1,1], false, [0,0], 32, [true,true,false])",
    "aten.convolution_backward(f32[1,8,4,4], f32[1,3,16,16], f32[8,3,4,4], "
    "[8], [4], [0], [1], false, [0], 1, [true,false,true])",
    "aten.convolution_backward(f32[2,16,9,8], f32[2,20,9,8], f32[16,20,3,3], "
    "[16], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true])",
    "aten.convolution_backward(f32[2,40,9,8], f32[2,35,9,8], f32[40,35,3,3], "
    "[40], [1,1], [1,1], [1,1], false, [0,0], 1, [true,true,true])",
    "aten.convolution_backward(f32[1,40,11,14], f32[1,70,13,12], "
    "f32[40,70,3,3], [0], [1,1], [0,2], [1,1], false, [0,0], 1, "
    "[true,false,false])",
    "aten.convolution_backward(f32[2,40,9,8]{2880,1,320,40}, "
    "f32[2,48,9,8]{3456,1,384,48}, f32[40,48,3,3]{432,1,144,48}, [40], [1,1], "
    "[1,1], [1,1], false, [0,0], 1, [true,true,true])",
    "aten.convolution_backward(f32[1,32,31,31], f32[1,16,61,33], "
    "f32[32,16,4,3], [0], [2, 1], [2, 0], [1, 1], false, [0, 0], 1, "
    "[false, true, false])",
    "aten.convolution_backward(f32[3,13,11,11], f32[3,33,22,25], "
    "f32[13,33,3,2], [0], [2, 3], [3, 4], [3, 2], false, [0, 0], 1, "
    "[true, true, false])",
    "aten.convolution_backward(f32[2,24,8,8], f32[2,16,15,15], f32[24,16,1,1], "
    "[0], [2, 2], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false])",
    "aten.convolution_backward(f32[1,12,32,32], f32[1,17,32,32], "
    "f32[12,17,3,3], [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, "
    "[false, true, false])",
    "aten.convolution_backward(f32[2,4,11], f32[2,3,11], f32[4,3,3], [4], [1],"
    " [2], [2], false, [0], 1, [true,true,true])",
    "aten.convolution_backward(f32[2,3,10,10], f32[2,4,5,5], f32[4,3,3,3], "
    "[3], [2,2], [1,1], [1,1], true, [1,1], 1, [true,true,true])",
    "aten.convolution_backward(f32[2,5,4,4]{80,1,20,5}, "
    "f32[2,3,6,6]{108,1,18,3}, f32[5,3,3,3], [5], [1,1], [0,0], [1,1], false, "
    "[0,0], 1, [true,true,true])",
    "aten.convolution_backward(f32[2,8,6,6]{8,1,0,0}, f32[2,6,6,6], "
    "f32[8,6,3,3], [0], [1,1], [1,1], [1,1], false, [0,0], 1, "
    "[true,true,false])",
    "aten.convolution_backward(f32[2,70,3,2], f32[2,5,5,4], f32[70,5,3,3], "
    "[70], [2,1], [1,0], [1,1], false, [0,0], 1, [true,true,true])",
    "aten.convolution_backward(f32[2,90,3,3], f32[2,40,3,3]{360,1,120,40}, "
    "f32[90,40,3,3], none, [1,1], [2,2], [2,2], false, [0,0], 1, "
    "[true,true,false])",
    "aten.convolution_backward(f32[3,80,3], f32[3,7,9], f32[80,7,4], [80], "
    "[2], [1], [2], false, [0], 1, [false,true,true])",
    "aten.convolution_backward(f32[1,300,7,6]{0,1,0,0}, f32[1,6,7,6], "
    "f32[300,6,3,3], [300], [1,1], [1,1], [1,1], false, [0,0], 1, "
    "[true,false,true])",
    "aten.convolution_backward(f32[2,1024,2,1], f32[2,33,2,1], "
    "f32[1024,33,1,1], [1024], [1,1], [0,0], [1,1], false, [0,0], 1, "
    "[true,true,true])",
    "aten.convolution_backward(f64[2,6,3,4], f64[2,4,9,8], f64[6,4,3,3], [6], "
    "[2,2], [0,1], [2,1], false, [0,0], 1, [true,true,true])",
    "aten.convolution_backward(f32[2,3,2,3,4], f32[2,2,4,5,6], "
    "f32[3,2,3,3,3], [3], [1,1,1], [0,0,0], [1,1,1], false, [0,0,0], 1, "
    "[true,true,true])",
    "aten.max_pool2d_with_indices_backward(f32[2,3,4,4], f32[2,3,8,8], [2,2], "
    "[], [0,0], [1,1], false, i64[2,3,4,4]~0..63)",
    "aten.max_pool2d_with_indices_backward(f32[2,3,5,4], f32[2,3,9,8], [3,3], "
    "[2,2], [1,1], [1,1], false, i64[2,3,5,4]~0..71)",
    "aten.max_pool2d_with_indices_backward(f64[3,4,4], f64[3,8,8]{1,24,3}, "
    "[2,2], [], [0,0], [1,1], false, i64[3,4,4]~0..63)",
    "aten.avg_pool2d_backward(f32[2,3,5,4], f32[2,3,9,8], [3,3], [2,2], [1,1], "
    "false, true, none)",
    "aten.avg_pool2d_backward(f32[2,3,5,5], f32[2,3,9,8], [3,3], [2,2], [1,1], "
    "true, false, none)",
    "aten.avg_pool2d_backward(f64[3,4,4], f64[3,9,8], [2], [], [0], false, "
    "false, 3)",
    "aten._adaptive_avg_pool2d_backward(f32[2,3,4,3], f32[2,3,9,8])",
    "aten._adaptive_avg_pool2d_backward(f64[3,1,1], f64[3,7,7]{1,21,3})",
    "aten._adaptive_avg_pool2d_backward(f32[2,3,10,9], f32[2,3,4,8])",
    "aten.adaptive_max_pool2d(f32[2,3,9,8], [4,3])",
    "aten.adaptive_max_pool2d(f64[3,4,4], [5,1])",
    "aten.adaptive_max_pool2d_backward(f32[2,3,4,3], f32[2,3,9,8], "
    "i64[2,3,4,3]~0..71)",
    // Planes made larger or smaller.
    "aten.upsample_nearest2d(f32[2,3,4,5], [8,10])",
    "aten.upsample_nearest2d(f32[2,3,7,5], [3,11], 0.5, 2.2)",
    "aten.upsample_nearest2d_backward(f32[2,3,8,10], [8,10], [2,3,4,5])",
    "aten.upsample_nearest2d_backward(f64[2,3,3,11], [3,11], [2,3,7,5])",
    "aten._upsample_nearest_exact2d(f32[2,3,7,5], [3,11])",
    "aten._upsample_nearest_exact2d_backward(f32[2,3,3,11], [3,11], [2,3,7,5])",
    "aten.upsample_bilinear2d(f32[2,3,4,5], [8,10], false)",
    "aten.upsample_bilinear2d(f64[2,3,7,5], [3,11], true)",
    "aten.upsample_bilinear2d(f32[2,3,4,5], [9,11], false, 2.3, 2.3)",
    "aten.upsample_bilinear2d_backward(f32[2,3,8,10], [8,10], [2,3,4,5], "
    "false)",
    "aten.upsample_bilinear2d_backward(f64[2,3,3,11], [3,11], [2,3,7,5], "
    "true)",
    "aten.reflection_pad1d(f32[2,3,5], [2,1])",
    "aten.reflection_pad1d_backward(f32[2,3,8], f32[2,3,5], [2,1])",
    "aten.reflection_pad2d(f32[3,5,4], [1,2,3,0])",
    "aten.reflection_pad2d_backward(f64[2,3,8,7], f64[2,3,5,4], [1,2,3,0])",
    "aten.replication_pad1d(i64[3,5], [2,7])",
    "aten.replication_pad1d_backward(f32[3,14], f32[3,5], [2,7])",
    "aten.replication_pad2d(f32[2,3,5,4], [1,2,-1,6])",
    "aten.replication_pad2d_backward(f32[2,3,10,7], f32[2,3,5,4], [1,2,-1,6])",
    // Views.
    "aten.slice_backward(f32[5,3], [5,7], 1, 1, 7, 2)",
    "aten.slice_backward(f64[2,7], [5,7], 0, -2, 9223372036854775807, 1)",
    "aten.slice_backward(i64[0,7], [5,7], 0, 3, 3, 1)",
    "aten.slice_backward(f32[2,7]{1,2}, [5,7], 0, -3, 4, 1)",
    // A gradient that is spread over the slice, or over nothing.
    "aten.slice_backward(f32[1,7], [5,7], 0, 1, 4, 1)",
    "aten.slice_backward(f32[1,4], [1,4], 0, 2, 5, 1)",
    "aten.select_backward(f32[7], [5,7], 0, -1)",
    "aten.select_backward(f32[4,64]{1,4}, [4,16,64], 1, -2)",
    "aten.select_backward(f64[5]{2}, [5,7], 1, 3)",
    "aten.diagonal_backward(f32[5], [5,7], 1, 0, 1)",
    "aten.diagonal_backward(f64[3,2], [2,3,4], -2, 2, 0)",
};

}  // namespace

std::vector<std::string> TrainingCases(const OpDef& def) {
  std::vector<std::string> cases;
  AddCallsOf(def, kTraining, &cases);
  return cases;
}

}  // namespace mica
