# SPDX-License-Identifier: Apache-2.0
"""Whether hardware takes the datapath flows of a spec: capability profiles and verdicts."""
