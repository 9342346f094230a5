"""The web console of the agent: pages of the switch's state, its pools and its changes, updated as they change."""
