#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install the Python packages that dnsteer, its lab and its tests need into .venv, which the Makefile creates.
set -eu
cd "$(dirname "$0")/.."

extras="dev"
# For tests of the web console, which run wherever there is a browser.
[ -z "${DNSTEER_BROWSER:-}" ] && [ ! -x /usr/bin/chromium ] || extras="dev,browser"
sum=$(cksum pyproject.toml)

case "$(cat .venv/ready 2>/dev/null)" in
"$sum $extras" | "$sum dev,browser") ;;
*)
    # By uv, in 3 s where pip takes 20; by pip where uv cannot be had, or does not reach what pip's own configuration reaches.
    [ -z "${PIP_INDEX_URL:-}" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"
    pip=".venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile"
    # shellcheck disable=SC2086 # a command's words
    { $pip uv 2>/dev/null && .venv/bin/uv pip install --quiet --python .venv/bin/python -e ".[$extras]" 2>/dev/null; } ||
        $pip -e ".[$extras]"
    # Compile on all cores, and skip what is hardly ever imported: half of all code.
    unused='tests|pip|setuptools|pkg_resources|mypyc?|ansible_test|scipy|playwright|fontTools|mpl_toolkits|lexers|contrib'
    unused="/($unused|pydantic/v1|distutils|f2py|scapy/libs|tls|msrpce|windows|hypothesis/extra|ovn_[a-z]*|blib2to3|cffi|pycparser)/"
    .venv/bin/python -m compileall -q -j 0 -x "$unused" .venv/lib || true # some files are for other releases of Python
    echo "$sum $extras" >.venv/ready
    ;;
esac
# dnsteer is used from here. Where Python may not write its bytecode beside the sources (PYTHONDONTWRITEBYTECODE, or another
# user's checkout), every start would compile all modules again.
.venv/bin/python -m compileall -q generator/dnsteer
