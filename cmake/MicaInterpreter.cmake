# The interpreter's side of capture, python/interpreter: without torch, and built
# once for each version of CPython that is to have it.

# mica_interpreter_library(NAME VERSION INCLUDE_DIR): a static library for one
# version, such as 311, of what all share and the files named after it.
function(mica_interpreter_library name version include_dir)
  file(GLOB sources CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/python/interpreter/*.cc")
  set(own ${sources})
  list(FILTER own INCLUDE REGEX "_${version}\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_3[0-9]+\\.cc$")
  add_library(${name} STATIC ${sources} ${own})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_include_directories(${name} SYSTEM PUBLIC "${include_dir}")
  target_link_libraries(${name} PUBLIC
    absl::flat_hash_map absl::function_ref absl::span absl::strings)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
