/* SPDX-License-Identifier: BSD-2-Clause */
/* What the members of a port's group send each other; never leaves the host. */
#ifndef VB_PORT_STEER_MESSAGE_H
#define VB_PORT_STEER_MESSAGE_H

#include <assert.h>
#include <stdint.h>

#include "shm/layout.h"

/* As a BTH it would have an opcode of the reliable datagram service, which no RoCE sender uses. */
enum { STEER_MAGIC = 0x56627374 };
enum steer_kind { STEER_FIND = 1, STEER_ASK, STEER_ANSWER };

struct steer_message {
	uint32_t magic, position; /* network order: the kernel's program reads them */
	uint32_t kind;            /* host order from here on */
	uint32_t about;           /* the position again */
	uint64_t nonce;           /* the asker's */
	uint32_t asker;           /* position: of the asker; in an answer, of who answers */
	uint32_t slot_count;
	uint32_t slots[VB_OWN_SLOTS];
};
static_assert(sizeof(struct steer_message) == 32 + 4 * VB_OWN_SLOTS, "steer message");

#endif
