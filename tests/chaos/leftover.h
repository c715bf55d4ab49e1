/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process holds, and what dead processes left behind on the machine. */
#ifndef CHAOS_LEFTOVER_H
#define CHAOS_LEFTOVER_H

#include <stdint.h>
#include <time.h>

struct holdings {
	uint32_t fds, maps;
	uint64_t rss_kb;
};

struct holdings holdings_now(void);

/* Files in /dev/shm of this user, made since then, that no living process maps. Names them. */
unsigned leftover_shm(time_t since);
/* Abstract sockets @verbena.* that no living process holds. Names them. */
unsigned leftover_sockets(void);

#endif
