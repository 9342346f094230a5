# SPDX-License-Identifier: Apache-2.0
"""One process beside the switch that probes backends and takes those that fail out of service."""
