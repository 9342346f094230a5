# SPDX-License-Identifier: Apache-2.0
"""A private switch that packets are put into."""
