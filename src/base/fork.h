/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handlers of the libraries around fork(), in one order.
 *
 * A stage is one part of a library: a lock that must be free in the child, or an object that stays
 * with the parent. Stages stand here in the order of the locks (ARCHITECTURE.md), so that a thread
 * that forks and a thread that works cannot wait for each other:
 *
 *	before fork           from the first stage to the last
 *	after it, in both     from the last stage to the first
 *
 * Each library has a registry of its own, a copy of fork.c, and its handlers run together. Of the
 * handlers that the C library knows, the last registered runs first before fork, and last after it.
 * So a library that calls another one while it holds a lock, or from a handler, registers after it:
 *
 *	libibverbs, then librdmacm, then libverbena-sockets; libibverbs, then libverbena-sysfs
 *
 * librdmacm and libverbena-sysfs ensure this by calling verbena_engine(), which registers for
 * libibverbs. libverbena-sockets opens an rsocket before its first stage that prepares.
 */
#ifndef VB_BASE_FORK_H
#define VB_BASE_FORK_H

enum vb_fork_stage {
	/* libverbena-sockets */
	VB_FORK_SHARES,  /* connections are made ready for the child, by calls of librdmacm */
	VB_FORK_ENTRIES, /* descriptor numbers, which a child has before it takes its shares */

	/* libverbena-sysfs */
	VB_FORK_TREE,    /* its lock; libibverbs is called under it */
	VB_FORK_NETLINK, /* the table of sockets; taken last and alone */
	VB_FORK_UMAD,    /* the list of files; libibverbs' engine is called under it */

	/* librdmacm; the service also of the rsockets of libverbena-sockets */
	VB_FORK_RSOCKETS,
	VB_FORK_RSOCKET_SERVICE,
	VB_FORK_CMA, /* the mutex of librdmacm; libibverbs' engine is called under it */

	/* libibverbs: locks that are held during fork */
	VB_FORK_SYSTEM,  /* system/load.h; the system's library is called under it */
	VB_FORK_EXPORTS, /* before nic->lock */
	VB_FORK_MOVES,   /* vb_map_moving; before nic->lock */
	VB_FORK_NIC,     /* nic->lock */
	VB_FORK_MAPS,    /* pages of mapped regions; under nic->lock */
	VB_FORK_GSI,
	VB_FORK_LINKS,
	VB_FORK_GIVEN, /* this lock and the next are taken last */
	VB_FORK_PEERS, /* a spin lock */

	/* libibverbs: state that a child only forgets, or unlocks */
	VB_FORK_RAW,
	VB_FORK_CAPTURE,
	VB_FORK_COMM_EST,
	VB_FORK_PKEYS,
	VB_FORK_WATCH,
	VB_FORK_PORT,
	VB_FORK_GIDS,
	VB_FORK_NETIF,
	VB_FORK_STAGES
};

/* Each may be NULL. With a `prepare`, `parent` and `child` run only if `prepare` has run. */
struct vb_fork_handlers {
	void (*prepare)(void);
	void (*parent)(void);
	void (*child)(void);
};

/*
 * Called before the first use of the stage's lock or object, any number of times, under any lock.
 * A stage has one set of handlers, which must stay in memory.
 */
void vb_fork_register(enum vb_fork_stage stage, const struct vb_fork_handlers *handlers);

#endif
