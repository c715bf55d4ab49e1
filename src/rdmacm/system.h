/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifiers of the system's devices (VERBENA_DEVICES=+system).
 *
 * The program has identifiers of this library. The address decides which connection manager one
 * belongs to, when it is bound or resolved: an address of a device of the system belongs to the
 * system's librdmacm. Then an identifier there, its *shadow*, does all that happens, and what the
 * program may read of it is copied after each call and event. A listener on a wildcard address
 * listens at both. The shadow's context is the program's identifier.
 *
 * The system's events come by a channel of its own. The descriptor of the program's channel is an
 * epoll descriptor over both. Shadows are never synchronous: calls wait for their event as others
 * do (sync.c).
 */
#ifndef VB_RDMACM_SYSTEM_H
#define VB_RDMACM_SYSTEM_H

#include <stdbool.h>

#include "rdmacm/cma.h"
#include "rdmacm/system_calls.h"

/* The calls; NULL: no device of the system is asked for or there, or no such library. */
const struct vb_cma_system_calls *vb_cma_system(void);

/* --- channels and events --- */

/* Gives a new channel the other source of events, if there is one. 0 or -errno. */
int vb_cma_system_channel_open(struct vb_cma_channel *channel);
void vb_cma_system_channel_close(struct vb_cma_channel *channel);
/* The next event of either source. As vb_cma_channel_take, for a channel that has both. */
int vb_cma_system_channel_take(struct vb_cma_channel *channel, struct vb_cma_event **event);
/* Acknowledges an event of the system, and frees it. */
void vb_cma_system_ack(struct vb_cma_event *event);

/* --- identifiers --- */

/*
 * Binds the id, and a shadow where the address is one of the system's devices or a wildcard. The
 * result is that of vb_cma_bind.
 */
int vb_cma_system_bind(struct vb_cma_id *id, const struct sockaddr *addr, const char *call);
/* True: the way to dst leads over a device of the system, and the id has a shadow from now on. */
bool vb_cma_system_carries(struct vb_cma_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst);
/* An id on a wildcard has set an option: its shadow gets it, too. */
int vb_cma_system_option(struct vb_cma_id *id, int level, int name, void *value, size_t length);
/* The shadow of a listener on a wildcard listens, too. */
int vb_cma_system_listen(struct vb_cma_id *id, int backlog);
int vb_cma_system_migrate(struct vb_cma_id *id, struct vb_cma_channel *to);
/* Destroys the shadow. It waits until the program has acknowledged its events. */
void vb_cma_system_destroy(struct vb_cma_id *id);

/* The contexts of the system's devices, with a NULL behind them; they are never freed. */
struct ibv_context **vb_cma_system_devices(int *count);

/* --- calls on a shadow --- */

/* Before: what the program has set goes to the shadow. False, and errno: a child inherited the id.
 */
bool vb_cma_system_begin(struct vb_cma_id *id, const void *function, const char *call);
/* After: the other way. Returns the result, 0 or -1, and explains a failure. */
int vb_cma_system_end(struct vb_cma_id *id, int result, const char *call);
/* -EINVAL with an explanation: a part of a QP or SRQ is not one of the system's device. */
int vb_cma_system_check_part(const void *part, const char *what, const char *call);

static inline bool vb_cma_is_systems(const struct rdma_cm_id *id)
{
	return id && ((const struct vb_cma_id *)id)->is_systems;
}

/* The result of a public call on such an id; the arguments name `shadow`. */
#define VB_CMA_SYSTEM_RESULT(which, call, args)                               \
	({                                                                    \
		struct vb_cma_id *passed = vb_cma_id(which);                  \
		struct rdma_cm_id *shadow = passed->shadow;                   \
		const struct vb_cma_system_calls *calls = vb_cma_system();    \
		vb_cma_system_begin(passed, (const void *)calls->call, #call) \
			? vb_cma_system_end(passed, calls->call args, #call)  \
			: -1;                                                 \
	})
#define VB_CMA_PASS(which, call, args)                                  \
	do {                                                            \
		if (vb_cma_is_systems(which))                           \
			return VB_CMA_SYSTEM_RESULT(which, call, args); \
	} while (0)
/* The same for a call that waits for its event where the id is synchronous. */
#define VB_CMA_PASS_WAIT(which, call, args)                                                     \
	do {                                                                                    \
		if (vb_cma_is_systems(which)) {                                                 \
			const bool waits = vb_cma_id(which)->sync;                              \
			if (VB_CMA_SYSTEM_RESULT(which, call, args))                            \
				return -1;                                                      \
			return vb_return_minus_one(vb_cma_event_wait(vb_cma_id(which), waits)); \
		}                                                                               \
	} while (0)
#define VB_CMA_PASS_VOID(which, call)                                                        \
	do {                                                                                 \
		if (vb_cma_is_systems(which)) {                                              \
			struct vb_cma_id *passed = vb_cma_id(which);                         \
			const struct vb_cma_system_calls *calls = vb_cma_system();           \
			if (vb_cma_system_begin(passed, (const void *)calls->call, #call)) { \
				calls->call(passed->shadow);                                 \
				vb_cma_system_end(passed, 0, #call);                         \
			}                                                                    \
			return;                                                              \
		}                                                                            \
	} while (0)

#endif
