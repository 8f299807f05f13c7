#include "python/torch_side/opaque/result_places.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>

namespace mica {
namespace {

// Where a tensor's memory begins; null for one without memory of its own.
const void* MemoryOf(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  return tensor.storage().data();
}

}  // namespace

// In front of torch's own allocator, which it asks for all but results.
class ResultPlaces::PlacingAllocator final : public c10::Allocator {
 public:
  explicit PlacingAllocator(c10::Allocator* next) : next_(next) {}

  c10::DataPtr allocate(size_t bytes) override {
    ResultPlaces* const call = current_;
    if (call == nullptr) return next_->allocate(bytes);
    if (Place* place = call->Next(bytes)) {
      place->is_given = true;
      place->is_free = false;
      return {place->data, place, TakeBack, c10::DeviceType::CPU};
    }
    c10::DataPtr given = next_->allocate(bytes);
    if (call->is_watching_) call->given_.push_back(given.get());
    return given;
  }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return next_->is_simple_data_ptr(data);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return next_->raw_deleter();
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    next_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* const next_;
};

thread_local ResultPlaces* ResultPlaces::current_ = nullptr;

void ResultPlaces::Install() {
  static PlacingAllocator* const installed = [] {
    auto* allocator = new PlacingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(allocator);
    return allocator;
  }();
  (void)installed;
}

AllocationOrder::AllocationOrder(size_t num_results)
    : num_results_(num_results),
      order_(std::make_unique<std::atomic<int64_t>[]>(num_results)) {}

void AllocationOrder::Learn(absl::Span<const int64_t> order) {
  for (size_t i = 0; i < num_results_; ++i) order_[i].store(order[i]);
  is_known_.store(true);
}

ResultPlaces::ResultPlaces(AllocationOrder& order,
                           absl::Span<const TensorType> types,
                           void* const* results)
    : order_(order), types_(types), results_(results), outer_(current_) {
  is_watching_ = order.is_unknown();
  places_.resize(types.size());
  for (size_t i = 0; i < types.size() && !is_watching_; ++i) {
    if (results[i] == nullptr) continue;
    places_[i] = {.data = results[i],
                  .order = order.at(i),
                  .bytes = static_cast<size_t>(types[i].num_bytes())};
  }
  current_ = this;
}

ResultPlaces::~ResultPlaces() { Stop(); }

void ResultPlaces::Stop() {
  if (is_over_) return;
  is_over_ = true;
  current_ = outer_;
}

void ResultPlaces::Finish(absl::Span<const at::Tensor> tensors) {
  Stop();
  if (is_watching_) LearnOrder(tensors);
}

bool ResultPlaces::AreKept() const {
  return std::any_of(places_.begin(), places_.end(),
                     [](const Place& place) { return !place.is_free; });
}

void ResultPlaces::TakeBack(void* place) {
  static_cast<Place*>(place)->is_free = true;
}

ResultPlaces::Place* ResultPlaces::Next(size_t bytes) {
  const int64_t order = num_allocations_++;
  for (Place& place : places_) {
    if (place.order == order && place.bytes == bytes && !place.is_given) {
      return &place;
    }
  }
  return nullptr;
}

void ResultPlaces::LearnOrder(absl::Span<const at::Tensor> tensors) {
  absl::InlinedVector<int64_t, 3> order(types_.size(), -1);
  for (size_t i = 0; i < std::min(tensors.size(), types_.size()); ++i) {
    const void* memory = MemoryOf(tensors[i]);
    if (memory == nullptr || !LiesAt(tensors[i], memory, types_[i])) continue;
    // The last with this address: what had it before gave it back.
    for (size_t k = given_.size(); k-- > 0;) {
      if (given_[k] != memory) continue;
      order[i] = static_cast<int64_t>(k);
      break;
    }
  }
  order_.Learn(order);
}

bool LiesAt(const at::Tensor& tensor, const void* data,
            const TensorType& type) {
  if (!tensor.defined() || tensor.dim() != type.rank() || !type.is_dense() ||
      tensor.is_conj() || tensor.is_neg() || !tensor.has_storage() ||
      tensor.numel() != type.num_elements() ||
      tensor.nbytes() != static_cast<size_t>(type.num_bytes()) ||
      tensor.storage().nbytes() != tensor.nbytes() ||
      tensor.storage_offset() != 0 || tensor.storage().data() != data) {
    return false;
  }
  if (type.strides.empty()) {
    return tensor.is_contiguous() &&
           tensor.sizes() ==
               c10::IntArrayRef(type.dims.data(), type.dims.size());
  }
  const Dims strides = type.EffectiveStrides();
  for (int i = 0; i < type.rank(); ++i) {
    if (tensor.size(i) != type.dims[i]) return false;
    if (type.dims[i] > 1 && tensor.stride(i) != strides[i]) return false;
  }
  return true;
}

}  // namespace mica
