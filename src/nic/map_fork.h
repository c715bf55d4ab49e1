/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mapped regions and fork. The child gets a copy of their pages as they were at fork, private
 * memory as before. It copies in its handler, and the thread of the parent that forks waits for
 * that. Other threads and peers may write meanwhile, as a NIC does while the kernel copies pinned
 * pages at fork. A child that is made without the handlers (clone, _Fork) has none of the pages.
 */
#ifndef VB_NIC_MAP_FORK_H
#define VB_NIC_MAP_FORK_H

/* Registers the handlers; any number of times. */
void vb_map_watch_fork(void);

#endif
