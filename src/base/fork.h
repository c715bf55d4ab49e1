/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the libraries do around fork(), in one order.
 *
 * A stage is one part of a library: a lock that must be free in the child, or something that stays
 * with the parent. Stages stand here in the order of the locks (ARCHITECTURE.md), so that a thread
 * that forks and a thread that works cannot wait for each other:
 *
 *	before fork           from the first stage to the last
 *	after it, in both     from the last stage to the first
 *
 * Each library has a registry of its own, a copy of fork.c, and its handlers run together. The C
 * library runs what was registered last first before fork, and last after it. So a library that
 * calls another one while it holds a lock, or from a handler, registers after that one:
 *
 *	libibverbs, then librdmacm, then libverbena-sockets; libibverbs, then libverbena-sysfs
 *
 * librdmacm and libverbena-sysfs see to it by verbena_engine(), which registers for libibverbs, and
 * libverbena-sockets by opening an rsocket before its first stage that prepares.
 */
#ifndef VB_BASE_FORK_H
#define VB_BASE_FORK_H

enum vb_fork_stage {
	/* libverbena-sockets */
	VB_FORK_SHARES,  /* connections are made ready for the child, by calls of librdmacm */
	VB_FORK_ENTRIES, /* numbers, which a child has before it takes its shares */

	/* libverbena-sysfs */
	VB_FORK_TREE, /* its lock; libibverbs is called under it */

	/* librdmacm; the service also of the rsockets of libverbena-sockets */
	VB_FORK_RSOCKETS,
	VB_FORK_RSOCKET_SERVICE,
	VB_FORK_CMA, /* the mutex of librdmacm; libibverbs' engine is called under it */

	/* libibverbs: locks that are held meanwhile */
	VB_FORK_EXPORTS, /* before nic->lock */
	VB_FORK_NIC,     /* nic->lock */
	VB_FORK_GSI,
	VB_FORK_LINKS,
	VB_FORK_GIVEN, /* this one and the next are taken last */
	VB_FORK_PEERS, /* spins */

	/* libibverbs: what a child only forgets, or unlocks */
	VB_FORK_RAW,
	VB_FORK_COMM_EST,
	VB_FORK_PKEYS,
	VB_FORK_WATCH,
	VB_FORK_PORT,
	VB_FORK_GIDS,
	VB_FORK_NETIF,
	VB_FORK_STAGES
};

/* Each may be NULL. What has a `prepare` is undone, in parent and child, only if that has run. */
struct vb_fork_handlers {
	void (*prepare)(void);
	void (*parent)(void);
	void (*child)(void);
};

/*
 * Before the first use of what the stage stands for; again as often as one likes, under any lock.
 * One set of handlers per stage, which must stay.
 */
void vb_fork_register(enum vb_fork_stage stage, const struct vb_fork_handlers *handlers);

#endif
