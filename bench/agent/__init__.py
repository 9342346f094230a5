# SPDX-License-Identifier: Apache-2.0
"""What faults of name servers cost clients with the agent, beside dnsdist, and the agent with a thousand backends."""
