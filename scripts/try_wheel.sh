#!/usr/bin/env bash
# Builds the wheel, installs it into an empty environment with the pinned versions, trains there, out of the checkout's
# reach, and leaves the wheel in dist/. Arguments are overrides of the recipe: scripts/try_wheel.sh train.updates=20
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

"${PYTHON:-python3}" -m venv "$home/venv"
pip="$home/venv/bin/python -m pip --quiet --disable-pip-version-check"
$pip install --upgrade "pip>=25.1"
$pip wheel --no-deps --wheel-dir "$home" .
$pip install --constraint constraints.txt "$home"/saccade-*.whl

cd "$home"
venv/bin/saccade train rnnsearch_dates "$@" --out runs/try
venv/bin/saccade predict runs/try "5 de maio de 2009"
venv/bin/saccade view runs/try "5 de maio de 2009" --out where.png
venv/bin/saccade view runs/try "5 de maio de 2009" --out where.html  # the explorer is in the wheel
test -s where.png -a -s where.html
wheel=$(basename saccade-*.whl)
mkdir -p "$checkout/dist"
mv "$wheel" "$checkout/dist"
echo "the wheel works: dist/$wheel"
