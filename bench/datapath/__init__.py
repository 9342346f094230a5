"""The rendered pipelines on a real OVS-DPDK, without a network card: see __main__."""
