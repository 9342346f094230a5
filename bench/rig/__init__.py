# SPDX-License-Identifier: Apache-2.0
"""One rig for all comparisons: client, balancer and four servers joined by veth, the same hops whatever balances."""
