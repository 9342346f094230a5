"""The metrics of packets: of VIPs, backends, drops and ports."""

from __future__ import annotations

from dnsteer.metrics.family import EXTENDED, Family, Panel

_SERVICE = ("vip", "service", "pool")
_SERVICES = "services of all VIPs"
_BACKEND = ("pool", "backend", "protocol")
_BACKENDS = "2 for each backend of a pool (protocol: udp, tcp)"
_DROP = ("table", "reason")
_TABLES = "tables of the pipeline (13)"
_PORT = ("port",)
_PORTS = "ports of the spec"
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
)
