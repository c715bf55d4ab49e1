/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections a second: what connect_tcp and connect_cm share. Both have the same shape: the client
 * connects until it knows that the server's program has accepted, then it disconnects. First one
 * connection after the other, then many at once.
 *
 *   PROGRAM [-n COUNT] [-c CONCURRENT] -p PORT           the server, for one client
 *   PROGRAM [-n COUNT] [-c CONCURRENT] -p PORT ADDRESS   prints connections a second
 *
 * A TCP connection to the same port number says that the server is there, and ends it.
 */
#ifndef BENCH_CONNECT_H
#define BENCH_CONNECT_H

#include <stdbool.h>
#include <sys/socket.h>

struct connect_options {
	const char *prefix; /* of what is printed */
	int count, concurrent;
	struct sockaddr_storage address; /* client: the server's; server: any, with the port */
	socklen_t address_length;
	bool client;
};

/* What a program does in its own way. */
struct connect_shape {
	const char *prefix;
	void (*serve)(const struct connect_options *options);
	void (*one)(const struct connect_options *options);    /* makes and ends a connection */
	double (*many)(const struct connect_options *options); /* all at once; nanoseconds */
};

int connect_main(int argc, char **argv, const struct connect_shape *shape);

/* The server's end of it: waits for a client; its descriptor becomes readable at the end. */
int connect_control_accept(int listener);
int connect_control_listen(const struct connect_options *options);

#endif
