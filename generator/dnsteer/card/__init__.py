# SPDX-License-Identifier: Apache-2.0
"""The NIC under the switch: its eSwitches and scalable functions, and the published figures of the cards."""
