#!/usr/bin/env bash
# From a bare Debian 12 machine to Mica's main job on real input: installs
# what is missing, builds, lets a sentence-embedding model answer questions over
# the docstrings of Python's standard library, and trains a convolutional net on
# scikit-learn's digits, in Python and by mica_train. May be run again at any
# time; only what is missing is done.
#
#   --wheel DIR   installs the wheel in DIR instead, without a compiler; the
#                 main job then leaves out mica_train, which is in no wheel
#
# Other arguments go to tools/quickstart.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extra_apt_packages=()
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh

dir=
arguments=()
while (($#)); do
  case $1 in
    --wheel)
      (($# > 1)) || die "--wheel: wants a folder"
      dir=$2
      shift
      ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

training=()
if [[ -n $dir ]]; then
  prepare_wheel "$dir" quickstart model
  training=(--python_only)
else
  prepare mica_product quickstart model
fi
start=$SECONDS
say "Main job, inference: semantic search with a pretrained model"
.venv/bin/python tools/quickstart.py --json build/quickstart.json \
  ${arguments[@]+"${arguments[@]}"}
say ""
say "Main job, training: a convolutional net on scikit-learn's digits"
.venv/bin/python tools/quickstart_digits.py ${training[@]+"${training[@]}"} \
  --json build/quickstart_digits.json
say "Main job: $((SECONDS - start)) s; everything: $SECONDS s;" \
  "figures in build/quickstart.json and build/quickstart_digits.json"
