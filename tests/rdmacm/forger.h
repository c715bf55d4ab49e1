/* SPDX-License-Identifier: BSD-2-Clause */
/* A stranger that reports, about packets that it has never seen, that nobody was at the port. */
#ifndef VB_TESTS_RDMACM_FORGER_H
#define VB_TESTS_RDMACM_FORGER_H

#include <stdint.h>

/* Of ephemeral ports; so few that each of them hears of it all the time. */
enum { FORGED_PORT = 40000, FORGED_PORTS = 64 };

struct forgery {
	const char *from;       /* the reporter's address */
	const char *to;         /* whose packet is quoted */
	const char *quoted;     /* where it went */
	unsigned quoted_length; /* of its UDP payload */
};

/* Over all ports, again and again; does not return. */
_Noreturn void forge(const struct forgery *forgery);

#endif
