# SPDX-License-Identifier: Apache-2.0
"""The benchmark of many VIPs: all are asked, from every slot, and the control needs no switch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from bench.hosts import inside
from bench.rig.asker import built_asker
from bench.rig.network import missing
from bench.rig.vips import NEEDED, VARIANTS, Fabric, Load, ManyVips, addresses, vips_spec, wait_for_answer_of

from dnsteer.lab.errors import LabCommandError

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces"),
    pytest.mark.usefixtures("goes_first"),
    pytest.mark.skipif(bool(missing(NEEDED)), reason=f"needs {', '.join(missing(NEEDED))}"),
]


def test_many_vips_answer_from_many_sockets_and_make_as_many_megaflows_as_computed(tmp_path: Path) -> None:
    vips, variant = 20, VARIANTS["two"]
    with Fabric(tmp_path, vips):
        load = Load(built_asker(tmp_path), vips, 4000, 2, random.Random(1))
        switch = ManyVips(tmp_path, vips_spec(variant, vips))
        try:
            switch.load(())
            wait_for_answer_of(addresses(1, 0)[0])
            control, found = load.measure(variant, 1, None), load.measure(variant, 0, switch)
        finally:
            switch.stop()
        with pytest.raises(LabCommandError):
            inside("client", "kdig", f"@{addresses(1, 0)[0]}", "SOA", "+timeout=1", "+retry=0")
    assert control["silent"] == found["silent"] == 0 and control["qps"] > 2000 and found["lost"] < 0.3, (control, found)
    # First passes of 40 services over UDP, and second ones of 256 slots of each family, but for what else was there before.
    assert 40 + 256 < found["megaflows"] < 40 + 2 * 256 + 20 and found["flow_limit"] > 1000, found
