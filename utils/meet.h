/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP connection on which the two sides exchange their addresses, in messages of fixed size.
 * The client speaks first, and its "done" ends the exchange.
 */
#ifndef UTILS_MEET_H
#define UTILS_MEET_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

struct pp_address {
	unsigned lid, qpn, psn;
	union ibv_gid gid;
};

/* Listens on a port; -1 after a complaint. */
int pp_meet_listen(unsigned port);
int pp_meet_accept(int listener);
int pp_meet_connect(const char *host, unsigned port);

/* True: all bytes were transferred. False after a complaint. */
bool pp_meet_write(int fd, const void *bytes, size_t size);
bool pp_meet_read(int fd, void *bytes, size_t size);

/* A GID as 32 hexadecimal digits, and back; false: the text is no GID. */
enum { PP_GID_DIGITS = 32 };
void pp_gid_write(const union ibv_gid *gid, char text[PP_GID_DIGITS + 1]);
bool pp_gid_read(const char *text, union ibv_gid *gid);

/* lid:qpn:psn:gid in hexadecimal, with a NUL at the end. */
bool pp_address_send(int fd, const struct pp_address *address);
bool pp_address_receive(int fd, struct pp_address *address);

/* A random 24-bit number for the first packet. */
unsigned pp_psn(void);

#endif
