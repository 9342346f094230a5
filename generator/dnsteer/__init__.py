# SPDX-License-Identifier: Apache-2.0
"""dnsteer: DNS load balancing in Open vSwitch, from a YAML spec to proven, offloadable OpenFlow."""

__version__ = "0.1.0"
