# The interpreter's side of capture, python/interpreter: without torch, and built
# once for each version of CPython that is to have it.

# mica_interpreter_library(NAME VERSION INCLUDE_DIR): a static library for one
# version, such as 311, of what all share and the files named after it, or after
# a version that it is later than.
function(mica_interpreter_library name version include_dir)
  file(GLOB sources CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/python/interpreter/*.cc")
  set(own ${sources})
  set(own_pattern "_${version}\\.cc$")
  if(version GREATER_EQUAL 312)
    set(own_pattern "_(${version}|since_312)\\.cc$")
  endif()
  list(FILTER own INCLUDE REGEX "${own_pattern}")
  list(FILTER sources EXCLUDE REGEX "_3[0-9]+\\.cc$")
  add_library(${name} STATIC ${sources} ${own})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_include_directories(${name} SYSTEM PUBLIC "${include_dir}")
  target_link_libraries(${name} PUBLIC
    absl::flat_hash_map absl::function_ref absl::span absl::strings)
  if(version GREATER_EQUAL 312)
    # Of what later versions have nothing else for yet: PyErr_Fetch, a dict's tag.
    target_compile_options(${name} PUBLIC -Wno-deprecated-declarations)
  endif()
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# mica_interpreter_tests(VERSION PYTHON INCLUDE_DIR LIBRARY): the module that
# shows a version's library to tests, and the file that tells them whose it is.
function(mica_interpreter_tests version python include_dir library)
  string(REPLACE "." "" short "${version}")
  set(name mica_interpreter_testing_${short})
  set(folder "${PROJECT_BINARY_DIR}/interpreters/${version}")
  file(GLOB sources CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/python/interpreter/testing/*.cc")
  add_library(${name} MODULE ${sources})
  target_link_libraries(${name} PRIVATE ${library})
  set_target_properties(${name} PROPERTIES
    PREFIX "" OUTPUT_NAME mica_interpreter_testing
    LIBRARY_OUTPUT_DIRECTORY "${folder}")
  add_dependencies(mica_tests ${name})
  add_dependencies(mica_python ${name})
  file(WRITE "${folder}/interpreter.txt" "${python}\n")
endfunction()

# mica_find_interpreter(VERSION PYTHON INCLUDE_DIR): sets the two variables to
# an interpreter of that version and the folder of its headers, internal ones
# included; or leaves them empty, and says so. MICA_PYTHON_312 and its like name
# one; else pyenv's are tried, then the PATH's.
function(mica_find_interpreter version python include_dir)
  string(REPLACE "." "" short "${version}")
  set(candidates "${MICA_PYTHON_${short}}")
  if(NOT candidates)
    file(GLOB candidates
      "$ENV{PYENV_ROOT}/versions/${version}.*/bin/python${version}"
      "$ENV{HOME}/.pyenv/versions/${version}.*/bin/python${version}")
    list(APPEND candidates "python${version}")
  endif()
  set(${python} "" PARENT_SCOPE)
  foreach(candidate ${candidates})
    execute_process(
      COMMAND "${candidate}" -I -c
        "import os, sys, sysconfig as s; i = s.get_path('include'); assert sys.version_info[:2] == tuple(map(int, '${version}'.split('.'))) and not s.get_config_var('Py_GIL_DISABLED') and os.path.exists(os.path.join(i, 'internal', 'pycore_frame.h')); print(sys.executable, i, sep=';')"
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
      ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0)
      list(GET found 0 executable)
      list(GET found 1 headers)
      set(${python} "${executable}" PARENT_SCOPE)
      set(${include_dir} "${headers}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(STATUS "No CPython ${version} with headers: its tests are skipped")
endfunction()

set(MICA_ENVIRONMENTS "$ENV{HOME}/.cache/mica-environments" CACHE PATH
    "Where tools/python_environment.sh made environments, each by its version")

# mica_find_environment(VERSION ENVIRONMENT TORCH_DIR SUFFIX): sets the variables
# to the environment with torch of another version, its torch's folder, and what
# an extension's name ends with there; or leaves them empty, and says so.
function(mica_find_environment version environment torch_dir suffix)
  set(${environment} "" PARENT_SCOPE)
  set(folder "${MICA_ENVIRONMENTS}/${version}")
  execute_process(
    COMMAND "${folder}/bin/python" -I -c
      "import importlib.util as u, sysconfig as s; print(u.find_spec('torch').submodule_search_locations[0], s.get_config_var('EXT_SUFFIX'), sep=';')"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(STATUS "No environment of CPython ${version} with torch: no "
                   "extension for it (tools/python_environment.sh ${version})")
    return()
  endif()
  list(GET found 0 torch)
  list(GET found 1 end)
  set(${environment} "${folder}" PARENT_SCOPE)
  set(${torch_dir} "${torch}" PARENT_SCOPE)
  set(${suffix} "${end}" PARENT_SCOPE)
endfunction()

# mica_nanobind_library(NAME INTERPRETER): nanobind for the version that
# INTERPRETER's library is for. Its own functions know one version a project.
function(mica_nanobind_library name interpreter)
  add_library(${name} STATIC EXCLUDE_FROM_ALL "${NB_DIR}/src/nb_combined.cpp")
  target_include_directories(${name} SYSTEM PUBLIC "${NB_DIR}/include"
    PRIVATE "${NB_DIR}/ext/robin_map/include")
  target_link_libraries(${name} PUBLIC ${interpreter})
  target_compile_definitions(${name} PRIVATE NB_BUILD NB_COMPACT_ASSERTIONS)
  target_compile_options(${name} PUBLIC -ffunction-sections -fdata-sections
    PRIVATE -fno-strict-aliasing -fvisibility=hidden)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
