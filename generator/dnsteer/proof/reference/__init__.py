# SPDX-License-Identifier: Apache-2.0
"""What should happen to a packet, from the spec alone."""
