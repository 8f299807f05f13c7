#!/usr/bin/env bash
# From a bare Debian 12 machine to Mica's main job on real input: installs
# what is missing, builds, lets a sentence-embedding model answer questions over
# the docstrings of Python's standard library, and trains a convolutional net on
# scikit-learn's digits, in Python and by mica_train. Arguments go to
# tools/quickstart.py. May be run again at any time; only what is missing is
# done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extra_apt_packages=()
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh

prepare mica_product quickstart model
start=$SECONDS
say "Main job, inference: semantic search with a pretrained model"
.venv/bin/python tools/quickstart.py --json build/quickstart.json "$@"
say ""
say "Main job, training: a convolutional net on scikit-learn's digits"
.venv/bin/python tools/quickstart_digits.py \
  --json build/quickstart_digits.json
say "Main job: $((SECONDS - start)) s; everything: $SECONDS s;" \
  "figures in build/quickstart.json and build/quickstart_digits.json"
