# SPDX-License-Identifier: Apache-2.0
"""Which backend each slot of a pool names: assignment, members and maintenance. Pure functions."""
