# SPDX-License-Identifier: Apache-2.0
"""`deny` and `undeny`: what they drop and nothing else, what they record, refuse and ask, and how denials end."""

from __future__ import annotations

from pathlib import Path

from tests.packet.command import FARM, nothing_changes, on, spec_file
from tests.packet.maintenance_specs import make_overdue, overlay
from tests.packet.switches import Switch


def test_a_denial_comes_and_goes(applied: Switch) -> None:
    base = applied.tables()
    done = on(applied)("deny", "203.0.113.0/24", "2001:db8:bad::/48", "--note", "floods", "--for", "1h")
    print(done.out, done.err)
    assert done.code == 0
    print(on(applied)("status").out)
    print(on(applied)("status", "--json").json["overlay"])
    print(on(applied)("history").out)
    print(on(applied)("verify", "--help").code)
    print(on(applied)("explain","--live","--client","203.0.113.9:4000","--vip","192.0.2.53:53/udp"))
    print(on(applied)("undeny", "203.0.113.7"))
    print(on(applied)("deny", "203.0.113.0/24"))
    print(on(applied)("undeny", "203.0.113.0/24","2001:db8:bad::/48"))
    assert applied.tables() == base
    print(on(applied)("undeny", "203.0.113.0/24"))
    print(on(applied)("deny", "203.0.113.0/24", "--vip", "otter"))
    print(on(applied)("deny", "2001:db8:bad::/48", "--vip", "other"))
    print(on(applied)("deny", "203.0.113.0/24", "--port", "99"))
    print(on(applied)("deny", "203.0.113.1/24"))
    print(on(applied)("deny", "0.0.0.0/0"))
    print(on(applied)("deny", "128.0.0.0/1"))
    print(on(applied)("deny", "192.0.2.0/24"))
    assert 0
