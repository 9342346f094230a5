# SPDX-License-Identifier: Apache-2.0
"""How many masks traffic can make of the tables: an upper bound, computed from the flows."""
