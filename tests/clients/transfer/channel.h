/* SPDX-License-Identifier: BSD-2-Clause */
/* The side channel: a TCP connection (or a socket pair) for everything that is not RDMA. */
#ifndef TRANSFER_CHANNEL_H
#define TRANSFER_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>

int channel_accept(const char *port);
int channel_connect(const char *host, const char *port);

/* Both wait; they fail the program when the peer is gone. */
void channel_send(int channel, const void *bytes, size_t size);
void channel_receive(int channel, void *bytes, size_t size);

/* A byte, if one has come. */
bool channel_look(int channel, char *byte);

#endif
