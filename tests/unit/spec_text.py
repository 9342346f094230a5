# SPDX-License-Identifier: Apache-2.0
"""A small spec as text, and changes of it."""

from __future__ import annotations

from dnsteer.checks.load import check_document
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document

SPEC = """\
# a comment
apiVersion: dnsteer/v1

switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0:
pools:
  ns:
    backends:
      - {name: a, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01}
      - name: b
        ipv4: 192.0.2.12
        mac: 02:00:00:00:01:02
vips:
  dns:
    addresses:
      - 192.0.2.53
    services: [dns]
    pool: ns
"""


def load(text: str) -> Loaded:
    return check_document(parse_document("spec.yaml", text))


def changed(*pairs: tuple[str, str], text: str = SPEC) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text
