#include "kernels/cuda/blas.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "kernels/cuda/library.h"

namespace mica::cuda {
namespace {

// cuBLASLt's own numbers.
constexpr int kTypeF32 = 0, kTypeF64 = 1, kTypeF16 = 2, kTypeBF16 = 14;
constexpr int kComputeF32 = 68, kComputeF64 = 70;
constexpr int kLayoutBatchCount = 5, kLayoutBatchOffset = 6;
constexpr int kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7,
              kDescBiasPointer = 8;
constexpr int kPreferenceWorkspace = 1, kPreferenceFirstAlignment = 5;
constexpr uint32_t kEpilogueDefault = 1, kEpilogueRelu = 2, kEpilogueBias = 4;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

// The library's functions, each of which returns 0 if all went well.
struct Table {
  int (*Create)(void**) = nullptr;
  int (*Destroy)(void*) = nullptr;
  int (*LayoutCreate)(void**, int type, uint64_t rows, uint64_t columns,
                      int64_t stride) = nullptr;
  int (*LayoutDestroy)(void*) = nullptr;
  int (*LayoutSet)(void*, int attribute, const void*, size_t) = nullptr;
  int (*DescCreate)(void**, int compute, int scale) = nullptr;
  int (*DescDestroy)(void*) = nullptr;
  int (*DescSet)(void*, int attribute, const void*, size_t) = nullptr;
  int (*PreferenceCreate)(void**) = nullptr;
  int (*PreferenceDestroy)(void*) = nullptr;
  int (*PreferenceSet)(void*, int attribute, const void*, size_t) = nullptr;
  int (*FindAlgorithms)(void* handle, void* desc, void* a, void* b, void* c,
                        void* d, void* preference, int wanted, Heuristic* found,
                        int* num_found) = nullptr;
  int (*Matmul)(void* handle, void* desc, const void* alpha, const void* a,
                void* a_layout, const void* b, void* b_layout, const void* beta,
                const void* c, void* c_layout, void* d, void* d_layout,
                const Algorithm*, void* workspace, size_t workspace_bytes,
                Stream) = nullptr;
};

absl::StatusOr<const Table*> Load() {
  MICA_ASSIGN_OR_RETURN(
      const Library library,
      Library::Open("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12",
                                 "libcublasLt.so"}));
  static Table t;
  MICA_RETURN_IF_ERROR(library.Find({
      {"cublasLtCreate", t.Create},
      {"cublasLtDestroy", t.Destroy},
      {"cublasLtMatrixLayoutCreate", t.LayoutCreate},
      {"cublasLtMatrixLayoutDestroy", t.LayoutDestroy},
      {"cublasLtMatrixLayoutSetAttribute", t.LayoutSet},
      {"cublasLtMatmulDescCreate", t.DescCreate},
      {"cublasLtMatmulDescDestroy", t.DescDestroy},
      {"cublasLtMatmulDescSetAttribute", t.DescSet},
      {"cublasLtMatmulPreferenceCreate", t.PreferenceCreate},
      {"cublasLtMatmulPreferenceDestroy", t.PreferenceDestroy},
      {"cublasLtMatmulPreferenceSetAttribute", t.PreferenceSet},
      {"cublasLtMatmulAlgoGetHeuristic", t.FindAlgorithms},
      {"cublasLtMatmul", t.Matmul},
  }));
  return &t;
}

absl::StatusOr<const Table*> FindTable() {
  static const auto& table = *new absl::StatusOr<const Table*>(Load());
  return table;
}

int TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return kTypeF64;
    case DType::kF16:
      return kTypeF16;
    case DType::kBF16:
      return kTypeBF16;
    default:
      return kTypeF32;
  }
}

uint32_t NumberOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kRelu:
      return kEpilogueRelu;
    case Epilogue::kBias:
      return kEpilogueBias;
    case Epilogue::kReluBias:
      return kEpilogueRelu | kEpilogueBias;
    case Epilogue::kNone:
      break;
  }
  return kEpilogueDefault;
}

absl::Status Check(int result, absl::string_view what) {
  if (result == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("asked for ", what, ", cuBLASLt gave error ", result));
}

}  // namespace

struct BlasPlan::State {
  const Table& table;
  void* handle = nullptr;
  BlasProduct product;
  void* desc = nullptr;
  void* layouts[4] = {};  // Of a, b, c and the result.
  Heuristic chosen = {};
  mutable Mutex mutex;  // Of the bias, which the description holds.

  explicit State(const Table& functions) : table(functions) {}
  ~State() {
    for (void* layout : layouts) {
      if (layout != nullptr) table.LayoutDestroy(layout);
    }
    if (desc != nullptr) table.DescDestroy(desc);
  }
  bool is_f64() const { return product.dtype == DType::kF64; }
  absl::Status MakeLayout(const BlasMatrix& matrix, DType dtype, int64_t rows,
                          int64_t columns, void*& layout) const;
  absl::Status MakeLayouts();
  absl::Status MakeDesc();
  absl::Status Choose();
};

absl::Status BlasPlan::State::MakeLayout(const BlasMatrix& matrix, DType dtype,
                                         int64_t rows, int64_t columns,
                                         void*& layout) const {
  if (matrix.is_transposed) std::swap(rows, columns);
  MICA_RETURN_IF_ERROR(Check(
      table.LayoutCreate(&layout, TypeOf(dtype), static_cast<uint64_t>(rows),
                         static_cast<uint64_t>(columns), matrix.stride),
      "a matrix"));
  if (product.batch == 1) return absl::OkStatus();
  const auto count = static_cast<int32_t>(product.batch);
  MICA_RETURN_IF_ERROR(
      Check(table.LayoutSet(layout, kLayoutBatchCount, &count, sizeof(count)),
            "a batch of matrices"));
  const int64_t offset = matrix.batch_stride;
  return Check(
      table.LayoutSet(layout, kLayoutBatchOffset, &offset, sizeof(offset)),
      "the distance of matrices");
}

absl::Status BlasPlan::State::MakeLayouts() {
  const BlasProduct& p = product;
  MICA_RETURN_IF_ERROR(MakeLayout(p.a, p.dtype, p.rows, p.inner, layouts[0]));
  MICA_RETURN_IF_ERROR(
      MakeLayout(p.b, p.dtype, p.inner, p.columns, layouts[1]));
  MICA_RETURN_IF_ERROR(
      MakeLayout(p.c, p.out_dtype, p.rows, p.columns, layouts[2]));
  return MakeLayout(p.out, p.out_dtype, p.rows, p.columns, layouts[3]);
}

absl::Status BlasPlan::State::MakeDesc() {
  MICA_RETURN_IF_ERROR(
      Check(table.DescCreate(&desc, is_f64() ? kComputeF64 : kComputeF32,
                             is_f64() ? kTypeF64 : kTypeF32),
            "a product"));
  const auto set = [this](int attribute, auto value) {
    return Check(table.DescSet(desc, attribute, &value, sizeof(value)),
                 "an attribute of a product");
  };
  MICA_RETURN_IF_ERROR(
      set(kDescTransA, int32_t{product.a.is_transposed ? 1 : 0}));
  MICA_RETURN_IF_ERROR(
      set(kDescTransB, int32_t{product.b.is_transposed ? 1 : 0}));
  return set(kDescEpilogue, NumberOf(product.epilogue));
}

absl::Status BlasPlan::State::Choose() {
  void* preference = nullptr;
  MICA_RETURN_IF_ERROR(
      Check(table.PreferenceCreate(&preference), "a preference"));
  const uint64_t bytes = Blas::kWorkspaceBytes;
  table.PreferenceSet(preference, kPreferenceWorkspace, &bytes, sizeof(bytes));
  const auto alignment = static_cast<uint32_t>(product.alignment);
  for (int matrix = 0; matrix < 4; ++matrix) {
    table.PreferenceSet(preference, kPreferenceFirstAlignment + matrix,
                        &alignment, sizeof(alignment));
  }
  if ((NumberOf(product.epilogue) & kEpilogueBias) != 0) {
    // How it is aligned is told by the address itself, which nobody reads.
    const auto* bias = reinterpret_cast<const void*>(product.alignment);
    table.DescSet(desc, kDescBiasPointer, &bias, sizeof(bias));
  }
  int num_found = 0;
  const int result =
      table.FindAlgorithms(handle, desc, layouts[0], layouts[1], layouts[2],
                           layouts[3], preference, 1, &chosen, &num_found);
  table.PreferenceDestroy(preference);
  if (result == 0 && num_found > 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "cuBLASLt has no way to multiply ", product.batch, " times [",
      product.rows, ",", product.inner, "] and [", product.inner, ",",
      product.columns, "] of ", DTypeName(product.dtype), ": error ", result));
}

BlasPlan::BlasPlan(std::unique_ptr<State> state) : state_(std::move(state)) {}
BlasPlan::~BlasPlan() = default;

absl::Status BlasPlan::Run(const BlasArgs& args, void* workspace,
                           Stream stream) const {
  const State& s = *state_;
  const auto f32_alpha = static_cast<float>(s.product.alpha);
  const auto f32_beta = static_cast<float>(s.product.beta);
  const void* alpha =
      s.is_f64() ? static_cast<const void*>(&s.product.alpha) : &f32_alpha;
  const void* beta =
      s.is_f64() ? static_cast<const void*>(&s.product.beta) : &f32_beta;
  const MutexLock lock(&s.mutex);
  if (args.bias != nullptr) {
    MICA_RETURN_IF_ERROR(Check(
        s.table.DescSet(s.desc, kDescBiasPointer, &args.bias, sizeof(void*)),
        "a bias"));
  }
  const void* c = s.product.beta == 0 ? args.out : args.c;
  return Check(s.table.Matmul(s.handle, s.desc, alpha, args.a, s.layouts[0],
                              args.b, s.layouts[1], beta, c, s.layouts[2],
                              args.out, s.layouts[3], &s.chosen.algorithm,
                              workspace, Blas::kWorkspaceBytes, stream),
               "a product to run");
}

absl::StatusOr<std::unique_ptr<Blas>> Blas::Create() {
  MICA_ASSIGN_OR_RETURN(const Table* table, FindTable());
  void* handle = nullptr;
  MICA_RETURN_IF_ERROR(Check(table->Create(&handle), "a handle"));
  return std::unique_ptr<Blas>(new Blas(handle));
}

Blas::~Blas() { (*FindTable())->Destroy(handle_); }

absl::StatusOr<std::unique_ptr<const BlasPlan>> Blas::Plan(
    const BlasProduct& product) const {
  MICA_ASSIGN_OR_RETURN(const Table* table, FindTable());
  auto state = std::make_unique<BlasPlan::State>(*table);
  state->handle = handle_;
  state->product = product;
  MICA_RETURN_IF_ERROR(state->MakeLayouts());
  MICA_RETURN_IF_ERROR(state->MakeDesc());
  MICA_RETURN_IF_ERROR(state->Choose());
  return std::unique_ptr<const BlasPlan>(new BlasPlan(std::move(state)));
}

}  // namespace mica::cuda
