/* SPDX-License-Identifier: BSD-2-Clause */
/* Words about memory, keys and peers, for sentences under VERBENA_EXPLAIN. */
#ifndef VB_NIC_KEY_WORDS_H
#define VB_NIC_KEY_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/peer.h"

enum { VB_KEY_WORDS = 240, VB_ACCESS_WORDS = 160, VB_PEER_WORDS = 64 };

/* A use of memory that a key should have opened. */
struct vb_key_use {
	struct vb_peer *home; /* the process whose key it is; mapped */
	uint32_t key;
	bool as_rkey;
	bool by_process; /* addr is an address of the process (receives), not of the region */
	uint32_t pd;     /* of the QP or queue ... */
	uint32_t qpn;    /* ... and its QP, if that is not the QP of the sentence; 0: it is */
	uint64_t addr, length;
	unsigned access; /* bits of enum ibv_access_flags that the use needs */
};

/* Writes why the key does not open the memory. False: it does, now. */
bool vb_key_words(const struct vb_key_use *use, char text[VB_KEY_WORDS]);
/* Writes "LOCAL_WRITE and REMOTE_READ"; "none": no flags. */
const char *vb_access_words(unsigned access, char text[VB_ACCESS_WORDS]);
/* The name of the first flag of missing: "IBV_ACCESS_REMOTE_WRITE". */
const char *vb_access_name(unsigned missing);

/* Writes " (pid 4711, rping)" or " (this process)"; empty: nothing is known of the process. */
const char *vb_peer_words(const struct vb_peer *peer, char text[VB_PEER_WORDS]);

#endif
