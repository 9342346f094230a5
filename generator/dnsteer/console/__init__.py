"""The web console of the agent: read-only pages of the switch's state, its pools and its changes, updated as they change."""
