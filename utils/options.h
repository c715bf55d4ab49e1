/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of the ping-pong programs: one table of options; each program takes some. */
#ifndef UTILS_OPTIONS_H
#define UTILS_OPTIONS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

struct pp_options {
	const char *host;   /* NULL: this side is the server */
	const char *device; /* NULL: the first device */
	unsigned port, ib_port;
	unsigned size, mtu, rx_depth, iters, sl;
	unsigned qp_count; /* with a shared receive queue */
	unsigned clients;  /* XRC: number of clients that the server waits for */
	int gid_index;     /* -1: none, addresses are LIDs */
	bool events, check, odp, implicit_odp, prefetch, timestamps, device_memory, new_send;
};

/* The options of a program: letters in the order of its usage, and defaults. */
struct pp_program {
	const char *letters;
	const char *exchanges; /* the meaning of -n, for the usage */
	bool counts_clients;   /* -c is a number of clients here, and -n of tests for each */
	struct pp_options defaults;
};

/* False after a complaint and the usage on standard error. --help prints the usage and exits. */
bool pp_options_parse(const struct pp_program *program, int argc, char **argv,
		      struct pp_options *options);

/* The enumerator of an MTU in bytes; 0: there is none. */
enum ibv_mtu pp_mtu(unsigned bytes);

#endif
