# SPDX-License-Identifier: Apache-2.0
"""From a spec to a plan: rows of all tables, their size in hardware, and their masks. Pure functions."""
