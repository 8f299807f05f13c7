// What libmica_llvm.so exports: C alone, so that who loads it shares nothing
// with what it is linked from.

#ifndef MICA_KERNELS_LLVM_PLUGIN_H_
#define MICA_KERNELS_LLVM_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

extern "C" {

// EmitterVersion() of what it was built from: another than the caller's makes
// code for other interfaces.
typedef const char* MicaLlvmVersionFn(void);
// "LLVM 19.1.7".
typedef const char* MicaLlvmNameFn(void);

// Compiles a signature's text (kernels/region/signature.h) to a RegionFn for
// the level "v1", "v3" or "v4". Calls `take` once: with the image, whose
// function is at `entry`, and returns 0; or with a message, and returns 1.
// Thread-safe; one compiles at a time.
typedef int MicaLlvmCompileFn(const char* text, size_t text_bytes,
                              const char* level, void* context,
                              void (*take)(void* context, const char* bytes,
                                           size_t num_bytes, int64_t entry));

#define MICA_LLVM_VERSION "mica_llvm_version"
#define MICA_LLVM_NAME "mica_llvm_name"
#define MICA_LLVM_COMPILE "mica_llvm_compile"
}

#endif  // MICA_KERNELS_LLVM_PLUGIN_H_
