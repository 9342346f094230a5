# SPDX-License-Identifier: Apache-2.0
"""The runbooks' probe against real name servers other than NSD that serve no root, with nothing said but who asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.status.record import RecordReading, read_record
from tests.servers.required_servers import need_server
from tests.system.playbooks import Played, Site
from tests.system.runbook_machine import ADDRESSES, SPEC, ZONE, Server, machine

pytestmark = [pytest.mark.system, pytest.mark.root("network and mount namespaces")]
CHECK = "{query: {name: example.org, type: SOA, expect: {aa: true}}}"
LIVENESS = "pool farm: no health check names a query, so only that something answers is tested"


def bind(folder: Path) -> list[str]:
    """BIND with the zone example.org, and a recursor for its neighbours, as Debian ships it."""
    (folder / "zone").write_text(ZONE)
    listen = " ".join(f"{address};" for address in ADDRESSES)
    (folder / "named.conf").write_text(
        f'options {{ directory "{folder}"; pid-file "{folder}/named.pid"; session-keyfile "{folder}/session.key";\n'
        f"  listen-on {{ {listen} }}; listen-on-v6 {{ none; }}; dnssec-validation no; }};\ncontrols {{ }};\n"
        f'zone "example.org" {{ type primary; file "{folder}/zone"; }};\n'
    )
    folder.chmod(0o755)
    return ["named", "-g", "-c", str(folder / "named.conf")]


def unbound(folder: Path) -> list[str]:
    """Unbound for its neighbours, without an upstream."""
    listen = "".join(f"  interface: {address}\n" for address in ADDRESSES)
    (folder / "unbound.conf").write_text(
        f'server:\n{listen}  access-control: 192.0.2.0/24 allow\n  username: ""\n  chroot: ""\n  directory: "{folder}"\n'
        f'  pidfile: "{folder}/unbound.pid"\n  use-syslog: no\n  do-daemonize: no\nremote-control:\n  control-enable: no\n'
    )
    return ["unbound", "-d", "-c", str(folder / "unbound.conf")]


class Farm:
    """A site whose backends are one name server, and its switch; *spec* is what is deployed to it."""

    def __init__(self, site: Site, remote: str) -> None:
        self.site, self._switch = site, TargetSwitch(remote)
        self.spec = site.folder / "specs" / "dpu-1.yaml"

    def record(self) -> RecordReading:
        return read_record(self._switch.remote, None, 10)

    def begin(self, text: str = SPEC) -> None:
        """Bring the switch to a spec."""
        file = self.site.folder / "applied.yaml"
        file.write_text(text)
        deploy(FileSource(load_spec(file)), self._switch)

    def deploy(self, text: str, **given: object) -> Played:
        self.spec.write_text(text)
        return self.site.play("deploy.yml", dnsteer_probe_host="client", **given)

    def applied(self) -> str:
        state = self.record().state
        assert state is not None
        return state.text


def checked(check: str, weight: int = 2) -> str:
    """The spec with a health check, and a weight that it did not have."""
    text = SPEC.replace("    slots: 16\n", f"    slots: 16\n    health: {check}\n" if check else "    slots: 16\n")
    return text.replace("mac: '02:00:00:00:01:03'", f"mac: '02:00:00:00:01:03', weight: {weight}")


@pytest.fixture(scope="module", params=[bind, unbound], ids=lambda server: server.__name__)
def farm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Farm]]:
    server: Server = request.param
    need_server({"bind": "named"}.get(server.__name__, server.__name__))
    folder = tmp_path_factory.mktemp("site")
    with machine(folder, server) as (site, running):
        yield server, Farm(site, running.database)


def test_playbooks_work_with_only_the_probe_host_given(farm: tuple[Server, Farm]) -> None:
    server, made = farm
    made.begin()
    without = checked("")
    played = made.deploy(without)
    assert (played.code, made.applied()) == (0, without), played.output
    assert played.said(LIVENESS), played.output
    with_check = checked("{}" if server is unbound else CHECK, 3)
    played = made.deploy(with_check)
    assert (played.code, made.applied()) == (0, with_check), played.output
    assert played.said(LIVENESS) == (server is unbound), played.output
    played = made.site.play("rolling-upgrade.yml", dnsteer_hook_command=["true"])
    assert (played.code, list(made.record().overlay or ())) == (0, []), played.output
    played = made.site.play("rollback.yml", dnsteer_probe_host="client")
    assert (played.code, made.applied()) == (0, without), played.output


def test_a_check_that_the_servers_fail_is_refused_before_anything_is_changed(farm: tuple[Server, Farm]) -> None:
    server, made = farm
    made.begin()
    before = made.record().revision
    wrong = checked("{query: {name: example.com, type: SOA, expect: {aa: true}}}", 4)
    played = made.deploy(wrong)
    assert played.code != 0
    assert played.said("dpu-1: the VIPs do not answer as they should before the change already; nothing was changed.")
    said = {bind: "NOERROR without AA", unbound: "REFUSED, expected NOERROR"}[server]
    assert played.said(f"192.0.2.53 udp/53 (ns1, ns2, ns3): {said}"), played.output
    assert made.record().revision == before
