"""The metrics of the switch: its record, and its datapath."""

from __future__ import annotations

from dnsteer.metrics.family import ALWAYS, BRIDGE, Family, Panel

_NETDEV = "the flavor has the userspace datapath"
_KERNEL = "the flavor has the kernel's datapath"
_DUMPED = "there are at most 2,000 megaflows; read at most once a minute"

SWITCH: tuple[Family, ...] = (
    Family(
        "dnsteer_state_number",
        "gauge",
        "State",
        "Number of the applied state (dnsteer history).",
        panel=Panel("State", draw="stat"),
    ),
    Family(
        "dnsteer_state_applied_timestamp_seconds",
        "gauge",
        "State",
        "When it was applied, in seconds since 1970.",
        panel=Panel("Applied", "dateTimeAsIso", draw="stat"),
    ),
    Family(
        "dnsteer_last_change_timestamp_seconds",
        "gauge",
        "State",
        "When the applied state or maintenance began to be what it is: the latest of apply and all entries.",
    ),
    Family(
        "dnsteer_changes_total",
        "counter",
        "State",
        "Changes of the record, by anybody. kind: apply, or what began, went on or ended: drain, down, health, weight, "
        "backup.",
        ("kind",),
        "6",
        when=ALWAYS,
        panel=Panel("Changes", "ops", ("kind",)),
    ),
    Family(
        "dnsteer_maintenance_entries",
        "gauge",
        "State",
        "Entries of maintenance; kind is drain, down, health, weight or backup.",
        ("kind",),
        "5",
        panel=Panel("Maintenance", by=("kind",)),
    ),
    Family(
        "dnsteer_change_pending",
        "gauge",
        "State",
        "Whether a change was begun and is not ended.",
        panel=Panel("Change pending", draw="stat"),
    ),
    Family(
        "dnsteer_flow_restore_wait",
        "gauge",
        "State",
        "Whether the switch waits for dnsteer restore and does not forward.",
    ),
    Family(
        "dnsteer_tables_as_recorded",
        "gauge",
        "State",
        "Whether the tables carry the record's number.",
        panel=Panel("Tables as recorded", draw="stat"),
    ),
    Family(
        "dnsteer_drift_differences",
        "gauge",
        "State",
        "Flows, groups and settings that the last look found different and that were not repaired.",
        when=ALWAYS,
        panel=Panel("Drift", draw="stat"),
    ),
    Family(
        "dnsteer_drift_found_total",
        "counter",
        "State",
        "Differences that were found; kind is flows (with groups) or settings.",
        ("kind",),
        "2",
        when=ALWAYS,
    ),
    Family(
        "dnsteer_drift_repaired_total",
        "counter",
        "State",
        "Those of them that were repaired.",
        ("kind",),
        "2",
        when=ALWAYS,
        panel=Panel("Differences repaired", "ops", ("kind",)),
    ),
    Family("dnsteer_foreign_flows", "gauge", "State", "Flows of others on the bridge, at the last look.", when=ALWAYS),
    Family(
        "dnsteer_switch_up",
        "gauge",
        "Datapath",
        "Whether the switch answers: 1 if this reading got what it asked for.",
        when=ALWAYS,
        panel=Panel("Switch up", draw="stat"),
    ),
    Family(
        "dnsteer_datapath_megaflows", "gauge", "Datapath", "Datapath flows.", panel=Panel("Megaflows", by=(BRIDGE,))
    ),
    Family("dnsteer_datapath_megaflows_limit", "gauge", "Datapath", "Datapath flows that the switch allows now."),
    Family(
        "dnsteer_datapath_revalidation_seconds",
        "gauge",
        "Datapath",
        "Time of the last dump of all datapath flows for revalidation.",
        panel=Panel("Revalidation", "s", (BRIDGE,)),
    ),
    Family(
        "dnsteer_datapath_hits_total",
        "counter",
        "Datapath",
        "Packets that matched a megaflow.",
        panel=Panel("Datapath hits", "pps", (BRIDGE,)),
    ),
    Family(
        "dnsteer_datapath_upcalls_total",
        "counter",
        "Datapath",
        "Packets that matched none and went to ovs-vswitchd.",
        panel=Panel("Upcalls", "pps", (BRIDGE,)),
    ),
    Family(
        "dnsteer_datapath_lost_total",
        "counter",
        "Datapath",
        "Upcalls that were lost before ovs-vswitchd saw them.",
        panel=Panel("Lost upcalls", "pps", (BRIDGE,)),
    ),
    Family(
        "dnsteer_datapath_recirculations_total",
        "counter",
        "Datapath",
        "Second passes of packets.",
        when=_NETDEV,
        panel=Panel("Recirculations", "pps", (BRIDGE,)),
    ),
    Family(
        "dnsteer_datapath_mask_lookups_total",
        "counter",
        "Datapath",
        "Masks that packets were compared with.",
        when=_KERNEL,
    ),
    Family(
        "dnsteer_datapath_masks",
        "gauge",
        "Datapath",
        "Masks of the datapath: each is one more look for a packet.",
        when=f"{_KERNEL}; else {_DUMPED}",
        panel=Panel("Masks", by=(BRIDGE,)),
    ),
    Family(
        "dnsteer_datapath_mask_packets",
        "gauge",
        "Datapath",
        "Packets of the present megaflows of a mask. The 32 with most.",
        ("mask",),
        "32",
        when=_DUMPED,
        panel=Panel("Packets by mask", by=("mask",), draw="table"),
    ),
    Family(
        "dnsteer_datapath_megaflows_offloaded",
        "gauge",
        "Datapath",
        "Megaflows that are in hardware (offloaded: yes).",
        when=_DUMPED,
        panel=Panel("Megaflows in hardware", by=(BRIDGE,)),
    ),
    Family(
        "dnsteer_datapath_packets_lookups_ratio",
        "gauge",
        "Datapath",
        "Masks looked up for a packet that matches a megaflow, on average.",
        when="the datapath has matched packets",
        panel=Panel("Masks looked up per packet", by=(BRIDGE,)),
    ),
)
