/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is told, where it started this process: sd_notify(3), one datagram each, without its library. */
#ifndef NOTIFY_H_
#define NOTIFY_H_

/* Sends a state such as READY=1. Nothing without NOTIFY_SOCKET; a failure is logged. */
void notify_systemd(const char *state);

/* Sends WATCHDOG=1 where this process has a watchdog (WATCHDOG_USEC, WATCHDOG_PID). */
void notify_alive(void);

#endif
