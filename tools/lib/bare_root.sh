# shellcheck shell=bash
#
# A root folder with nothing but the C library, the C++ runtime and Python 3.11,
# of Debian's packages: what a machine has that never built anything. Sourced
# after setup.sh.

# A user's PATH may lack where chroot is.
PATH=$PATH:/usr/sbin:/sbin

bare_packages=(
  libc6 libgcc-s1 libstdc++6
  python3.11-minimal libpython3.11-minimal libpython3.11-stdlib
  # What the standard library's own modules load.
  libbz2-1.0 libcrypt1 libexpat1 libffi8 liblzma5 libssl3 libuuid1 zlib1g
)

# make_bare_root ROOT DEBS: unpacks the packages into a new folder. DEBS keeps
# those that were fetched before.
make_bare_root() {
  local root=$1 debs=$2 package
  mkdir -p "$debs" "$root"/{proc,dev,tmp,home}
  (cd "$debs" && for package in "${bare_packages[@]}"; do
    compgen -G "${package}_*.deb" >/dev/null ||
      apt-get -q -o APT::Sandbox::User=root download "$package" || exit 1
  done) || return 1
  for package in "${bare_packages[@]}"; do
    dpkg-deb --fsys-tarfile "$debs/${package}"_*.deb |
      tar -x -C "$root" --keep-directory-symlink || return 1
  done
  cat >"$root/etc/passwd" <<<"root:x:0:0:root:/home:/bin/false"
}

# in_bare_root ROOT COMMAND…: runs a command there, with /proc and a few
# devices, and no network.
in_bare_root() {
  local root=$1 user=()
  shift
  ((EUID == 0)) || user=(--map-root-user)
  # shellcheck disable=SC2016  # For the inner shell.
  unshare "${user[@]}" --mount --pid --net --fork bash -c '
    set -e
    root=$1
    shift
    mount -t proc proc "$root/proc"
    for device in null zero random urandom; do
      touch "$root/dev/$device"
      mount --bind "/dev/$device" "$root/dev/$device"
    done
    chroot=$(command -v chroot)
    exec env -i HOME=/home PATH=/usr/bin PYTHONDONTWRITEBYTECODE=1 \
      "$chroot" "$root" "$@"
  ' bash "$root" "$@"
}

# Says why no other root can be entered here, or nothing.
why_no_bare_root() {
  local probe user=()
  command -v unshare >/dev/null || {
    echo "a machine without unshare lets no other root be entered"
    return
  }
  ((EUID == 0)) || user=(--map-root-user)
  probe=$(unshare "${user[@]}" --mount --pid --net --fork bash -c \
    'mount -t proc proc /proc && chroot / true' 2>&1) ||
    echo "this machine lets no other root be entered: ${probe##*: }"
}
