# LLVM 19, from which libmica_llvm.so is linked (kernels/llvm): its X86 part
# alone, statically. Sets MICA_LLVM_FOUND.

set(MICA_LLVM_FOUND OFF)
if(NOT MICA_LLVM)
  return()
endif()
if(MICA_SANITIZE)
  # LLVM's archives aren't sanitized, and the emitter's templates take minutes.
  message(STATUS "Machine code of regions: none in a sanitized build")
  return()
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  message(STATUS "Machine code of regions: for x86-64 alone, so none")
  return()
endif()
# By its own command, not by its CMake files, which want every library that any
# part of LLVM uses.
find_program(MICA_LLVM_CONFIG NAMES llvm-config-19
             PATHS /usr/lib/llvm-19/bin NO_CMAKE_FIND_ROOT_PATH)
if(MICA_LLVM_CONFIG)
  execute_process(
    COMMAND "${MICA_LLVM_CONFIG}" --link-static --libfiles x86codegen object
    OUTPUT_VARIABLE MICA_LLVM_ARCHIVES OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET RESULT_VARIABLE failed)
  execute_process(
    COMMAND "${MICA_LLVM_CONFIG}" --includedir
    OUTPUT_VARIABLE MICA_LLVM_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
# What compresses sections of object files, which LLVM's support library names.
find_library(MICA_ZLIB NAMES z libz.so.1)
find_library(MICA_ZSTD NAMES zstd libzstd.so.1)
if(NOT MICA_LLVM_CONFIG OR failed OR NOT MICA_ZLIB OR NOT MICA_ZSTD OR
   NOT EXISTS "${MICA_LLVM_INCLUDE}/llvm/IR/IRBuilder.h")
  message(STATUS "Machine code of regions: no LLVM 19 (llvm-19-dev), so none; "
                 "they are interpreted")
  return()
endif()
separate_arguments(MICA_LLVM_ARCHIVES UNIX_COMMAND "${MICA_LLVM_ARCHIVES}")
set(MICA_LLVM_FOUND ON)
