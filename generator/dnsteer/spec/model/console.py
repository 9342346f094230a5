# SPDX-License-Identifier: Apache-2.0
"""What the web console of the agent may do."""

from __future__ import annotations

from pydantic import Field

from dnsteer.spec.model.part import Part


class Console(Part):
    """The web console of `dnsteer agent`."""

    allow_changes: bool = Field(
        default=False,
        strict=True,
        description="Whether people who sign in with a token of the role `change` may drain, undrain, take down and bring "
        "up backends, and roll back, in a browser. `false`: the console only reads.",
    )
