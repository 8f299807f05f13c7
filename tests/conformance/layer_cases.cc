#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/conformance/cases.h"

namespace mica {
namespace {

constexpr absl::string_view kLayers[] = {
    // Layers.
    "aten.log_sigmoid_forward(f32[5,8])",
    "aten.glu(f32[5,8])",
    "aten.glu(f64[6,3], 0)",
    "aten._softmax(f32[5,7], -1, false)",
    "aten._softmax(f32[3,12,20,70], -1, false)",
    "aten._softmax(f32[5,7,3], 1, false)",
    "aten._softmax(f64[5,7]{1,5}, 1, false)",
    "aten._softmax(f32[], 0, false)",
    "aten._log_softmax(f32[5,7], 1, false)",
    "aten._log_softmax(f32[64,70], -1, false)",
    "aten._softmax(f16[7,3,700], -1, false)",
    "aten._softmax(bf16[3,2500], 1, false)",
    "aten._log_softmax(bf16[64,70], -1, false)",
    "aten._softmax(f16[300], -1, false)",
    "aten._safe_softmax(f32[5,7], -1)",
    "aten.native_layer_norm(f32[5,7,64], [64], f32[64], f32[64], 1e-5)",
    "aten.native_layer_norm(f32[5,7], [7], none, none, 1e-12)",
    "aten.native_layer_norm(f32[2,5,7], [5,7], f32[5,7], none, 1e-5)",
    "aten.native_layer_norm(f64[5,7], [7], f64[7], f64[7], 1e-5)",
    "aten.native_layer_norm(f16[5,7,300], [300], f16[300], f16[300], 1e-5)",
    "aten.native_layer_norm(bf16[9,5,70], [5,70], bf16[5,70], none, 1e-5)",
    "aten.native_layer_norm(bf16[70,70], [70], none, bf16[70], 1e-5)",
    "aten.native_layer_norm(f16[3,2500], [2500], none, none, 1e-5)",
    "aten.native_layer_norm(f16[300], [300], f16[300], none, 1e-5)",
    "aten.native_layer_norm(f32[5,64]{1,5}, [64], f32[64], f32[64], 1e-5)",
    "mica.add_layer_norm(f32[5,64], f32[5,64], [64], f32[64], f32[64], 1e-12)",
    "mica.add_layer_norm(f32[2,5,7], f32[2,5,7], [7], none, none, 1e-5)",
    "mica.add_layer_norm(f64[5,7], f64[5,7], [7], f64[7], f64[7], 1e-5)",
    "aten.native_group_norm(f32[2,6,5], f32[6], f32[6], 2, 6, 5, 3, 1e-5)",
    "aten.native_group_norm(f64[2,4], none, none, 2, 4, 1, 2, 1e-5)",
    "aten._native_batch_norm_legit_no_training(f32[2,3,4,4], f32[3], f32[3], "
    "f32[3], f32[3]~0.5..2, 0.1, 1e-5)",
    "aten._native_batch_norm_legit_no_training(f64[5,3], none, none, f64[3], "
    "f64[3]~0.5..2, 0.1, 1e-5)",
    "aten.native_dropout(f32[5,7], 0.5, false)",
    "aten._scaled_dot_product_flash_attention_for_cpu(f32[2,3,5,8], "
    "f32[2,3,6,8], f32[2,3,6,4])",
    "aten._scaled_dot_product_flash_attention_for_cpu(f32[2,12,33,32], "
    "f32[2,12,33,32], f32[2,12,33,32], attn_mask=f32[2,1,1,33])",
    "aten._scaled_dot_product_flash_attention_for_cpu("
    "f32[2,12,40,32]{15360,32,384,1}, f32[2,12,40,32]{15360,32,384,1}, "
    "f32[2,12,40,32]{15360,32,384,1}, attn_mask=f32[2,1,40,40])",
    "aten._scaled_dot_product_flash_attention_for_cpu(f32[1,2,70,64], "
    "f32[1,2,70,64], f32[1,2,70,64], is_causal=true, scale=0.2)",
    "aten._scaled_dot_product_flash_attention_for_cpu(f32[1,4,5,8], "
    "f32[1,2,6,8], f32[1,2,6,8])",
    "aten._scaled_dot_product_flash_attention_for_cpu(f64[1,2,5,8], "
    "f64[1,2,5,8], f64[1,2,5,8], attn_mask=bool[5,5])",
    "aten.embedding(f32[10,4], i64[3,5]~0..9)",
    "aten.embedding(f32[100,64], i64[40]~0..99, 0)",
    "aten.embedding(f64[10,4]{1,10}, i32[3]~0..9)",
    "aten.embedding(f32[10,4], i64[4,6]{0,1}~0..9)",
    "aten.embedding(f32[10,4], i32[4,6]{1,4}~0..9)",
    "aten._softmax_backward_data(f32[5,7], f32[5,7], -1, input_dtype=f32)",
    "aten._softmax_backward_data(f32[3,12,20,70], f32[3,12,20,70], -1, "
    "input_dtype=f32)",
    "aten._softmax_backward_data(f64[5,7,3], f64[5,7,3]{21,1,7}, 1, "
    "input_dtype=f64)",
    "aten._log_softmax_backward_data(f32[5,7], f32[5,7]~-3..0, 1, "
    "input_dtype=f32)",
    "aten._log_softmax_backward_data(f32[64,70], f32[64,70]~-3..0, -1, "
    "input_dtype=f32)",
    "aten._log_softmax_backward_data(f64[5,7], f64[5,7]~-3..0, 0, "
    "input_dtype=f64)",
    "aten.native_layer_norm_backward(f32[2,5,64], f32[2,5,64], [64], "
    "f32[2,5,1], f32[2,5,1]~0.5..2, f32[64], f32[64], [true,true,true])",
    "aten.native_layer_norm_backward(f32[33,70], f32[33,70], [70], "
    "f32[33,1], f32[33,1]~0.5..2, f32[70], f32[70], [true,false,true])",
    "aten.native_layer_norm_backward(f32[5,2,7], f32[5,2,7], [2,7], "
    "f32[5,1,1], f32[5,1,1]~0.5..2, none, none, [true,false,false])",
    "aten.native_layer_norm_backward(f32[9,64], f32[9,64], [64], f32[9,1], "
    "f32[9,1]~0.5..2, f32[64], f32[64], [false,true,true])",
    "aten.native_layer_norm_backward(f64[5,7], f64[5,7]{1,5}, [7], f64[5,1], "
    "f64[5,1]~0.5..2, f64[7], f64[7], [true,true,true])",
    "aten.embedding_dense_backward(f32[3,5,4], i64[3,5]~0..9, 10, -1, false)",
    "aten.embedding_dense_backward(f32[40,64], i64[40]~0..9, 10, 0, false)",
    "aten.embedding_dense_backward(f64[9,3], i32[9]~0..4, 5, -1, true)",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward(f32[2,3,5,4], "
    "f32[2,3,5,8], f32[2,3,6,8], f32[2,3,6,4], f32[2,3,5,4], f32[2,3,5]~2..3, "
    "0.0, false)",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward("
    "f32[2,4,33,32]{4224,32,128,1}, f32[2,4,33,32]{4224,32,128,1}, "
    "f32[2,4,33,32]{4224,32,128,1}, f32[2,4,33,32]{4224,32,128,1}, "
    "f32[2,4,33,32]{4224,32,128,1}, f32[2,4,33]{132,1,4}~2..3, 0.0, false, "
    "attn_mask=f32[2,1,1,33])",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward(f32[1,2,70,64], "
    "f32[1,2,70,64], f32[1,2,70,64], f32[1,2,70,64], f32[1,2,70,64], "
    "f32[1,2,70]~9..10, 0.0, true, scale=0.2)",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward(f32[2,2,150,16],"
    " "
    "f32[2,2,150,16], f32[2,2,130,16], f32[2,2,130,16], f32[2,2,150,16], "
    "f32[2,2,150]~9..10, 0.0, false, attn_mask=bool[150,130])",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward(f64[1,2,5,8], "
    "f64[1,2,5,8], f64[1,2,5,8], f64[1,2,5,8], f64[1,2,5,8], f64[1,2,5]~2..3, "
    "0.0, false, attn_mask=bool[5,5])",
    // Losses.
    "aten.mse_loss(f32[5,7], f32[5,7])",
    "aten.mse_loss(f32[5,7], f32[5,7], 0)",
    "aten.smooth_l1_loss(f32[5,7], f32[5,7], 2, 0.5)",
    "aten.huber_loss(f32[5,7], f32[5,7], 1, 0.5)",
    "aten.binary_cross_entropy(f32[5,7]~0.01..0.99, f32[5,7]~0..1)",
    "aten.binary_cross_entropy_with_logits(f32[5,7], f32[5,7]~0..1, none, "
    "f32[7])",
    "aten.nll_loss_forward(f32[5,7], i64[5]~0..6, none, 1, -100)",
    "aten.nll_loss_forward(f32[5,7], i64[5]~0..6, f32[7]~0.1..1, 0, 3)",
    "aten.nll_loss_forward(f64[7], i64[]~0..6, none, 2, -100)",
    // Windows.
    "aten.convolution(f32[2,4,9,8], f32[6,2,3,3], f32[6], [2,1], [1,1], [1,1], "
    "false, [0,0], 2)",
    "aten.convolution(f32[1,3,16,16], f32[8,3,4,4], none, [4], [0], [1], "
    "false, [0], 1)",
    "aten.convolution(f32[2,3,11], f32[4,3,3], f32[4], [1], [2], [2], false, "
    "[0], 1)",
    "aten.convolution(f32[2,4,5,5], f32[4,3,3,3], f32[3], [2,2], [1,1], [1,1], "
    "true, [1,1], 1)",
    "aten.convolution(f32[2,8,7,5], f32[6,8,1,1], f32[6], [1,1], [0,0], [1,1], "
    "false, [0,0], 1)",
    "aten.convolution(f32[2,8,7,5]{280,1,40,8}, f32[8,1,3,5], f32[8], [2,1], "
    "[1,3], [1,2], false, [0,0], 8)",
    "aten.convolution(f64[2,4,9,8], f64[6,4,3,3], f64[6], [2,2], [0,1], [2,1], "
    "false, [0,0], 1)",
    "aten.convolution(f32[2,40,7,6]{1680,1,240,40}, f32[70,40,3,3], f32[70], "
    "[1,1], [1,1], [1,1], false, [0,0], 1)",
    "aten.convolution(f32[2,40,9,8], f32[40,40,3,3], f32[40], [1,1], [1,1], "
    "[1,1], false, [0,0], 1)",
    "aten.convolution(f32[1,33,13,12], f32[70,33,3,3], none, [1], [0], [1], "
    "false, [0], 1)",
    "aten.convolution(f32[3,36,8,11]{3168,1,396,36}, "
    "f32[35,36,3,3]{324,1,108,36}, f32[35], [1,1], [2,1], [1,1], false, "
    "[0,0], 1)",
    "aten.convolution(f32[1,3,23,20], f32[20,3,7,7], none, [2,2], [3,3], "
    "[1,1], false, [0,0], 1)",
    "aten.convolution(f32[1,16,9,9], f32[8,16,3,3]{144,1,48,16}, none, [2,1], "
    "[2,0], [2,2], false, [0,0], 1)",
    "aten.convolution(f32[2,5,5,4], f32[70,5,3,3], f32[70], [2,1], [1,0], "
    "[1,1], false, [0,0], 1)",
    "aten.convolution(f32[2,40,3,3]{360,1,120,40}, f32[90,40,3,3], none, "
    "[1,1], [2,2], [2,2], false, [0,0], 1)",
    "aten.convolution(f32[3,7,9], f32[80,7,4], f32[80], [2], [1], [2], false, "
    "[0], 1)",
    "aten.convolution(f32[1,6,7,6], f32[100,6,3,3], f32[100], [1,1], [1,1], "
    "[1,1], false, [0,0], 1)",
    "aten.convolution(f32[1,1024,3,2]{6144,1,2048,1024}, f32[33,1024,1,1], "
    "none, [1,1], [0,0], [1,1], false, [0,0], 1)",
    "aten.convolution(f32[3,40,15,12]{7200,1,480,40}, f32[20,40,3,3], none, "
    "[1,1], [0,1], [1,1], false, [0,0], 1)",
    "aten.convolution(f32[1,64,3,3]{576,1,192,64}, f32[160,64,3,3], f32[160], "
    "[1,1], [2,1], [1,1], false, [0,0], 1)",
    "aten.convolution(f32[1,64,8,8]{4096,1,512,64}, "
    "f32[96,64,3,3]{576,1,192,64}, f32[96], [1], [1], [1], false, [0], 1)",
    // Groups: by Winograd's method, of a few channels, whose pixels lie a
    // part of a page apart.
    "aten.convolution(f32[2,128,15,12]{23040,1,1536,128}, f32[128,64,3,3], "
    "f32[128], [1,1], [1,1], [1,1], false, [0,0], 2)",
    "aten.convolution(f32[1,96,14,13], f32[64,48,3,3]{432,1,144,48}, none, "
    "[1,1], [0,1], [1,1], false, [0,0], 2)",
    "mica.convolution(f32[1,144,15,17]{36720,1,2448,144}, f32[96,48,3,3], "
    "f32[96], [1,1], [1,1], [1,1], false, [0,0], 3, none, \"hardswish\")",
    "mica.convolution(f32[2,52,11,9]{5148,1,468,52}, f32[52,4,3,3], f32[52], "
    "[1,1], [1,1], [1,1], false, [0,0], 13, none, \"relu\")",
    "aten.convolution(f32[1,56,12,15], f32[56,8,3,5], none, [2,1], [1,2], "
    "[1,1], false, [0,0], 7)",
    "mica.convolution(f32[1,22,9,20]{3960,1,440,22}, f32[22,2,5,3], none, "
    "[1,2], [2,0], [2,1], false, [0,0], 11, none, \"silu\")",
    "aten.convolution(f32[2,40,30]{1200,1,40}, f32[40,8,3], f32[40], [1], [1], "
    "[2], false, [0], 5)",
    "aten.convolution(f32[1,256,9,11]{25344,1,2816,256}, f32[128,32,3,3], "
    "f32[128], [2,2], [1,1], [1,1], false, [0,0], 8)",
    "aten.convolution(f32[1,256,7,9], f32[192,128,3,3], none, [2,1], [1,1], "
    "[1,2], false, [0,0], 2)",
    "aten.convolution(f32[1,512,7,9]{32256,1,4608,512}, f32[40,512,3,3], none, "
    "[2,2], [1,1], [1,1], false, [0,0], 1)",
    "mica.convolution(f32[2,40,9,6]{2160,1,240,40}, f32[70,40,3,3], f32[70], "
    "[1,1], [1,1], [1,1], false, [0,0], 1, f32[2,70,9,6]{3780,1,420,70}, "
    "\"relu\")",
    "mica.convolution(f32[2,36,7,9]{2268,1,324,36}, f32[33,36,3,3], none, "
    "[1,1], [1,1], [1,1], false, [0,0], 1, f32[2,33,7,9]{2079,1,297,33}, "
    "\"silu\")",
    "mica.convolution(f32[2,8,7,5], f32[40,8,3,3], f32[40], [1,1], [1,1], "
    "[1,1], false, [0,0], 1, f32[2,40,7,5], \"relu\")",
    "mica.convolution(f32[2,8,7,5]{280,1,40,8}, f32[40,8,1,1], none, [1,1], "
    "[0,0], [1,1], false, [0,0], 1, f32[2,40,7,5]{1400,1,200,40}, \"none\")",
    "mica.convolution(f32[1,8,9,5], f32[12,4,3,3], f32[12], [2,2], [1,1], "
    "[1,1], false, [0,0], 2, none, \"silu\")",
    "mica.convolution(f32[2,36,15,16]{8640,1,576,36}, f32[36,1,3,3], f32[36], "
    "[1,1], [1,1], [1,1], false, [0,0], 36, none, \"relu6\")",
    "mica.convolution(f32[1,50,7,9], f32[50,1,7,7], f32[50], [2,2], [3,3], "
    "[1,1], false, [0,0], 50, none, \"hardswish\")",
    "mica.convolution(f32[1,20,9,30]{5400,1,600,20}, f32[20,1,5,5], none, "
    "[2,2], [2,2], [1,1], false, [0,0], 20, f32[1,20,5,15]{1500,1,300,20}, "
    "\"gelu\")",
    "mica.convolution(f64[1,4,5,5], f64[3,4,3,3], f64[3], [1,1], [1,1], [1,1], "
    "false, [0,0], 1, f64[1,3,5,5], \"sigmoid\")",
    "aten.convolution(bf16[2,16,9,7]{1008,1,112,16}, bf16[24,16,3,3], "
    "bf16[24], [1,1], [1,1], [1,1], false, [0,0], 1)",
    "aten.convolution(bf16[2,16,9,7], bf16[24,16,3,3], none, [2,2], [0,1], "
    "[1,1], false, [0,0], 1)",
    "aten.convolution(bf16[1,24,9,7]{1512,1,168,24}, bf16[24,1,3,3], none, "
    "[1,1], [1,1], [1,1], false, [0,0], 24)",
    "aten.convolution(bf16[2,8,30], bf16[12,4,5], bf16[12], [1], [2], [1], "
    "false, [0], 2)",
    "aten.convolution(f16[2,16,9,7]{1008,1,112,16}, f16[24,16,3,3], f16[24], "
    "[1,1], [1,1], [2,2], false, [0,0], 1)",
    "aten.convolution_backward(bf16[2,24,9,7], bf16[2,16,9,7], "
    "bf16[24,16,3,3], [24], [1,1], [1,1], [1,1], false, [0,0], 1, "
    "[true,true,true])",
    "aten.convolution_backward(bf16[2,24,5,4], bf16[2,16,9,7], "
    "bf16[24,8,3,3], none, [2,2], [1,1], [1,1], false, [0,0], 2, "
    "[false,true,false])",
    "aten.convolution_backward(bf16[2,12,26], bf16[2,8,30], bf16[12,8,5], "
    "none, [1], [0], [1], false, [0], 1, [true,false,false])",
    "mica.scaled_convolution(bf16[2,16,9,7]{1008,1,112,16}, "
    "bf16[24,16,3,3], none, [1,1], [1,1], [1,1], false, [0,0], 1, "
    "bf16[2,24,9,7]{1512,1,168,24}, \"relu\", f32[24], f32[24])",
    "mica.scaled_convolution(bf16[2,16,9,7], bf16[24,16,1,1], bf16[24], "
    "[1,1], [0,0], [1,1], false, [0,0], 1, bf16[2,24,9,7], \"relu6\", "
    "f32[24], f32[24])",
    "mica.scaled_convolution(f16[1,3,9,8], f16[24,3,7,7], none, [2,2], [3,3], "
    "[1,1], false, [0,0], 1, none, \"none\", f32[24], f32[24])",
    "mica.fold_batch_norm(f32[6,4,3,3], f32[6], f32[6], f32[6], f32[6], "
    "f32[6]~0.5..2, 1e-5)",
    "mica.fold_batch_norm(f32[6,4], none, none, none, f32[6], f32[6]~0.5..2, "
    "1e-3)",
    "mica.fold_batch_norm(f64[6,4,1], f64[6], f64[6], none, f64[6], "
    "f64[6]~0.5..2, 1e-3)",
    "mica.batch_norm_scale(f32[6], f32[6], f32[6], f32[6]~0.5..2, 1e-5)",
    "mica.batch_norm_scale(none, none, f64[6], f64[6]~0.5..2, 1e-5)",
    "mica.scale_channels(f32[2,5,7,9], f32[5], f32[5], \"relu\")",
    "mica.scale_channels(f32[2,40,3,5]{600,1,200,40}, f32[40], f32[40], "
    "\"silu\")",
    "mica.scale_channels(f32[3,5], f32[5], f32[5], \"none\")",
    "mica.scale_channels(f64[2,5,3], f64[5], f64[5], \"relu6\")",
    "mica.scale_channels(bf16[2,40,3,5]{600,1,200,40}, f32[40], f32[40], "
    "\"relu\")",
    "mica.scale_channels(f16[2,5,7,9], f32[5], f32[5], \"none\")",
    "mica.scale_channels(f16[2,3,50,50], f32[3], f32[3], \"relu\")",
    "mica.scale_channels(bf16[2,300,3,5]{4500,1,1500,300}, f32[300], "
    "f32[300], \"relu6\")",
    "mica.scale_channels(f16[2,2100], f32[2100], f32[2100], \"none\")",
    "aten.max_pool2d_with_indices(f32[2,3,9,8], [3,2], [2,2], [1,1])",
    "aten.max_pool2d_with_indices(f32[2,3,1,19], [1,2])",
    "aten.max_pool2d_with_indices(f32[2,3,2,19], [1,3], [1,1], [0,1], [1,2])",
    "aten.max_pool2d_with_indices(f32[2,70,9,8]{5040,1,560,70}, [3], [2], "
    "[1])",
    "aten.avg_pool2d(f32[2,3,9,8], [2], [2])",
    "aten.avg_pool2d(f32[2,70,4,6]{1680,1,420,70}, [2], [], [1])",
    "aten._adaptive_avg_pool2d(f32[2,70,6,8]{3360,1,560,70}, [1,2])",
    "aten.avg_pool2d(f32[2,3,9,8], [3,3], [2,2], [1,1], true)",
    "aten.avg_pool2d(f32[2,70,9,8]{5040,1,560,70}, [3,2], [2,1], [1,1], true, "
    "false)",
    "aten.avg_pool2d(f32[1,5,6,7], [3], [1], [1], false, false)",
    "aten.avg_pool2d(f32[5,6,7], [1], [2], [0], false, false)",
    "aten.avg_pool2d(f32[3,9,8], [2], [], [0], false, false, 3)",
    "aten._adaptive_avg_pool2d(f32[2,3,9,8], [4,3])",
    // Recurrent and attention layers.
    "aten.mkldnn_rnn_layer(f32[5,2,6], f32[28,6], f32[28,7], f32[28], f32[28], "
    "f32[2,7], f32[2,7], false, [], 2, 7, 1, true, false, false, false)",
    "aten.mkldnn_rnn_layer(f32[9,3,17], f32[96,17], f32[96,24], f32[96], "
    "f32[96], f32[3,24], f32[3,24], true, [], 2, 24, 2, true, true, true, "
    "false)",
    "aten.mkldnn_rnn_layer(f32[1,1,4], f32[20,4], f32[20,5], f32[20], f32[20], "
    "f32[1,5], f32[1,5], false, [], 2, 5, 1, true, false, false, false)",
    "aten.mkldnn_rnn_layer(f64[3,2,4], f64[20,4], f64[20,5], f64[20], f64[20], "
    "f64[2,5], f64[2,5], false, [], 2, 5, 1, true, false, false, false)",
    "aten.mkldnn_rnn_layer(f32[3,2,4], f32[20,4], f32[20,5], f32[20,4], "
    "f32[20,5], f32[2,5], f32[2,5], false, [], 2, 5, 1, false, false, false, "
    "false)",
    "mica.lstm_layer(f32[5,2,6], f32[28,6], f32[28,7], f32[28], f32[28], "
    "f32[2,7], f32[2,7], false, [], 2, 7, 1, true, false, false, true)",
    "mica.lstm_layer(f32[9,3,17], f32[96,17], f32[96,24], f32[96], f32[96], "
    "f32[3,24], f32[3,24], true, [], 2, 24, 1, true, false, false, true)",
    "mica.lstm_layer(f32[1,1,4], f32[20,4], f32[20,5], f32[20], f32[20], "
    "f32[1,5], f32[1,5], false, [], 2, 5, 1, false, false, false, true)",
    "mica.lstm_layer(f64[3,2,4], f64[20,4], f64[20,5], f64[20], f64[20], "
    "f64[2,5], f64[2,5], true, [], 2, 5, 1, true, false, false, true)",
    "mica.lstm_layer_backward(f32[5,2,6], f32[28,6], f32[28,7], f32[28], "
    "f32[28], f32[2,7], f32[2,7], f32[5,2,7], f32[2,7], f32[2,7], "
    "f32[5,2,7], f32[2,7], f32[2,7], false, 2, 7, 1, true, true, false, [], "
    "false, f32[5,2,35]~0.1..0.9)",
    "mica.lstm_layer_backward(f32[9,3,17]{1,153,9}, f32[96,17], f32[96,24], "
    "f32[96], f32[96], f32[3,24], f32[3,24], f32[9,3,24], f32[3,24], "
    "f32[3,24], f32[9,3,24]{24,216,1}, none, none, true, 2, 24, 1, true, "
    "true, false, [], false, f32[9,3,120]~0.1..0.9)",
    "mica.lstm_layer_backward(f32[2,3,4], f32[132,4], f32[132,33], f32[132], "
    "f32[132], f32[3,33], f32[3,33], f32[2,3,33], f32[3,33], f32[3,33], "
    "none, f32[3,33]{1,3}, none, false, 2, 33, 1, true, true, false, [], "
    "false, f32[2,3,165]~0.1..0.9)",
    "mica.lstm_layer_backward(f32[1,1,4], f32[20,4], f32[20,5], f32[20], "
    "f32[20], f32[1,5], f32[1,5], f32[1,1,5], f32[1,5], f32[1,5], none, "
    "none, f32[1,5], true, 2, 5, 1, true, true, false, [], false, "
    "f32[1,1,25]~0.1..0.9)",
    "mica.lstm_layer_backward(f64[3,2,4], f64[20,4], f64[20,5], f64[20], "
    "f64[20], f64[2,5], f64[2,5], f64[3,2,5], f64[2,5], f64[2,5], "
    "f64[3,2,5], f64[2,5], f64[2,5], true, 2, 5, 1, true, true, false, [], "
    "false, f64[3,2,25]~0.1..0.9)",
    "mica.gru_cell(f32[2,15], f32[2,15], f32[2,5])",
    "mica.gru_cell(f32[3,96]{192,1}, f32[3,96], f32[3,32])",
    "mica.gru_cell(f64[2,15], f64[2,15]{1,2}, f64[2,5])",
    "aten._native_multi_head_attention(f32[2,5,8], f32[2,5,8], f32[2,5,8], 8, "
    "2, f32[24,8], f32[24], f32[8,8], f32[8], need_weights=false)",
    "aten._native_multi_head_attention(f32[2,3,8], f32[2,5,8], f32[2,5,8], 8, "
    "4, f32[24,8], f32[24], f32[8,8], f32[8])",
    "aten._native_multi_head_attention(f64[2,3,8], f64[2,5,8], f64[2,5,8], 8, "
    "1, f64[24,8], f64[24], f64[8,8], f64[8], bool[2,5], true, false, 1)",
};

}  // namespace

std::vector<std::string> LayerCases(const OpDef& def) {
  std::vector<std::string> cases;
  AddCallsOf(def, kLayers, &cases);
  return cases;
}

}  // namespace mica
