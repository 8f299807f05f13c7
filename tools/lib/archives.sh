# shellcheck shell=bash
#
# Abseil, glog and gflags as archives that a shared library can hold: Debian's
# own aren't position-independent, and its glog wants libunwind. Made of Debian's
# source packages, in the versions whose headers are installed, so that the rest
# of the build needn't be made anew. Sourced after setup.sh.

archives_dir=$PWD/build/archives

# fetch_sources PACKAGE…: Debian's sources, unpacked into build/archives/src.
# They come from where the system gets its packages; its own lists of those stay
# as they are.
fetch_sources() {
  local apt_dir=$archives_dir/apt options
  mkdir -p "$apt_dir/lists/partial" "$archives_dir/src"
  apt-cache policy libabsl-dev | awk '
    $1 ~ /^[0-9]+$/ && $2 ~ /:\/\// {
      split($3, part, "/")
      print "deb-src [signed-by=/usr/share/keyrings/" \
        "debian-archive-keyring.gpg]", $2, part[1], part[2]
    }' | sort -u >"$apt_dir/sources.list"
  [[ -s $apt_dir/sources.list ]] || {
    say "nothing tells where libabsl-dev comes from"
    return 1
  }
  options=(
    -o "Dir::Etc::SourceList=$apt_dir/sources.list"
    -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$apt_dir/lists"
    -o APT::Sandbox::User=root
  )
  apt-get -q "${options[@]}" update || return 1
  (cd "$archives_dir/src" &&
    apt-get -q "${options[@]}" --only-source source "$@")
}

# build_archive NAME TARGETS OPTION…: the static libraries of one of them, into
# build/archives/lib.
build_archive() {
  local name=$1 targets=$2 source
  shift 2
  source=$(find "$archives_dir/src" -maxdepth 1 -type d -name "$name-*" |
    head -n 1)
  cmake -S "$source" -B "$archives_dir/$name" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=17 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_VISIBILITY_PRESET=hidden \
    -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF \
    "-DCMAKE_C_COMPILER_LAUNCHER=$PWD/cmake/compile.sh" \
    "-DCMAKE_CXX_COMPILER_LAUNCHER=$PWD/cmake/compile.sh" "$@" || return 1
  # shellcheck disable=SC2086  # One word a target.
  cmake --build "$archives_dir/$name" --target $targets || return 1
  find "$archives_dir/$name" -name '*.a' -exec cp -t "$archives_dir/lib" {} +
}

# The versions of what the archives are made of.
archives_stamp() {
  dpkg-query -W libabsl-dev libgoogle-glog-dev libgflags-dev
  sha256sum <tools/lib/archives.sh
}

make_archives() {
  local version packages=() package binary
  rm -rf "$archives_dir"
  mkdir -p "$archives_dir/lib"
  for package in abseil:libabsl-dev google-glog:libgoogle-glog-dev \
    gflags:libgflags-dev; do
    binary=${package#*:}
    version=$(dpkg-query -W -f '${source:Version}' "$binary")
    packages+=("${package%:*}=$version")
  done
  fetch_sources "${packages[@]}" || return 1
  build_archive abseil \
    "hash raw_hash_set statusor str_format_internal synchronization time" ||
    return 1
  build_archive gflags gflags_static -DBUILD_gflags_nothreads_LIB=OFF ||
    return 1
  build_archive google-glog glog -DWITH_UNWIND=OFF || return 1
  archives_stamp >"$archives_dir/stamp"
}

# Made when there are none of these versions.
prepare_archives() {
  [[ -f $archives_dir/stamp &&
    $(<"$archives_dir/stamp") == "$(archives_stamp)" ]] && return 0
  run_step "Abseil, glog and gflags as archives" archives make_archives
}
