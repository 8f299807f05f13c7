# Compiler, flags and where outputs go.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# The release build keeps line tables: a crash or a profile names the line.
# Kernels are optimised further (kernels/CMakeLists.txt); elsewhere -O3 takes a
# tenth longer to compile and runs no faster.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
if(MICA_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
else()
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
endif()

add_compile_options(-Wall -Wextra -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these falsely in std::variant, std::string and containers.
  add_compile_options(-Wno-maybe-uninitialized -Wno-stringop-overflow
                      -Wno-array-bounds -Wno-restrict)
endif()
# Designated initialisers leave out fields that have defaults.
add_compile_options(-Wno-missing-field-initializers)
if(MICA_WERROR)
  add_compile_options(-Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # And these, of Abseil's containers, which move empty storage as a whole.
    add_compile_options(-Wno-error=uninitialized
                        -Wno-error=free-nonheap-object)
  endif()
endif()

if(MICA_SANITIZE)
  list(JOIN MICA_SANITIZE "," mica_sanitizers)
  add_compile_options(-fsanitize=${mica_sanitizers} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${mica_sanitizers})
  if("undefined" IN_LIST MICA_SANITIZE)
    # What the address sanitizer finds itself takes a fifth of all compilation.
    add_compile_options(-fno-sanitize-recover=undefined
      -fno-sanitize=null,object-size,pointer-overflow)
  endif()
endif()

# What vector loops are compiled for, and which of it this machine runs.
set(MICA_SIMD_LEVELS v1)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND MICA_SIMD_LEVELS v3 v4)
endif()
set(MICA_SIMD_HERE v1)
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo mica_avx2 REGEX "avx2" LIMIT_COUNT 1)
  file(STRINGS /proc/cpuinfo mica_avx512 REGEX "avx512vl" LIMIT_COUNT 1)
  if(mica_avx512)
    set(MICA_SIMD_HERE v4)
  elseif(mica_avx2)
    set(MICA_SIMD_HERE v3)
  endif()
endif()

# What names a build: Plans on disk are valid for one alone.
add_link_options(-Wl,--build-id=sha1)

# ccache keeps what uses precompiled headers only if these stay in the
# preprocessed text.
set(MICA_PCH_OPTIONS)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(MICA_PCH_OPTIONS -fpch-preprocess)
endif()
find_program(MICA_CCACHE ccache)
if(MICA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${CMAKE_CURRENT_LIST_DIR}/compile.sh")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_CURRENT_LIST_DIR}/compile.sh")
endif()
