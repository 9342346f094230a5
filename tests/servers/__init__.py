# SPDX-License-Identifier: Apache-2.0
"""Real name servers, each as Debian ships it, and what the checks of a pool say of them in each state."""
