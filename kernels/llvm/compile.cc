#include "kernels/llvm/compile.h"

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "kernels/llvm/emitter.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"

namespace mica::region::ir {
namespace {

// LLVM takes half a second and 20 MB for so many.
constexpr unsigned kMostWritten = 40'000;

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

const char* ProcessorOf(Level level) {
  switch (level) {
    case Level::kV1:
      return "x86-64";
    case Level::kV3:
      return "x86-64-v3";
    case Level::kV4:
      return "x86-64-v4";
  }
  return "x86-64";
}

// Passes that find nothing in such code, or, as the one that counts addresses
// up, nothing that the processor's own addressing doesn't do.
void LeaveOutPasses() {
  constexpr const char* kOptions[] = {
      "mica",
      "-disable-lsr",
      "-disable-constant-hoisting",
      "-disable-partial-libcall-inlining",
      "-disable-mergeicmps",
      "-disable-x86-domain-reassignment",
      "-x86-cmov-converter=0",
      "-disable-early-taildup",
  };
  llvm::cl::ParseCommandLineOptions(std::size(kOptions), kOptions,
                                    /*Overview=*/"", &llvm::nulls());
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeMachine(Level level) {
  static const bool is_there = [] {
    LeaveOutPasses();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)is_there;
  std::string error;
  const llvm::Target* const target =
      llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (target == nullptr) return absl::InternalError(error);
  llvm::TargetOptions options;
  // A product and a sum are two roundings, unless the code says one.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      kTriple, ProcessorOf(level), "", options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) return absl::InternalError("LLVM: no machine");
  return machine;
}

// Made once: it takes as long as a small region.
absl::StatusOr<llvm::TargetMachine*> MachineFor(Level level) {
  static std::unique_ptr<llvm::TargetMachine> machines[3];
  std::unique_ptr<llvm::TargetMachine>& machine =
      machines[static_cast<int>(level)];
  if (machine == nullptr) {
    MICA_ASSIGN_OR_RETURN(machine, MakeMachine(level));
  }
  return machine.get();
}

}  // namespace

absl::StatusOr<Image> Compile(const Signature& signature, Level level) {
  MICA_ASSIGN_OR_RETURN(llvm::TargetMachine * machine, MachineFor(level));
  llvm::LLVMContext context;
  llvm::Module module("region", context);
  module.setTargetTriple(kTriple);
  module.setDataLayout(machine->createDataLayout());
  const std::vector<uint64_t> loops = Emit(signature, level, module);
  const unsigned written = module.getInstructionCount();
  if (written > kMostWritten) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it is ", written, " instructions of LLVM, at most ",
                     kMostWritten, " are compiled"));
  }
#ifndef NDEBUG
  std::string broken;
  llvm::raw_string_ostream words(broken);
  if (llvm::verifyModule(module, &words)) {
    return absl::InternalError(absl::StrCat("LLVM: ", words.str()));
  }
#endif
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile,
                                   /*DisableVerify=*/true)) {
    return absl::InternalError("LLVM: writes no objects for this machine");
  }
  passes.run(module);
  return Flatten(absl::string_view(object.data(), object.size()), kEntry,
                 loops);
}

}  // namespace mica::region::ir
