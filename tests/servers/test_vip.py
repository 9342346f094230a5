# SPDX-License-Identifier: Apache-2.0
"""A VIP on a server's loopback, as direct server return needs it: whether the server answers from it by UDP."""

from __future__ import annotations

from collections.abc import Iterator

import dns.exception
import dns.message
import dns.query
import pytest

from dnsteer.lab.command import run
from tests.servers import network
from tests.servers.authoritative import Nsd
from tests.servers.matrix import AUTHORITATIVE, RESOLVERS, Bench
from tests.servers.network import ADDRESS
from tests.servers.resolvers import KnotResolver, Unbound
from tests.servers.server import NameServer, Setting

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and name servers"), pytest.mark.slow]
VIP = "203.0.113.53"
NEEDS = {
    Nsd: ("/etc/nsd/nsd.conf.d/listen.conf", f"server:\n    ip-address: {ADDRESS}\n    ip-address: {VIP}\n"),
    Unbound: ("/etc/unbound/unbound.conf.d/vip.conf", "server:\n    interface-automatic: yes\n"),
    KnotResolver: ("/etc/knot-resolver/kresd.conf", f"net.listen('{VIP}', 53, {{ kind = 'dns' }})\n"),
}
"""Of servers that do not answer from the VIP: what docs/servers.md tells people to add."""


@pytest.fixture(scope="module")
def vip(bench: Bench) -> Iterator[Bench]:
    """The VIP at the server, and the probe's route to it."""
    run(["ip", "-n", network.SERVER, "address", "add", f"{VIP}/32", "dev", "lo"])
    run(["ip", "-n", network.PROBE, "route", "add", VIP, "via", ADDRESS, "src", network.NEAR])
    yield bench


def answers() -> bool:
    query = dns.message.make_query("id.server", "TXT", "CH", flags=0)
    try:
        dns.query.udp(query, VIP, timeout=1)
    except (dns.query.UnexpectedSource, dns.exception.Timeout, ConnectionRefusedError):
        return False
    return True


@pytest.mark.parametrize("of", [*AUTHORITATIVE, *RESOLVERS], ids=lambda of: of.__name__)
def test_servers_answer_from_the_vip_with_their_published_settings(vip: Bench, of: type[NameServer]) -> None:
    with vip.running(of):
        assert network.inside(network.PROBE, answers) is (of not in NEEDS)
    if of in NEEDS:
        with vip.running(of, Setting(more=NEEDS[of])):
            assert network.inside(network.PROBE, answers)
