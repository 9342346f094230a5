# SPDX-License-Identifier: Apache-2.0
"""The rendered pipelines on a real OVS-DPDK, without a network card: see __main__."""
