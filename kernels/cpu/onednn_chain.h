// Primitives of oneDNN that run one after the other.

#ifndef MICA_KERNELS_CPU_ONEDNN_CHAIN_H_
#define MICA_KERNELS_CPU_ONEDNN_CHAIN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dnnl.h"
#include "framework/kernel/kernel.h"
#include "kernels/cpu/onednn.h"

namespace mica::cpu {

// OK, or the library's status with what was asked of it.
absl::Status CheckDnnl(dnnl_status_t status, absl::string_view what);

// Undefined for a type that the library hasn't got; it says so.
dnnl_data_type_t DnnlTypeOf(DType dtype);

// All of how a tensor's elements lie, as text that is equal for equal layouts;
// empty if the library alone knows.
std::string DescribeDnnlDesc(const_dnnl_memory_desc_t desc);

// The library has a plain loop for whatever nothing else takes: an error.
absl::Status CheckFast(const_dnnl_primitive_desc_t desc);

// Owns a handle of the library's C interface.
template <typename Handle, dnnl_status_t (*kDestroy)(Handle)>
class DnnlOwned {
 public:
  DnnlOwned() = default;
  explicit DnnlOwned(Handle handle) : handle_(handle) {}
  ~DnnlOwned() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  DnnlOwned(DnnlOwned&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  DnnlOwned& operator=(DnnlOwned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Handle get() const { return handle_; }
  Handle* put() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using DnnlEngine = DnnlOwned<dnnl_engine_t, dnnl_engine_destroy>;
using DnnlStream = DnnlOwned<dnnl_stream_t, dnnl_stream_destroy>;
using DnnlDesc = DnnlOwned<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
using DnnlMemory = DnnlOwned<dnnl_memory_t, dnnl_memory_destroy>;
using DnnlAttributes =
    DnnlOwned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using DnnlPrimitiveDesc =
    DnnlOwned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using DnnlPrimitive = DnnlOwned<dnnl_primitive_t, dnnl_primitive_destroy>;

// An engine for this processor, after CheckDnnlRuns().
absl::Status CreateEngine(DnnlEngine& engine);

// A list of primitives over buffers, each a launch argument or a piece of the
// launch's scratch memory. Made while preparing, then immutable and
// thread-safe: what keeps addresses is in an instance, one for each Job.
class OneDnnChain {
 public:
  using BufferId = int;

  absl::Status Init();
  dnnl_engine_t engine() const { return engine_.get(); }
  // Attributes that leave scratchpads to the chain.
  const_dnnl_primitive_attr_t attributes() const { return attributes_.get(); }

  // The launch argument `arg`, lying as `desc` says.
  absl::Status AddArgument(int arg, const_dnnl_memory_desc_t desc,
                           BufferId* buffer);
  absl::Status AddScratch(const_dnnl_memory_desc_t desc, BufferId* buffer);
  // `from` as `desc` wants it: itself, or a copy by a reorder.
  absl::Status AddInput(BufferId from, const_dnnl_memory_desc_t desc,
                        BufferId* buffer);
  // Where a primitive may write `desc` that shall end in `to`: `to` itself, or
  // scratch memory, which AddOutput() reorders when it is written.
  absl::Status StageOutput(BufferId to, const_dnnl_memory_desc_t desc,
                           BufferId* buffer);
  absl::Status AddOutput(BufferId from, BufferId to);
  // Runs the primitive on (DNNL_ARG_*, buffer) pairs.
  absl::Status AddPrimitive(const_dnnl_primitive_desc_t desc,
                            std::vector<std::pair<int, BufferId>> buffers);

  int64_t scratch_bytes() const { return scratch_bytes_; }
  int num_primitives() const { return static_cast<int>(steps_.size()); }

  // The handles of one Job. The chain must outlive it.
  class Instance {
   public:
    // `scratch_arg` is the launch argument with scratch_bytes().
    static absl::StatusOr<std::unique_ptr<Instance>> Create(
        const OneDnnChain& chain, int scratch_arg);
    absl::Status Run(void* const* args);

   private:
    explicit Instance(const OneDnnChain& chain) : chain_(chain) {}
    const OneDnnChain& chain_;
    int scratch_arg_ = -1;
    DnnlStream stream_;
    std::vector<DnnlMemory> memories_;
    std::vector<std::vector<dnnl_exec_arg_t>> exec_args_;  // Of each step.
  };

 private:
  struct Buffer {
    DnnlDesc desc;
    int arg = -1;        // -1: scratch memory,
    int64_t offset = 0;  // from here on, in bytes.
  };
  struct Step {
    DnnlPrimitive primitive;
    std::vector<std::pair<int, BufferId>> buffers;
  };
  absl::Status AddReorder(BufferId from, BufferId to);

  DnnlEngine engine_;
  DnnlAttributes attributes_;
  std::vector<Buffer> buffers_;
  std::vector<Step> steps_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_ONEDNN_CHAIN_H_
