#!/bin/sh
# Install the Python packages that dnsteer, its lab and its tests need into .venv, which scripts/packages.sh makes.
set -eu
cd "$(dirname "$0")/.."

extras="dev"
# For tests of the web console, which run wherever there is a browser.
[ -z "${DNSTEER_BROWSER:-}" ] && [ ! -x /usr/bin/chromium ] || extras="dev,browser"
sum=$(cksum pyproject.toml)

case "$(cat .venv/ready 2>/dev/null)" in
"$sum $extras" | "$sum dev,browser") ;;
*)
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -e ".[$extras]"
    # Compile on all cores, where pip uses one, and skip what is hardly ever imported: a third of all code.
    unused='/(tests|pip|setuptools|mypyc?|ansible_test|scipy|playwright)/'
    .venv/bin/python -m compileall -q -j 0 -x "$unused" .venv/lib || true # some files are for other releases of Python
    echo "$sum $extras" >.venv/ready
    ;;
esac
# dnsteer is used from here. Where Python may not write its bytecode beside the sources (PYTHONDONTWRITEBYTECODE, or another
# user's checkout), every start would compile all modules again.
.venv/bin/python -m compileall -q generator/dnsteer
