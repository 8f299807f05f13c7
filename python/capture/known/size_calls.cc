#include "python/capture/known/size_calls.h"

#include <iterator>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

PyObject* LengthOf(PyObject* /*module*/, PyObject* tensor) {
  const TensorMeta meta = TensorMeta::Of(tensor);
  return PyLong_FromLongLong(meta.sizes.empty() ? 0 : meta.sizes[0]);
}

// Functions whose own C++ code passes sizes on to operators as they are, or
// products of them.
constexpr absl::string_view kComposites[] = {
    // Shapes.
    "reshape", "reshape_as", "view", "view_as", "flatten", "unflatten", "ravel",
    "expand", "expand_as", "broadcast_to", "broadcast_tensors", "repeat",
    "tile", "contiguous", "transpose", "t", "permute", "movedim", "moveaxis",
    "swapaxes", "swapdims", "squeeze", "unsqueeze", "split", "split_with_sizes",
    "chunk", "unbind", "cat", "concat", "concatenate", "stack", "hstack",
    "vstack", "dstack", "diff", "pad", "narrow", "select", "slice", "flip",
    "fliplr", "flipud", "roll", "adjoint", "atleast_1d", "atleast_2d",
    "atleast_3d", "column_stack", "row_stack", "meshgrid", "cartesian_prod",
    "repeat_interleave", "diag", "diagflat", "pixel_shuffle", "pixel_unshuffle",
    "channel_shuffle", "kron", "mH", "real", "imag", "conj", "conj_physical",
    "resolve_conj", "resolve_neg",
    // Types.
    "to", "type", "type_as", "float", "double", "half", "bfloat16", "int",
    "long", "short", "char", "byte", "bool", "cfloat", "cdouble", "chalf",
    "cpu", "clone", "detach", "requires_grad_", "item", "__bool__", "__int__",
    "__float__", "__index__",
    // Products.
    "linear", "matmul", "__matmul__", "__rmatmul__", "einsum", "tensordot",
    "inner", "outer", "ger", "dot", "mv", "mm", "bmm", "bilinear", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "scaled_dot_product_attention", "lstm", "gru",
    "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell",
    "rnn_relu_cell",
    // Of matrices.
    "inverse", "linalg_inv", "linalg_cholesky", "det", "linalg_det", "logdet",
    "slogdet", "linalg_slogdet", "linalg_eigh", "linalg_eigvalsh",
    "linalg_eigvals", "linalg_diagonal", "linalg_svd", "svd", "linalg_qr", "qr",
    "linalg_lu", "linalg_lu_factor", "linalg_cross", "linalg_vecdot",
    // Transforms.
    "fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_fft2", "fft_ifft2",
    "fft_rfft2", "fft_irfft2", "fft_fftn", "fft_ifftn", "fft_rfftn",
    "fft_irfftn", "view_as_real", "view_as_complex",
    // Functions.
    "softmax", "log_softmax", "layer_norm", "group_norm", "instance_norm",
    "batch_norm", "rms_norm", "dropout", "dropout_", "feature_dropout", "relu6",
    "relu6_", "selu", "selu_", "celu", "silu", "mish", "gelu", "logsigmoid",
    "log_sigmoid", "prelu", "rrelu", "softplus", "clip", "clip_", "clamp",
    "true_divide", "divide", "multiply", "subtract", "floor_divide", "negative",
    "absolute", "square", "square_", "where", "divide_", "multiply_",
    "subtract_", "negative_", "absolute_", "float_power", "positive", "fix",
    "greater", "greater_equal", "less", "less_equal", "not_equal", "arccos",
    "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "arctan2", "isfinite",
    "isreal", "ldexp", "special_ndtr", "special_polygamma", "vdot",
    "alpha_dropout", "feature_alpha_dropout", "grid_sampler", "masked_fill",
    "one_hot", "embedding", "gather", "index_select", "take_along_dim",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool3d",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "upsample_bilinear2d", "upsample_linear1d",
    "upsample_bicubic2d", "upsample_trilinear3d",
    // Sums and losses.
    "mean", "sum", "std", "var", "max", "min", "norm", "argsort", "msort",
    "nanmean", "linalg_norm", "linalg_matrix_norm", "frobenius_norm",
    "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "mse_loss",
    "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cosine_similarity",
    "cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss",
    "soft_margin_loss", "hinge_embedding_loss", "poisson_nll_loss",
    "pairwise_distance", "pdist", "multilabel_margin_loss", "embedding_bag",
    "isclose", "allclose",
    // Tensors of numbers.
    "arange", "zeros", "ones", "full", "empty", "tensor", "as_tensor", "rand",
    "randn", "randint", "zeros_like", "ones_like", "full_like", "empty_like",
    "rand_like", "randn_like", "new_zeros", "new_ones", "new_full", "new_empty",
    "new_tensor", "new", "resize_", "resize_as_", "eye", "tril", "triu",
    // Python's operators, and autograd's engine.
    "__radd__", "__rmul__", "__rsub__", "__rdiv__", "__rtruediv__", "__rpow__",
    "rsub", "__getitem__", "__setitem__", "run_backward", "apply"};

}  // namespace

PyRef LengthFunction() {
  static PyMethodDef definition = {"len", &LengthOf, METH_O, nullptr};
  static PyObject* function = PyCFunction_New(&definition, nullptr);
  return PyRef::Share(function);
}

bool IsFreeOfSizes(absl::string_view name) {
  static const auto& names = *new absl::flat_hash_set<absl::string_view>{
      "dim",
      "ndimension",
      "element_size",
      "get_device",
      "is_contiguous",
      "is_floating_point",
      "is_complex",
      "is_tensor",
      "is_inference",
      "is_conj",
      "is_neg",
      "is_signed",
      "is_pinned",
      "is_shared",
      "is_storage",
      "is_distributed",
      "is_grad_enabled",
      "has_names",
      "type",
      "result_type",
      "can_cast",
      "storage_offset",
      "data_ptr",
      "_is_view",
      "_is_zerotensor",
      "_nested_tensor_size",
      "has_torch_function",
      "has_torch_function_unary",
      "has_torch_function_variadic",
      "_has_torch_function",
      "_has_torch_function_unary",
      "_has_torch_function_variadic",
      "_get_tracing_state",
      "__hash__",
      "__contains__",
  };
  return names.contains(name);
}

bool IsKnownComposite(absl::string_view name) {
  static const auto& names = *new absl::flat_hash_set<absl::string_view>(
      std::begin(kComposites), std::end(kComposites));
  return names.contains(name) || absl::StartsWith(name, "_foreach_") ||
         absl::StartsWith(name, "_fused_");
}

}  // namespace mica
