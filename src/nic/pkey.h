/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The P_Key table of the port: the partitions that the port is in (IBA 10.9). VERBENA_PKEYS has the
 * table, or VERBENA_PKEYS_FILE, a file that may change while the process runs. Without both the
 * table is 0xffff alone. All devices of the process have the same table. An entry of 0 is empty,
 * and fits no key.
 */
#ifndef VB_NIC_PKEY_H
#define VB_NIC_PKEY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

enum {
	VB_PKEY_DEFAULT = 0xffff,
	VB_PKEY_FULL = 0x8000,      /* a full member; clear: a limited one */
	VB_PKEY_PARTITION = 0x7fff, /* number of the partition; 0: none */
};

extern _Atomic uint16_t vb_pkeys[VB_PKEYS_MAX]; /* read through vb_pkey_at only */

static inline uint16_t vb_pkey_at(unsigned index)
{
	return atomic_load_explicit(&vb_pkeys[index], memory_order_relaxed);
}

/* May two ports with these keys talk: the same partition, and not two limited members? */
static inline bool vb_pkey_fits(uint16_t a, uint16_t b)
{
	return !((a ^ b) & VB_PKEY_PARTITION) && (a | b) & VB_PKEY_FULL && a & VB_PKEY_PARTITION;
}

/* Length of the table with its empty entries. Constant from vb_pkey_load on. */
unsigned vb_pkey_table_length(void);
/* The index of exactly this key, or -EINVAL. */
int vb_pkey_index(uint16_t pkey);
/* The index of an entry in the same partition, a full member first, or -EINVAL. */
int vb_pkey_index_of(uint16_t pkey);

/*
 * Reads the environment, once. -EINVAL, and a line on standard error: the value is malformed, and
 * no device opens.
 */
int vb_pkey_load(void);

/* Absolute path of the file to watch; NULL: none. */
const char *vb_pkey_file(void);
/* Reads the file anew; true: the table has changed. A malformed file changes nothing, and a line on
 * standard error says so. */
bool vb_pkey_reload(void);

/* Parses numbers with commas or blanks between them; empty entries are 0. -EINVAL, and why. */
enum { VB_PKEY_WHY_MAX = 128 };
int vb_pkey_parse(const char *text, uint16_t keys[VB_PKEYS_MAX], unsigned *count,
		  char why[VB_PKEY_WHY_MAX]);

#endif
