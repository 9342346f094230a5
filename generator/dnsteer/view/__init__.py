# SPDX-License-Identifier: Apache-2.0
"""What the console, reports and `dnsteer status` share: snapshots of a switch, items of attention, drawing, wording."""
