# SPDX-License-Identifier: Apache-2.0
"""What the comparison of balancers computes and writes, and how its peers are configured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.rig.compare import COMPARED, balance, summary
from bench.rig.network import FAMILIES, SERVERS
from bench.rig.ovn import Ovn
from bench.rig.peers import Dnsteer
from bench.rig.proxies import Haproxy, Nginx

from tests.unit.spec_text import load

ROOT = Path(__file__).resolve().parents[2]


def test_balance_is_the_largest_share_beside_an_even_one() -> None:
    assert balance([10, 0, 5, 0], [110, 100, 105, 100]) == 1.0
    assert balance([0, 0, 0, 0], [400, 0, 0, 0]) == 4.0
    assert balance([7, 7], [7, 7]) == 0.0


@pytest.mark.parametrize("name", [name for name, kind in COMPARED.items() if issubclass(kind, Dnsteer)])
def test_each_mode_has_a_spec_of_the_same_service(name: str) -> None:
    spec = load(COMPARED[name](Path()).spec()).spec  # type: ignore[attr-defined]
    assert {str(address) for address in spec.vips["dns"].addresses} == {f.vip for f in FAMILIES.values()}
    assert len(spec.pools["servers"].backends) == SERVERS
    keep, forwarding = spec.vips["dns"].keep, spec.vips["dns"].forwarding.value
    assert (keep is not None, forwarding) == ("keep" in name, next((m for m in ("dsr", "ct-nat") if m in name), "nat"))
    assert all((port.type or "").startswith("afxdp") == ("afxdp" in name) for port in spec.switch.ports.values())


def test_proxies_and_ovn_have_every_server_and_both_vips() -> None:
    for text in (Nginx(Path()).configuration(), Haproxy(Path()).configuration()):
        assert all(f.to(53) in text for f in FAMILIES.values())
        assert all(text.count(f" {server}:53") == 1 for server in FAMILIES[4].servers)
    words = Ovn._router()
    for family in FAMILIES.values():
        (servers,) = {words[n + 1] for n, word in enumerate(words) if word == family.to(53)}
        assert len(servers.split(",")) == SERVERS and all(server in servers for server in family.servers)


def one_run(number: int, qps: float, *, moved: bool = False, udp: bool = True) -> dict[str, Any]:
    row = {"qps": qps, "of_control": qps / 100, "control": 100, "balance": 1.1, "lost": 0.0, "moved": moved, "tries": 1}
    names = ("latency_ms", "latency_p50_ms", "latency_p99_ms", "latency_p999_ms", "lost", "cpu_s_per_million")
    rates = [{"rate": rate, **dict.fromkeys(names, number / 10)} for rate in (900, 300, 600)] if udp else []
    kinds = ["udp IPv4", "tcp IPv4"] if udp else ["tcp IPv4"]
    return {"saturation": dict.fromkeys(kinds, row), "rates": rates, "memory_mib": 0.0 if not udp else 20.0}


def test_rounds_become_a_row_and_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = [{"peer": "dnsteer", **one_run(n, qps, moved=n == 3)} for n, qps in ((1, 50_000), (2, 80_000), (3, 60_000))]
    runs += [{"peer": "haproxy", **one_run(1, 9_000, udp=False)}]
    first, second = summary(runs)
    assert first["saturation"]["udp IPv4"]["qps"] == {"min": 50_000, "median": 60_000, "max": 80_000}
    assert [at["rate"] for at in first["rates"]] == [300, 600, 900] and first["marked"] == "2 of 6"
    assert list(second["saturation"]) == ["tcp IPv4"] and second["rates"] == [] and second["marked"] == "0 of 1"

    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    import comparison_page

    kept = json.loads((ROOT / "docs" / "comparison.json").read_text())
    kept |= {"summary": [first, second]}
    kept["load"]["rates"] = [300, 600, 900]
    (tmp_path / "comparison.json").write_text(json.dumps(kept))
    monkeypatch.setattr(comparison_page, "FILE", tmp_path / "comparison.json")
    page = comparison_page.comparison_page("before\n<!-- compared -->\nold\n<!-- end of compared -->\nafter\n")
    lines = page.splitlines()
    assert lines[0] == "before" and lines[-1] == "after" and "old" not in lines
    assert "| `dnsteer` | 60.0 (50.0 to 80.0) | 60.0 (50.0 to 80.0) | 600.00 (500.00 to 800.00) | 110 % | 20 |" in lines
    assert "| `haproxy` |  | 9.0 (9.0 to 9.0) |  | 110 % |  |" in lines
    assert "`dnsteer` 2 of 6" in page and "| `haproxy` |  |" in page
    picture = comparison_page.plot(kept)
    assert comparison_page.html_page(kept, picture).count("<svg") == 1
