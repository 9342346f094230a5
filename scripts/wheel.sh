#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Build the wheel and try it in a clean environment, away from the source tree. PYTHON chooses the interpreter.
set -eu
cd "$(dirname "$0")/.."

rm -rf build/wheel
mkdir -p build/wheel
.venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w build/wheel .
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check build/wheel/dnsteer-*.whl
cp examples/quickstart.yaml "$folder/"
cd "$folder"
venv/bin/dnsteer version
venv/bin/dnsteer check quickstart.yaml
venv/bin/dnsteer render quickstart.yaml -o rendered
