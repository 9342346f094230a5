# SPDX-License-Identifier: Apache-2.0
"""The counters of two PMD threads and the main thread, as Open vSwitch up to 3.7 and 4.0 print them."""

UP_TO_3_7 = """\
pmd thread numa_id 0 core_id 1:
  packets received: 200
  packet recirculations: 100
  avg. datapath passes per packet: 1.50
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 20
  emc hits: 30
  smc hits: 40
  megaflow hits: 100
  avg. subtable lookups per megaflow hit: 1.00
  miss with success upcall: 9
  miss with failed upcall: 2
  avg. packets per output batch: 3.50
  idle cycles: 1000 (10.00%)
  processing cycles: 9000 (90.00%)
  avg cycles per packet: 50.00 (10000/200)
  avg processing cycles per packet: 45.00 (9000/200)
pmd thread numa_id 1 core_id 2:
  packets received: 300
  packet recirculations: 5
  avg. datapath passes per packet: 1.02
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 0
  emc hits: 4
  smc hits: 0
  megaflow hits: 300
  avg. subtable lookups per megaflow hit: 3.00
  miss with success upcall: 1
  miss with failed upcall: 0
  avg. packets per output batch: 1.00
  idle cycles: 900 (90.00%)
  processing cycles: 100 (10.00%)
  avg cycles per packet: 3.33 (1000/300)
  avg processing cycles per packet: 0.33 (100/300)
main thread:
  packets received: 0
  packet recirculations: 0
  avg. datapath passes per packet: 0.00
  phwol hits: 0
  mfex opt hits: 0
  simple match hits: 0
  emc hits: 0
  smc hits: 0
  megaflow hits: 0
  avg. subtable lookups per megaflow hit: 0.00
  miss with success upcall: 0
  miss with failed upcall: 0
  avg. packets per output batch: 0.00
"""
FROM_4_0 = """\

Time: 12:00:00.000
Measurement duration: 86400.250 s

pmd thread numa_id 0 core_id 1:

  Iterations:                   50  (0.10 us/it)
  - Used TSC cycles:         10000  ( 50.0 % of total cycles)
  - idle iterations:            10  ( 10.0 % of used cycles)
  - busy iterations:            40  ( 90.0 % of used cycles)
  - sleep iterations:            0  (  0.0 % of iterations)
  Sleep time (us):               0  (  0 us/iteration avg.)
  Rx packets:                  200  (0 Kpps, 45 cycles/pkt)
  Datapath passes:             300  (1.50 passes/pkt)
  - PHWOL hits:                  0  (  0.0 %)
  - Simple Match hits:          20  (  6.7 %)
  - EMC hits:                   30  ( 10.0 %)
  - SMC hits:                   40  ( 13.3 %)
  - Megaflow hits:             100  ( 33.3 %, 1.00 subtbl lookups/hit)
  - Upcalls:                     9  (  3.0 %, 1.2 us/upcall)
  - Lost upcalls:                2  (  0.7 %)
  Tx packets:                  350  (0 Kpps)
  Tx batches:                  100  (3.50 pkts/batch)

Histograms
   cycles/it              packets/it             cycles/pkt             pkts/batch             max vhost qlen
   500       12           0         10           100       3            1         7            0         0

Time: 12:00:00.000
Measurement duration: 86400.250 s

pmd thread numa_id 1 core_id 2:

  Iterations:                   20  (0.10 us/it)
  - Used TSC cycles:          1000  ( 50.0 % of total cycles)
  - idle iterations:            18  ( 90.0 % of used cycles)
  - busy iterations:             2  ( 10.0 % of used cycles)
  - sleep iterations:            0  (  0.0 % of iterations)
  Sleep time (us):               0  (  0 us/iteration avg.)
  Rx packets:                  300  (0 Kpps, 0 cycles/pkt)
  Datapath passes:             305  (1.02 passes/pkt)
  - PHWOL hits:                  0  (  0.0 %)
  - Simple Match hits:1234567890123  (  0.0 %)
  - EMC hits:                    4  (  1.3 %)
  - SMC hits:                    0  (  0.0 %)
  - Megaflow hits:             300  ( 98.4 %, 3.00 subtbl lookups/hit)
  - Upcalls:                     1  (  0.3 %, 1.2 us/upcall)
  - Lost upcalls:                0  (  0.0 %)
  Tx packets:                    0


Time: 12:00:00.000
Measurement duration: 86400.250 s

main thread:

  Rx packets:                    0
  Tx packets:                    0

"""
JUST_CLEARED = """\

Time: 12:00:00.000
Measurement duration: 0.000 s

main thread:

"""
