// A region's operands and results in its code, vector by vector.

#ifndef MICA_KERNELS_LLVM_ROW_VECTORS_H_
#define MICA_KERNELS_LLVM_ROW_VECTORS_H_

#include <functional>
#include <vector>

#include "kernels/llvm/ir_lanes.h"
#include "kernels/region/region_rows.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"

namespace mica::region::ir {

// Writes how vectors of as many elements as there are lanes come from a row's
// arrays and go to them:
//
//   Load(i):  strided operands: copied to a buffer, element by element
//             i + lanes <= n ? load vectors : load what there is
//   Store(i): i + lanes <= n ? store vectors : store what there is
//             strided results: copied from a buffer
//
// "What there is" goes by masks where the processor has them for the type, and
// through buffers else. All loads stand before all stores, so a result may lie
// where an operand lies.
class RowVectors {
 public:
  // Reads the function's argument, a RegionRows, and makes buffers; belongs
  // into the first block.
  RowVectors(const Signature& signature, llvm::Function* function,
             Writer& writer);

  llvm::Value* rows() const { return rows_; }
  llvm::Value* n() const { return n_; }

  // Finds row `row` of each array.
  void StartRow(llvm::Value* row);
  // Elements `i` and following.
  void Load(llvm::Value* i);
  // The same elements of the results, which must have been set.
  void Store(llvm::Value* i);

  // As it lies in memory.
  llvm::Value* operand(int k) const { return operands_[k].in_memory; }
  bool is_used(int result) const { return results_[result].array.is_used; }
  void SetResult(int k, llvm::Value* in_memory) {
    results_[k].in_memory = in_memory;
  }

 private:
  struct Place {
    Array array;
    int index = 0;  // Among operands and results.
    bool is_result = false;
    llvm::AllocaInst* buffer = nullptr;  // Room for a vector.
    llvm::Value* base = nullptr;         // Of the row.
    llvm::Value* step = nullptr;         // In bytes, if strided.
    llvm::Value* in_memory = nullptr;    // The vector as it lies there.

    bool is_dense() const { return array.access == Access::kDense; }
  };
  using Places = std::vector<Place*>;

  void AddOperands(const Signature& signature);
  void AddResults(const Signature& signature);
  void AddBuffer(Place& place);
  Places Dense(std::vector<Place>& from, bool by_buffer);
  // Those that aren't dense, and no operands of one element.
  Places Strided(std::vector<Place>& from);

  llvm::Type* VectorOf(const Place& place) const;
  llvm::Value* DenseAddress(const Place& place, llvm::Value* i);
  llvm::Value* WholeVector(const Place& place, llvm::Value* i);
  llvm::Value* MaskedVector(const Place& place, llvm::Value* i);
  llvm::Value* FromBuffer(const Place& place);
  void ToBuffer(const Place& place);
  // for j < count: between buffers and the elements from `i` on.
  void CopyElements(const Places& places, llvm::Value* i, llvm::Value* count);
  // Branches on whether the vector is full; `full` and `part` write the sides.
  void EitherWay(const std::function<void()>& full,
                 const std::function<void()>& part);

  llvm::Function* const function_;
  Writer& w_;
  llvm::IRBuilder<>& b_;
  std::vector<Place> operands_, results_;
  llvm::Value* at_ = nullptr;
  llvm::Value* row_steps_ = nullptr;
  llvm::Value* steps_ = nullptr;
  llvm::Value* rows_ = nullptr;
  llvm::Value* n_ = nullptr;
  // Of the vector at hand.
  llvm::Value* left_ = nullptr;     // Elements of the row.
  llvm::Value* is_full_ = nullptr;  // Whether these are enough.
  llvm::Value* count_ = nullptr;    // The lanes that have an element.
};

}  // namespace mica::region::ir

#endif  // MICA_KERNELS_LLVM_ROW_VECTORS_H_
