#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install the Debian packages that dnsteer, its lab and its tests need (root). `packages.sh servers` also installs the other
# name servers of `make test-servers` (30 MB, 10 s), `packages.sh peers` what `make bench-rig` and `make bench-peers` compare with (30 MB, 15 s).
# Packages that are there already are left as they are. Services that come with new packages are neither started nor
# enabled: dnsteer uses the programs, with daemons of its own, and a system Open vSwitch stays whatever it was.
set -eu
cd "$(dirname "$0")/.."

packages="openvswitch-switch nsd bind9 unbound dnsperf knot-dnsutils iproute2 ethtool iputils-ping openssl procps shellcheck python3 python3-venv"
# OVS-DPDK for bench-datapath and one test, which call it by its path: ovs-vswitchd stays the one that it was.
packages="$packages dpdk openvswitch-switch-dpdk librte-mempool-ring23 librte-net-null23 librte-net-pcap23"
# The software model of DOCA Flow and its tests, in datapath_ext.
packages="$packages meson ninja-build gcc libc6-dev pkg-config libjansson-dev libcmocka-dev valgrind"
# The program of backends that takes packets out of tunnels, in datapath_ext/decap.
packages="$packages clang libclang-rt-14-dev libbpf-dev linux-libc-dev"
# Tests of the web console look at it in a browser (350 MB installed, a minute); without it they are skipped.
[ -z "${DNSTEER_BROWSER:-}" ] || packages="$packages chromium"

[ "${1:-}" != servers ] ||
    packages="$packages knot pdns-server pdns-backend-sqlite3 knot-resolver pdns-recursor dnsmasq-base"

[ "${1:-}" != peers ] || packages="$packages nftables iptables conntrack dnsdist nginx-light libnginx-mod-stream haproxy ovn-central ovn-host"

# What only some tests need, which are skipped without it (prometheus: 23 MB to fetch, 10 s; BIRD and
# keepalived: 1 MB each). The first set-up tries it.
optional="prometheus bird2 keepalived"
tried=build/optional-packages

not_installed() {
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || printf ' %s' "$package"
    done
}

units_of() {
    dpkg -L "$1" 2>/dev/null | sed -nE 's#^(/usr)?/lib/systemd/system/([^/@]+\.(service|socket|target|timer))$#\2#p'
}

# shellcheck disable=SC2086 # lists of words
missing=$(not_installed $packages)
wanted=""
# shellcheck disable=SC2086
[ -e "$tried" ] || [ "$(id -u)" -ne 0 ] || wanted=$(not_installed $optional)

if [ -n "$missing$wanted" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "packages: missing:$missing; run as root, or: apt-get install$missing" >&2
        exit 77
    fi
    guard=/usr/sbin/policy-rc.d
    if [ ! -e "$guard" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$guard" # tells invoke-rc.d to start nothing
        chmod 755 "$guard"
        trap 'rm -f "$guard"' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || [ -z "$missing" ]
    # shellcheck disable=SC2086 # a list of words
    [ -z "$missing" ] || apt-get install -y -qq --no-install-recommends $missing >/dev/null
    # shellcheck disable=SC2086
    [ -z "$wanted" ] || apt-get install -y -qq --no-install-recommends $wanted >/dev/null ||
        echo "packages: not installed:$wanted; the tests that need it are skipped" >&2
    for package in openvswitch-switch nsd dpdk prometheus bird2 keepalived bind9 unbound knot pdns-server knot-resolver \
        pdns-recursor dnsdist nginx-light nginx-common nginx haproxy ovn-central ovn-host ovn-common; do
        case " $missing $wanted " in
        *" $package "*) units_of "$package" | xargs -r -n 1 systemctl disable --quiet 2>/dev/null || true ;;
        esac
    done
fi

mkdir -p build
[ "$(id -u)" -ne 0 ] || : >"$tried"
