# SPDX-License-Identifier: Apache-2.0
"""Scripts and units that prepare a machine for a spec's switch."""
