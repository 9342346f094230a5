"""The metrics of the agent's own work."""

from __future__ import annotations

from dnsteer.metrics.family import ALWAYS, BRIDGE, Family, Panel

_TIMES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

AGENT: tuple[Family, ...] = (
    Family(
        "dnsteer_agent_info",
        "gauge",
        "Agent",
        "The version of dnsteer that runs as the agent.",
        ("version",),
        when=ALWAYS,
        panel=Panel("Agent", draw="table", by=("bridge", "version")),
    ),
    Family(
        "dnsteer_agent_claim_held",
        "gauge",
        "Agent",
        "Whether this agent acts; 0: it stands by for another.",
        when=ALWAYS,
    ),
    Family("dnsteer_agent_targets", "gauge", "Agent", "Addresses that are asked.", when=ALWAYS),
    Family(
        "dnsteer_agent_panics_total",
        "counter",
        "Agent",
        "Times that a pool went into panic.",
        ("pool",),
        "pools with health checks",
        when="a panic happened",
    ),
    Family(
        "dnsteer_agent_slots_moved_total",
        "counter",
        "Agent",
        "Slots that the agent has moved.",
        when=ALWAYS,
        panel=Panel("Slots moved by the agent", "ops", (BRIDGE,)),
    ),
    Family(
        "dnsteer_agent_switch_errors_total",
        "counter",
        "Agent",
        "Times that the agent could not do something on the switch.",
        when=ALWAYS,
    ),
    Family(
        "dnsteer_agent_decision_wait_seconds",
        "histogram",
        "Agent",
        "Time from a change of health until its effect begins.",
        (),
        str(len(_TIMES) + 3),
        when=ALWAYS,
        panel=Panel("Decision to effect, 99 %", "s"),
        buckets=_TIMES,
    ),
    Family(
        "dnsteer_agent_effect_duration_seconds",
        "histogram",
        "Agent",
        "Time that a decision takes on the switch, until flows and record are written.",
        (),
        str(len(_TIMES) + 3),
        when=ALWAYS,
        panel=Panel("Effect, 99 %", "s"),
        buckets=_TIMES,
    ),
    Family(
        "dnsteer_agent_loop_duration_seconds",
        "histogram",
        "Agent",
        "Time of one turn of the agent's loop, without the wait for the next.",
        (),
        str(len(_TIMES) + 3),
        when=ALWAYS,
        panel=Panel("Loop, 99 %", "s"),
        buckets=_TIMES,
    ),
    Family(
        "dnsteer_agent_look_duration_seconds",
        "histogram",
        "Agent",
        "Time of a look at the whole switch, with its repairs.",
        (),
        str(len(_TIMES) + 3),
        when=ALWAYS,
        panel=Panel("Look, 99 %", "s"),
        buckets=_TIMES,
    ),
    Family(
        "dnsteer_reading_duration_seconds",
        "gauge",
        "Agent",
        "Time of this reading of counters.",
        when=ALWAYS,
        panel=Panel("Reading of counters", "s", (BRIDGE,)),
    ),
)
