# SPDX-License-Identifier: Apache-2.0
"""The metrics of packets (of VIPs, backends, drops and ports), of pools, and of health checks."""

from __future__ import annotations

from dnsteer.metrics.family import CHECKS, EXTENDED, NONE_IS_GOOD, SOME_ARE_DOUBTFUL, Family, Panel
from dnsteer.tables.order import TABLES

_SERVICE = ("vip", "service", "pool")
_SERVICES = "services of all VIPs"
_BACKEND = ("pool", "backend", "protocol")
_BACKENDS = "2 for each backend of a pool (protocol: udp, tcp)"
_DROP = ("table", "reason")
_TABLES = f"tables of the pipeline ({len(TABLES)})"
_PORT = ("port",)
_PORTS = "ports of the spec"
_MEMBER = ("uplink", "member")
_BONDED = "members of bonds"
_BOND = "an uplink of the spec is a bond"
_KEEPS = "a VIP has keep: connections, and the switch is this machine's"
_COUNTED = "a spec is applied and the device counts them"

TRAFFIC: tuple[Family, ...] = (
    Family(
        "dnsteer_service_packets_total",
        "counter",
        "Traffic",
        "Packets to a service of a VIP; those of UDP services are queries.",
        _SERVICE,
        _SERVICES,
        panel=Panel("Packets to VIPs", "pps", ("vip",), top=20),
    ),
    Family(
        "dnsteer_service_bytes_total",
        "counter",
        "Traffic",
        "Bytes to a service of a VIP, with Ethernet headers.",
        _SERVICE,
        _SERVICES,
        panel=Panel("Bytes to VIPs", "Bps", ("vip",), top=20),
    ),
    Family(
        "dnsteer_vip_announced",
        "gauge",
        "Traffic",
        "Whether a VIP is announced to routers: BIRD has its routes.",
        ("vip",),
        "VIPs",
        when="the spec has switch.announce",
        panel=Panel("Announced VIPs"),
    ),
    Family(
        "dnsteer_prefix_announced",
        "gauge",
        "Traffic",
        "Whether a prefix of switch.announce.prefixes is announced to routers: BIRD has its route.",
        ("prefix",),
        "prefixes",
        when="the spec has switch.announce.prefixes",
        panel=Panel("Announced prefixes"),
    ),
    Family(
        "dnsteer_vip_unannounced_info",
        "gauge",
        "Traffic",
        "Why a VIP that the spec announces is not announced. cause: people (dnsteer withdraw, standby), health (it does not "
        "work, or is held back), routing (BIRD lacks routes, or it is not known yet whether it works).",
        ("vip", "cause", "reason"),
        "VIPs that are not announced",
        when="a VIP is not announced",
        panel=Panel("VIPs that are not announced", by=("vip", "cause", "reason"), draw="table"),
    ),
    Family(
        "dnsteer_vip_held_until_timestamp_seconds",
        "gauge",
        "Traffic",
        "Until when a VIP that works again is held back, since it has failed again and again.",
        ("vip",),
        "VIPs that are held back",
        when="the spec has switch.announce",
    ),
    Family(
        "dnsteer_backend_packets_total",
        "counter",
        "Traffic",
        "Packets forwarded to a backend for a pool.",
        _BACKEND,
        _BACKENDS,
        panel=Panel("Packets to backends", "pps", ("pool", "backend"), top=20),
    ),
    Family(
        "dnsteer_backend_bytes_total",
        "counter",
        "Traffic",
        "Bytes forwarded to a backend for a pool.",
        _BACKEND,
        _BACKENDS,
        panel=Panel("Bytes to backends", "Bps", ("pool", "backend"), top=20),
    ),
    Family(
        "dnsteer_dropped_packets_total",
        "counter",
        "Traffic",
        "Packets that no flow of a table forwards, by the table that drops them and why.",
        _DROP,
        _TABLES,
        panel=Panel("Drops by reason", "pps", ("table", "reason")),
    ),
    Family(
        "dnsteer_denied_packets_total",
        "counter",
        "Traffic",
        "Queries that an access list denies, by the list: `switch.access`, or `vips.NAME.access` of the first VIP with it. "
        "What is denied by hand is of the list `by hand`, and denial says what.",
        ("list", "denial"),
        "access lists and denials by hand",
        when="the spec has an access list, or clients are denied by hand",
        panel=Panel("Denied by access lists", "pps", ("list", "denial"), top=20),
    ),
    Family(
        "dnsteer_denied_bytes_total",
        "counter",
        "Traffic",
        "Bytes of these queries.",
        ("list", "denial"),
        "access lists and denials by hand",
        when="the spec has an access list, or clients are denied by hand",
    ),
    Family(
        "dnsteer_access_list_entries",
        "gauge",
        "Traffic",
        "Entries of an access list, by what they do: deny or allow.",
        ("list", "entries"),
        "2 for each access list",
        when="the spec has an access list",
    ),
    Family(
        "dnsteer_limited_packets_total",
        "counter",
        "Traffic",
        "Packets that came faster than a limit of the spec lets through, and were dropped. kind is queries, clients, "
        "tcp_syn, echo, errors or backends. service is empty where a VIP's services share its rate; vip is the first of "
        "those that share the buckets of clients; for echo requests and ICMP errors it is empty, and service what they were "
        "to (vips, gateways or backends); for what came for a backend's own address service is that.",
        ("vip", "service", "kind"),
        "limits of VIPs, or of their services, and 4, and addresses of backends with `pass: backends`",
        panel=Panel("Dropped by limits", "pps", ("vip", "service", "kind")),
    ),
    Family(
        "dnsteer_limited_client_buckets",
        "gauge",
        "Traffic",
        "Buckets of a limit of clients that have dropped packets since the reading before. vip is the first of those that "
        "share it.",
        ("vip",),
        "limits of clients",
        when="the spec limits clients",
        panel=Panel("Buckets of clients that drop", "short", ("vip",)),
    ),
    Family(
        "dnsteer_icmp_errors_total",
        "counter",
        "Traffic",
        "ICMP errors about packets that were too big that were passed to backends. receivers is one where the tracker keeps "
        "the connection, so that its backend alone gets the error, and each where every backend of the VIP gets a copy.",
        ("receivers",),
        "2",
        when="backends of a VIP get ICMP errors (vips.NAME.errors)",
        panel=Panel("ICMP errors to backends", "pps", ("receivers",)),
    ),
    Family("dnsteer_dropped_bytes_total", "counter", "Traffic", "Bytes of these packets.", _DROP, _TABLES),
    Family(
        "dnsteer_extension_dropped_packets_total",
        "counter",
        "Traffic",
        "Packets that the extension drops, by the port that they come in by (in: queries, out: answers) and why.",
        ("direction", "reason"),
        "reasons of the extension (about 10)",
        when=EXTENDED,
        panel=Panel("Drops of the extension", "pps", ("direction", "reason")),
    ),
    *(
        Family(
            f"dnsteer_port_{way}_{what}_total",
            "counter",
            "Ports",
            f"{said} that a port {verb}.",
            _PORT,
            _PORTS,
            when=_COUNTED,
            panel=Panel(
                f"{said} that ports {verb.rstrip('s') if verb == 'receives' else 'transmit'}", unit, ("port",), top=20
            ),
        )
        for way, verb in (("receive", "receives"), ("transmit", "transmits"))
        for what, said, unit in (("packets", "Packets", "pps"), ("bytes", "Bytes", "Bps"))
    ),
    *(
        Family(
            f"dnsteer_port_{way}_{what}_total",
            "counter",
            "Ports",
            f"{said} of a port, {way} side.",
            _PORT,
            _PORTS,
            when=_COUNTED,
        )
        for way in ("receive", "transmit")
        for what, said in (("dropped", "Packets dropped"), ("errors", "Errors"))
    ),
    Family(
        "dnsteer_uplink_member_up",
        "gauge",
        "Ports",
        "Whether a member of a bond of uplinks has a link.",
        _MEMBER,
        _BONDED,
        when=_BOND,
        panel=Panel("Members of bonds with a link", by=_MEMBER),
    ),
    Family(
        "dnsteer_uplink_member_active",
        "gauge",
        "Ports",
        "Whether packets leave by a member of a bond of uplinks.",
        _MEMBER,
        _BONDED,
        when=_BOND,
        panel=Panel("Members of bonds that packets leave by", by=_MEMBER),
    ),
)


_SLOTS = ("pool", "title", "backend")
_MEMBERS = "backends of a pool, once more for each family or service with slots of its own"
_POOL = ("pool", "title")
_POOLS = "pools, once more for each family or service with slots of its own"
_CHECK = ("pool", "backend", "check")
_ANSWERS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

POOLS: tuple[Family, ...] = (
    Family(
        "dnsteer_backend_in_service",
        "gauge",
        "Backends",
        "Whether a backend is in service: 1, unless it is draining, drained, down, unhealthy, returning, or of weight 0.",
        _SLOTS,
        _MEMBERS,
        panel=Panel(
            "Backends in service",
            by=("pool",),
            # A backend counts once, whether its pool has slots for each family and service or not.
            query="sum by (switch, bridge, pool) (min by (switch, bridge, pool, backend) (METRIC))",
        ),
    ),
    Family(
        "dnsteer_backend_out_info",
        "gauge",
        "Backends",
        "Why a backend is not in service, or has another weight. state: draining, drained, down, unhealthy, returning, "
        "weight, backup.",
        (*_SLOTS, "state", "reason"),
        "backends that are out",
        when="a backend is out, or its backup in use",
        panel=Panel("Out of service", draw="table", by=("title", "backend", "state", "reason")),
    ),
    Family(
        "dnsteer_backend_slots",
        "gauge",
        "Backends",
        "Slots that a backend holds now.",
        _SLOTS,
        _MEMBERS,
        panel=Panel("Slots held", by=("title", "backend"), top=20),
    ),
    Family(
        "dnsteer_backend_own_slots",
        "gauge",
        "Backends",
        "Slots that a backend holds when everybody is in service.",
        _SLOTS,
        _MEMBERS,
    ),
    Family("dnsteer_backend_weight", "gauge", "Backends", "Weight of a backend in the spec.", _SLOTS, _MEMBERS),
    Family(
        "dnsteer_backend_metric",
        "gauge",
        "Backends",
        "Load of a backend by the metric that balances its pool: smoothed, as a part of its full load.",
        ("pool", "backend"),
        "backends of pools that are balanced by a metric",
        when="a pool has balance: {by: metric}, and the backend's metric is known",
        panel=Panel("Metric that load is balanced by", by=("pool", "backend"), top=20),
    ),
    Family(
        "dnsteer_backend_connections",
        "gauge",
        "Backends",
        "Open TCP connections of a backend that the tracker keeps, counted every 10 s; none above 200,000 entries.",
        ("pool", "backend"),
        "backends of pools that keep connections",
        when=_KEEPS,
        panel=Panel("Connections that are kept", by=("pool", "backend"), top=20),
    ),
    Family(
        "dnsteer_tracked_connections",
        "gauge",
        "Backends",
        "Entries of the tracker's zone of connections that are kept, with those that have ended and are not forgotten yet.",
        ("zone",),
        when=_KEEPS,
        panel=Panel("Entries of the connection tracker", by=("zone",)),
    ),
    Family(
        "dnsteer_tracked_connections_limit",
        "gauge",
        "Backends",
        "The most entries that the zone may have (switch.tracking.connections). Connections beyond it go by their slots.",
        ("zone",),
        when=_KEEPS + " and the zone has a limit",
    ),
    Family("dnsteer_pool_slots", "gauge", "Backends", "Slots of a pool.", _POOL, _POOLS),
    Family(
        "dnsteer_pool_backends",
        "gauge",
        "Backends",
        "Backends of a pool with a weight, without those of its backup.",
        _POOL,
        _POOLS,
    ),
    Family(
        "dnsteer_pool_backends_in_service",
        "gauge",
        "Backends",
        "Backends of a pool with a weight that are in service, without those of its backup.",
        _POOL,
        _POOLS,
    ),
    Family(
        "dnsteer_pool_backup_in_use",
        "gauge",
        "Backends",
        "Whether backends of the pool's backup serve.",
        ("pool",),
        "pools",
        panel=Panel("Pools on their backup", draw="stat", scale=SOME_ARE_DOUBTFUL),
    ),
    Family(
        "dnsteer_check_results_total",
        "counter",
        "Health checks",
        "Results of health checks; outcome is good or bad.",
        (*_CHECK, "outcome"),
        "2 for each backend and kind of check",
        when=CHECKS,
        panel=Panel("Failed checks", "ops", ("pool", "backend"), top=20, only=(("outcome", "bad"),)),
    ),
    Family(
        "dnsteer_check_duration_seconds",
        "histogram",
        "Health checks",
        "Time until the answer of a check, or its failure.",
        ("pool", "check"),
        f"{len(_ANSWERS) + 3} for each pool and kind of check",
        when=CHECKS,
        panel=Panel("Time of checks, 99 %", "s", ("pool", "check")),
        buckets=_ANSWERS,
    ),
    Family(
        "dnsteer_check_healthy",
        "gauge",
        "Health checks",
        "Whether all targets of a check of a backend are healthy.",
        _CHECK,
        "backends times kinds of checks",
        when=CHECKS,
        panel=Panel(
            "Backends that fail a check",
            draw="table",
            query="min by (switch, bridge, pool, backend, check) (METRIC) == 0",
        ),
    ),
    Family(
        "dnsteer_pool_panic",
        "gauge",
        "Health checks",
        "Whether no backend in service of a pool passes its checks, so that none is taken out.",
        ("pool",),
        "pools with health checks",
        when=CHECKS,
        panel=Panel("Pools in panic", draw="stat", scale=NONE_IS_GOOD),
    ),
    Family(
        "dnsteer_pool_kept_backends",
        "gauge",
        "Health checks",
        "Backends that fail their checks and stay in service only since too few others pass (`keep_at_least`).",
        ("pool",),
        "pools with health checks",
        when=CHECKS,
        panel=Panel("Failing backends kept in service", draw="stat", scale=NONE_IS_GOOD),
    ),
)
