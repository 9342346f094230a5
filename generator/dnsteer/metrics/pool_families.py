"""The metrics of pools, their backends and their health checks."""

from __future__ import annotations

from dnsteer.metrics.family import CHECKS, NONE_IS_GOOD, SOME_ARE_DOUBTFUL, Family, Panel

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
