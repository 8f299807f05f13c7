# Debian's cross compiler for 64-bit ARM. What the tree depends on is in
# build-aarch64/packages, where tools/aarch64_packages.sh puts it; programs run
# by tools/run_aarch64.sh.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(packages
  "${CMAKE_CURRENT_LIST_DIR}/../build-aarch64/packages" ABSOLUTE)
set(libraries
  "${packages}/usr/lib/aarch64-linux-gnu:${packages}/lib/aarch64-linux-gnu")
set(CMAKE_FIND_ROOT_PATH "${packages}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}")
set(CMAKE_CROSSCOMPILING_EMULATOR
  "${CMAKE_CURRENT_LIST_DIR}/../tools/run_aarch64.sh")
