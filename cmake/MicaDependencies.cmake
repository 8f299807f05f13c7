# Everything that is not ours. Debian packages come by their own config files;
# oneDNN and nanobind come from the wheels in .venv.

set(MICA_VENV "${PROJECT_SOURCE_DIR}/.venv" CACHE PATH
    "Virtual environment with oneDNN, nanobind and torch")
if(SKBUILD AND NOT EXISTS "${MICA_VENV}/lib/cmake/dnnl")
  # pip builds in an environment of its own, which isn't its Python's prefix.
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "from importlib.metadata import distribution as d; print(d('onednn-devel-cpu-gomp').locate_file('../../..').resolve())"
    OUTPUT_VARIABLE MICA_VENV OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
endif()
list(PREPEND CMAKE_PREFIX_PATH "${MICA_VENV}")

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(gflags REQUIRED)
find_package(glog REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
# Debian ships xxhash without a CMake file; its header is all that is used.
find_path(MICA_XXHASH_INCLUDE xxhash.h REQUIRED)

if(NOT MICA_FUZZ)  # Those stop short of the kernels.
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
if(MICA_ONEDNN AND NOT MICA_FUZZ)
  find_package(dnnl 3 CONFIG REQUIRED)
endif()

if(MICA_XSMM AND NOT MICA_FUZZ)
  # Debian ships libxsmm as static archives without a CMake file. `noblas` gives
  # the BLAS symbols that its fall-back paths name and that we never reach.
  find_path(MICA_XSMM_INCLUDE libxsmm.h REQUIRED)
  find_library(MICA_XSMM_LIBRARY NAMES libxsmm.a REQUIRED)
  find_library(MICA_XSMM_NOBLAS_LIBRARY NAMES libxsmmnoblas.a REQUIRED)
  add_library(mica_xsmm INTERFACE)
  target_include_directories(mica_xsmm SYSTEM INTERFACE "${MICA_XSMM_INCLUDE}")
  target_link_libraries(mica_xsmm INTERFACE
    "${MICA_XSMM_LIBRARY}" "${MICA_XSMM_NOBLAS_LIBRARY}" Threads::Threads
    ${CMAKE_DL_LIBS} m)
endif()

# What every part of the tree may use.
add_library(mica_base INTERFACE)
target_include_directories(mica_base INTERFACE "${PROJECT_SOURCE_DIR}")
target_include_directories(mica_base SYSTEM INTERFACE "${MICA_XXHASH_INCLUDE}")
target_link_libraries(mica_base INTERFACE
  absl::algorithm_container absl::base absl::cleanup absl::core_headers
  absl::fixed_array absl::flat_hash_map absl::flat_hash_set absl::hash
  absl::inlined_vector absl::memory absl::node_hash_map absl::node_hash_set
  absl::span absl::status absl::statusor absl::str_format absl::strings
  absl::synchronization absl::time absl::function_ref absl::btree
  glog::glog nlohmann_json::nlohmann_json Threads::Threads)

if(MICA_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
endif()

if(MICA_PYTHON)
  if(NOT SKBUILD)  # A wheel's build brings its own interpreter.
    set(Python_EXECUTABLE "${MICA_VENV}/bin/python")
  endif()
  find_package(Python 3.11...<3.14 REQUIRED COMPONENTS Interpreter Development.Module)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  find_package(nanobind CONFIG REQUIRED)

  # Found without importing it: an import costs two seconds, and torch's own
  # CMake files bring settings that the rest of the tree does not want.
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE MICA_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  # The headers of one build are those of all of a torch version.
  add_library(mica_torch_headers INTERFACE)
  target_include_directories(mica_torch_headers SYSTEM INTERFACE
    "${MICA_TORCH_DIR}/include"
    "${MICA_TORCH_DIR}/include/torch/csrc/api/include")
  # By -l, not by path: CMake would add the folder to the run path by itself,
  # and warn that it holds another libgomp than the compiler's. That one is
  # meant: torch, oneDNN and Mica share it.
  set(mica_torch_libraries -ltorch_python -ltorch_cpu -ltorch -lc10)
  add_library(mica_torch INTERFACE)
  target_link_libraries(mica_torch INTERFACE mica_torch_headers
    "-L${MICA_TORCH_DIR}/lib" ${mica_torch_libraries})
endif()
