# SPDX-License-Identifier: Apache-2.0
"""The web console of the agent: pages of the switch's state, its pools and its changes, updated as they change."""
