# SPDX-License-Identifier: Apache-2.0
"""What is published about others that watch backends, each with its source. No figure stands here that they do not give."""

from __future__ import annotations

from typing import Any

PUBLISHED: dict[str, dict[str, Any]] = {
    "dnsdist": {
        "defaults": "a query each second; down after 1 failed check",
        "detection_s": None,
        "note": "measured here with other settings: those of the agent",
        "source": "dnsdist.org/guides/downstreams.html",
    },
    "keepalived": {
        "defaults": "delay_loop 60 s, connect_timeout 5 s; DNS_CHECK: 3 retries, delay_loop apart",
        "detection_s": None,
        "note": "no measurement found; computed: these defaults add up to more than 180 s",
        "source": "keepalived.conf(5), acassen/keepalived 9cbce3e",
    },
    "Katran": {
        "defaults": "none: it only forwards the health checks of a program of one's own, encapsulated to the server",
        "detection_s": None,
        "source": "github.com/facebookincubator/katran/issues/132",
    },
    "GLB": {
        "defaults": "a check every 2 s, time-out 1 s, down after 3 failures",
        "detection_s": [5, 7],
        "note": "computed from the defaults, not measured",
        "source": "github/glb-director docs, healthcheck",
    },
}
