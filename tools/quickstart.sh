#!/usr/bin/env bash
# From a bare Debian 12 machine to Mica's main job on real input: installs
# what is missing, builds, and lets the sentence-embedding model answer
# questions over the docstrings of Python's standard library. Arguments go to
# tools/quickstart.py. May be run again at any time; only what is missing is
# done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extra_apt_packages=()
# shellcheck source=lib/setup.sh
source tools/lib/setup.sh

prepare mica_product quickstart model
say "Main job: semantic search with a pretrained sentence-embedding model"
start=$SECONDS
.venv/bin/python tools/quickstart.py --json build/quickstart.json "$@"
say "Main job: $((SECONDS - start)) s; everything: $SECONDS s;" \
  "figures in build/quickstart.json"
