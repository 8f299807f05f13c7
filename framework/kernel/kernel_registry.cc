#include "framework/kernel/kernel_registry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mica {

std::string KernelKey::ToString() const {
  return absl::StrCat(op, " ", DTypeName(dtype));
}

void KernelRegistry::Add(const KernelKey& key, KernelRank rank, Kernel kernel) {
  Candidates& candidates = kernels_[key];
  if (rank == KernelRank::kReference) {
    candidates.kernels.push_back(std::move(kernel));
    return;
  }
  const bool is_fast = rank == KernelRank::kFast;
  const int at = candidates.num_fast + (is_fast ? 0 : candidates.num_plain);
  ++(is_fast ? candidates.num_fast : candidates.num_plain);
  candidates.kernels.insert(candidates.kernels.begin() + at, std::move(kernel));
}

void KernelRegistry::Add(absl::string_view op, absl::Span<const DType> dtypes,
                         KernelRank rank, const Kernel& kernel) {
  for (DType dtype : dtypes) {
    Add(KernelKey{.op = std::string(op), .dtype = dtype}, rank, kernel);
  }
}

absl::Span<const Kernel> KernelRegistry::Find(const KernelKey& key) const {
  const auto it = kernels_.find(key);
  if (it == kernels_.end()) return {};
  return it->second.kernels;
}

absl::Span<const Kernel> KernelRegistry::FindFast(const KernelKey& key) const {
  const auto it = kernels_.find(key);
  if (it == kernels_.end()) return {};
  return absl::MakeSpan(it->second.kernels).first(it->second.num_fast);
}

absl::Span<const Kernel> KernelRegistry::FindPlain(const KernelKey& key) const {
  const auto it = kernels_.find(key);
  if (it == kernels_.end()) return {};
  return absl::MakeSpan(it->second.kernels)
      .subspan(it->second.num_fast, it->second.num_plain);
}

bool KernelRegistry::HasFast(absl::string_view op, DType dtype) const {
  return !FindFast({.op = std::string(op), .dtype = dtype}).empty();
}

const Kernel* KernelRegistry::FindReference(const KernelKey& key) const {
  const auto it = kernels_.find(key);
  if (it == kernels_.end()) return nullptr;
  const Candidates& candidates = it->second;
  const size_t first = candidates.num_fast + candidates.num_plain;
  if (first == candidates.kernels.size()) return nullptr;
  return &candidates.kernels[first];
}

std::vector<KernelKey> KernelRegistry::Keys() const {
  std::vector<KernelKey> keys;
  for (const auto& [key, candidates] : kernels_) keys.push_back(key);
  std::sort(keys.begin(), keys.end(),
            [](const KernelKey& a, const KernelKey& b) {
              return a.ToString() < b.ToString();
            });
  return keys;
}

}  // namespace mica
