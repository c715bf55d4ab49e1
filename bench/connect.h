/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections a second: the common part of connect_tcp and connect_cm. Both have the same shape.
 * The client connects, waits until it knows that the server's program has accepted, and
 * disconnects. First one connection after the other, then many at once.
 *
 *   PROGRAM [-n COUNT] [-c CONCURRENT] -p PORT           the server, for one client
 *   PROGRAM [-n COUNT] [-c CONCURRENT] -p PORT ADDRESS   prints connections a second
 *
 * A TCP connection to the same port number tells that the server is there. Its end ends the server.
 */
#ifndef BENCH_CONNECT_H
#define BENCH_CONNECT_H

#include <stdbool.h>
#include <sys/socket.h>

struct connect_options {
	const char *prefix; /* of the printed keys */
	int count, concurrent;
	struct sockaddr_storage address; /* client: the server's; server: any, with the port */
	socklen_t address_length;
	bool client;
};

/* The steps that each program does in its own way. */
struct connect_shape {
	const char *prefix;
	void (*serve)(const struct connect_options *options);
	void (*one)(const struct connect_options *options);    /* makes and ends a connection */
	double (*many)(const struct connect_options *options); /* all at once; nanoseconds */
};

int connect_main(int argc, char **argv, const struct connect_shape *shape);

/* The server's side of the control connection. Accept waits for a client; the returned descriptor
 * becomes readable at the client's end. */
int connect_control_accept(int listener);
int connect_control_listen(const struct connect_options *options);

#endif
