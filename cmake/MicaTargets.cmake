# How the tree's targets are made. Sources are globbed with CONFIGURE_DEPENDS:
# a new file in a folder is in the build without an edit here.

# What a user needs: the binaries of tools/ and the Python extension.
add_custom_target(mica_product)
# What the Python tests need: the extension, and the modules that show its parts
# to tests.
add_custom_target(mica_python)
# The C++ tests' binaries.
add_custom_target(mica_tests)
# The binaries of those in which threads share what isn't one thread's alone:
# what is worth a run under the thread sanitizer. `ctest -L threads` runs them.
add_custom_target(mica_thread_tests)
set(MICA_THREAD_TESTS
  analysis_plan_plan_cache_test
  analysis_plan_plan_store_test
  executor_device_simulated_device_test
  executor_job_crew_test
  executor_job_interrupt_test
  executor_job_queue_run_test
  executor_schedule_cut_run_test
  executor_schedule_schedule_runner_test
  executor_serving_test
  executor_shared_plan_test
  executor_trace_run_trace_test
  executor_watch_watch_test
  framework_trace_recorder_test
  kernels_llvm_region_compiler_test)

# Those that run in parts, side by side, and first: they take longest.
set(MICA_LONG_TESTS tests_conformance_kernels_test)

# Sets `out` to the folder's *.cc, below it too, less tests and benchmarks.
# Further arguments are regular expressions of paths to leave out.
function(mica_glob_sources out)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  list(FILTER files EXCLUDE REGEX "(_test|_benchmark|_fuzz|_main)\\.cc$")
  foreach(pattern ${ARGN})
    list(FILTER files EXCLUDE REGEX "${pattern}")
  endforeach()
  set(${out} "${files}" PARENT_SCOPE)
endfunction()

# mica_library(NAME [APART] SRCS files… DEPS targets…): a static library;
# without sources, an interface library, so that a folder may still be empty.
# APART: its files are each compiled by themselves under MICA_UNITY, too, as
# their own names (State, Prepare) are the same in many.
function(mica_library name)
  cmake_parse_arguments(arg "APART" "" "SRCS;DEPS" ${ARGN})
  if(arg_SRCS)
    add_library(${name} STATIC ${arg_SRCS})
    target_link_libraries(${name} PUBLIC mica_base ${arg_DEPS})
    if(NOT arg_APART)
      set_target_properties(${name} PROPERTIES
        UNITY_BUILD ${MICA_UNITY} UNITY_BUILD_BATCH_SIZE 8)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE mica_base ${arg_DEPS})
  endif()
endfunction()

# mica_precompile(NAME headers…): what most of a target's files include, compiled
# once. A file still includes all that it uses.
function(mica_precompile name)
  target_compile_options(${name} PRIVATE ${MICA_PCH_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

# mica_simd_sources(NAME files…): compiles each file into the library NAME once
# for each of MICA_SIMD_LEVELS, which MICA_SIMD_NAMESPACE names: v1 is what every
# processor of the architecture has, v3 is AVX2, v4 AVX-512. A file puts all it
# defines in that namespace, and includes only C headers, <immintrin.h> and its
# own folder: an inline function of a shared header would be one symbol compiled
# for several machines, and the linker may keep one that the machine at hand
# can't run.
function(mica_simd_sources name)
  if(NOT ARGN)
    return()
  endif()
  foreach(level IN LISTS MICA_SIMD_LEVELS)
    set(object ${name}_simd_${level})
    add_library(${object} OBJECT ${ARGN})
    target_include_directories(${object} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_compile_definitions(${object} PRIVATE MICA_SIMD_NAMESPACE=${level})
    if(NOT level STREQUAL "v1")
      target_compile_options(${object} PRIVATE -march=x86-64-${level})
    endif()
    if(level STREQUAL "v4")
      target_compile_options(${object} PRIVATE -mprefer-vector-width=512)
    endif()
    if(MICA_SANITIZE AND NOT level STREQUAL MICA_SIMD_HERE)
      # The sanitizers see the level that this machine runs.
      target_compile_options(${object} PRIVATE -fno-sanitize=all)
    elseif("undefined" IN_LIST MICA_SANITIZE)
      # A vector load says itself whether it wants aligned memory: to check each
      # takes most of these files' time.
      target_compile_options(${object} PRIVATE -fno-sanitize=alignment)
    endif()
    if("address" IN_LIST MICA_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Checks as calls: inline they take more than half of all compilation.
      target_compile_options(${object} PRIVATE
        --param asan-instrumentation-with-call-threshold=0)
    endif()
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${object}>)
  endforeach()
endfunction()

# mica_tool(NAME SRCS files… DEPS targets…): a binary in bin/.
function(mica_tool name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} gflags)
  add_dependencies(mica_product ${name})
endfunction()

# What nearly every test includes, compiled once: a third of its time otherwise.
# Executables, and one with OpenMP, since its flags have to be the tests'.
function(mica_test_headers name)
  set(source "${PROJECT_BINARY_DIR}/test_headers.cc")
  if(NOT EXISTS "${source}")
    file(WRITE "${source}" "int main() {}\n")
  endif()
  add_executable(${name} EXCLUDE_FROM_ALL "${source}")
  target_link_libraries(${name} PRIVATE
    mica_base GTest::gmock GTest::gtest ${ARGN})
  mica_precompile(${name}
    <gmock/gmock.h> <gtest/gtest.h> <absl/status/status.h>
    <absl/status/statusor.h> <absl/strings/str_cat.h>)
endfunction()
if(MICA_TESTS)
  mica_test_headers(mica_test_headers)
  mica_test_headers(mica_test_headers_openmp OpenMP::OpenMP_CXX)
endif()

# mica_test_binary(NAME SRCS files… DEPS targets…): one GoogleTest binary of
# several test files, under MICA_UNITY compiled eight as one: what they include
# and instantiate is most of a test's time.
function(mica_test_binary name)
  cmake_parse_arguments(arg "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${arg_SRCS})
  target_link_libraries(${name} PRIVATE
    ${arg_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${MICA_PCH_OPTIONS})
  if(arg_DEPS MATCHES "kernels|analysis|executor|tools")
    target_precompile_headers(${name} REUSE_FROM mica_test_headers_openmp)
  else()
    target_precompile_headers(${name} REUSE_FROM mica_test_headers)
  endif()
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD ${MICA_UNITY} UNITY_BUILD_BATCH_SIZE 8
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  add_dependencies(mica_tests ${name})
endfunction()

# mica_test(NAME FILE BINARY LABELS…): what ctest runs of a test file, which is
# in BINARY: its suites, in a process of their own. Tests read the tree's files
# relative to its root.
function(mica_test name file binary)
  file(STRINGS "${file}" lines REGEX "^(TEST|TEST_F|TEST_P|TYPED_TEST)\\(")
  set(suites)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+).*" "\\1" suite "${line}")
    list(APPEND suites "${suite}.*" "*/${suite}.*" "${suite}/*")
  endforeach()
  list(REMOVE_DUPLICATES suites)
  if(NOT suites)
    message(FATAL_ERROR "${file} has no test")
  endif()
  list(JOIN suites ":" filter)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  set(parts ${name})
  if(name IN_LIST MICA_LONG_TESTS)
    set(parts ${name}_0 ${name}_1 ${name}_2 ${name}_3)
  endif()
  list(LENGTH parts count)
  foreach(part IN LISTS parts)
    list(FIND parts ${part} index)
    add_test(NAME ${part} COMMAND ${binary} "--gtest_filter=${filter}"
             WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${part} PROPERTIES
      TIMEOUT 600 COST ${count} LABELS "${ARGN}"
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${count};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# The tests of all *_test.cc below the folder: a binary FOLDER_tests, and one
# FOLDER_thread_tests of those that are worth a run under the thread sanitizer.
# And one benchmark binary for each *_benchmark.cc. DEPS is what all link to;
# APART names folders below that have their own.
function(mica_folder_tests)
  if(NOT MICA_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "DEPS;APART" ${ARGN})
  get_filename_component(folder "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS
       "${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc")
  file(GLOB_RECURSE benchmarks CONFIGURE_DEPENDS
       "${CMAKE_CURRENT_SOURCE_DIR}/*_benchmark.cc")
  foreach(apart ${arg_APART})
    list(FILTER tests EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${apart}/")
    list(FILTER benchmarks EXCLUDE REGEX
         "^${CMAKE_CURRENT_SOURCE_DIR}/${apart}/")
  endforeach()
  set(plain)
  set(threads)
  foreach(file ${tests})
    mica_target_name(name "${file}")
    if(name IN_LIST MICA_THREAD_TESTS)
      list(APPEND threads "${file}")
      mica_test(${name} "${file}" ${folder}_thread_tests threads)
    else()
      list(APPEND plain "${file}")
      mica_test(${name} "${file}" ${folder}_tests)
    endif()
  endforeach()
  if(plain)
    mica_test_binary(${folder}_tests SRCS ${plain} DEPS ${arg_DEPS})
  endif()
  if(threads)
    mica_test_binary(${folder}_thread_tests SRCS ${threads} DEPS ${arg_DEPS})
    add_dependencies(mica_thread_tests ${folder}_thread_tests)
  endif()
  foreach(file ${benchmarks})
    mica_target_name(name "${file}")
    add_executable(${name} "${file}")
    target_link_libraries(${name} PRIVATE
      ${arg_DEPS} benchmark::benchmark benchmark::benchmark_main)
    set_target_properties(${name} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/benchmarks")
  endforeach()
endfunction()

# framework/ir/program_test.cc becomes framework_ir_program_test: file names
# need to be unique within their folder only.
function(mica_target_name out file)
  file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${file}")
  string(REGEX REPLACE "\\.cc$" "" name "${name}")
  string(REPLACE "/" "_" name "${name}")
  set(${out} "${name}" PARENT_SCOPE)
endfunction()
