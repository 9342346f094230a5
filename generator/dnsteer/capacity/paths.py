"""The packet paths of a spec, for capacity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dnsteer.offload.examine import examine
from dnsteer.offload.packet_path import PacketPath
from dnsteer.offload.profile import Profile
from dnsteer.spec.loaded import Loaded


def paths_of(loaded: Loaded, judge: Profile, progress: Callable[[int], None] = lambda _: None) -> Sequence[PacketPath]:
    """Return the packet paths of *loaded*, judged by the profile *judge*. Raises SwitchError as examine does."""
    return examine(loaded, judge, progress=progress).paths
