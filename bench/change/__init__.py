# SPDX-License-Identifier: Apache-2.0
"""What a change of a running switch does to its clients: probes in the lab, while it is under load."""
