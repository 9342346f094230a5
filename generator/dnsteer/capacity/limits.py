"""What of a spec passes a limit of Open vSwitch or of the card: then it does not forward what the figures say."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.capacity.card_setup import CardSetup
from dnsteer.offload.capabilities import LimitName
from dnsteer.offload.profile import Profile
from dnsteer.plan.sizes import FLOW_LIMIT, flow_limit

_WORDS: tuple[tuple[LimitName, str, str], ...] = (
    ("counters", "datapath flows", "counters, of which each offloaded flow takes one"),
    ("rules", "hardware rules", "hardware rules that there may be"),
)


def beyond_limits(setup: CardSetup, profile: Profile, flows: int) -> Iterator[str]:
    """Yield a sentence for each limit that the spec's datapath *flows* or hardware rules pass; lint finds the same ones."""
    if flows > FLOW_LIMIT:
        yield (
            f"about {flows:,} datapath flows exceed the default flow-limit of {FLOW_LIMIT:,}: set "
            f"other_config:flow-limit to {flow_limit(flows):,} (dnsteer bringup does)"
        )
    counts = {"counters": flows, "rules": setup.entries}
    for name, what, whose in _WORDS:
        limit = profile.limits.get(name)
        if limit is not None and limit.value is not None and counts[name] > limit.value:
            note = f" ({limit.note})" if limit.note else ""
            yield f"about {counts[name]:,} {what} exceed the {limit.value:,} {whose}{note}"
    facts = setup.model.published.facts
    if facts is not None and setup.entries > facts.max_entries.value:
        yield (
            f"{setup.entries:,} hardware rules are more than {facts.max_entries.value:,.0f}: {facts.max_entries.about}"
        )
