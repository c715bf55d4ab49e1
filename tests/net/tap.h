/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef NET_TAP_H
#define NET_TAP_H

#include <stdint.h>

/*
 * Makes a tap in a network namespace (a name below /run/netns, or a path), up, with this MTU and a
 * long queue. Its descriptor, non-blocking, or -errno. It takes no offloads: the kernel hands over
 * packets as they would be on a wire, cut and with their checksums.
 */
int tap_open(const char *netns, const char *name, unsigned mtu);

/* Frames that its namespace sent while the queue was full; the relay never saw them. */
uint64_t tap_dropped(const char *netns, const char *name);

#endif
