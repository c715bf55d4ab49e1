/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages between members of a port's group. They never leave the host. */
#ifndef VB_PORT_STEER_MESSAGE_H
#define VB_PORT_STEER_MESSAGE_H

#include <assert.h>
#include <stdint.h>

#include "shm/layout.h"

/* Read as a BTH it has an opcode of the reliable datagram service, which no RoCE sender uses. */
enum { STEER_MAGIC = 0x56627374 };
enum steer_kind { STEER_FIND = 1, STEER_ASK, STEER_ANSWER };

struct steer_message {
	uint32_t magic, position; /* network order: the kernel's program reads them */
	uint32_t kind;            /* host order from here on */
	uint32_t about;           /* position again, in host order */
	uint64_t nonce;           /* of the asker */
	uint32_t asker;           /* position of the asker; in an answer, of the answering member */
	uint32_t slot_count;
	uint32_t slots[VB_OWN_SLOTS]; /* or rows: struct vb_steer_entry */
};
static_assert(sizeof(struct steer_message) == 32 + 4 * VB_OWN_SLOTS, "steer message");

#endif
