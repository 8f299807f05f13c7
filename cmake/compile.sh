#!/bin/sh
# CMake's compiler launcher: compiles by ccache.
#
# Where GCC makes a precompiled header, an older one of that name goes first:
# the preprocessor would take that one for what the header says, so that ccache
# found whatever was made beside it once.
for word in "$@"; do
  case "$word" in
    *.gch) rm -f "$word" ;;
  esac
done
# By default it keeps nothing that uses such headers: it looks at what a header
# held, not at what it defines.
CCACHE_SLOPPINESS=pch_defines,time_macros exec ccache "$@"
