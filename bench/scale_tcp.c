/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several TCP streams through loopback, a thread at each end of each.
 *
 *   scale_tcp [-t THREADS] [-s BYTES] [-d SECONDS]
 *
 * BYTES is the size of a write. Prints GB/s that the receivers have read.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "team.h"

static struct team team = { .workers = 1, .seconds = 1 };
static size_t size = 65536;

_Noreturn static void usage(void)
{
	fprintf(stderr, "usage: scale_tcp [-t THREADS] [-s BYTES] [-d SECONDS]\n");
	exit(2);
}

static void parse_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "t:s:d:")) != -1) {
		if (option == 't')
			team.workers = atoi(optarg);
		else if (option == 's')
			size = (size_t)atoi(optarg);
		else if (option == 'd')
			team.seconds = atof(optarg);
		else
			usage();
	}
	if (optind < argc || team.workers < 1 || team.workers > TEAM_WORKERS_MAX || size < 1 ||
	    size > 1 << 24 || !(team.seconds > 0))
		usage();
}

static int listen_anywhere(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (listener < 0 || bind(listener, (struct sockaddr *)address, length) ||
	    getsockname(listener, (struct sockaddr *)address, &length) || listen(listener, 1))
		bench_die(errno, "a listening socket");
	return listener;
}

static int accept_partner(const struct team_worker *self)
{
	struct sockaddr_in mine, unused;
	int listener = listen_anywhere(&mine), stream;

	team_exchange(self, &mine, &unused, sizeof(mine));
	stream = accept(listener, NULL, NULL);
	if (stream < 0)
		bench_die(errno, "accept");
	close(listener);
	return stream;
}

static int connect_partner(const struct team_worker *self)
{
	struct sockaddr_in mine = { 0 }, theirs;
	int stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	team_exchange(self, &mine, &theirs, sizeof(mine));
	if (stream < 0 || connect(stream, (struct sockaddr *)&theirs, sizeof(theirs)))
		bench_die(errno, "connect");
	return stream;
}

static void work(const struct team_worker *self)
{
	const bool sends = self->team->side == BENCH_PARENT;
	int stream = sends ? connect_partner(self) : accept_partner(self);
	char *buffer = calloc(1, size);
	ssize_t done;

	if (!buffer)
		bench_die(ENOMEM, "buffer");
	do {
		done = sends ? send(stream, buffer, size, MSG_NOSIGNAL)
			     : recv(stream, buffer, size, 0);
		if (!sends && done > 0)
			team_count(self, (uint64_t)done);
	} while (done > 0 && !(sends && team_stopped(self)));
	close(stream);
	free(buffer);
}

int main(int argc, char **argv)
{
	parse_options(argc, argv);
	printf("bandwidth %.4f\n", team_run(&team, NULL, work) / 1e9);
	return 0;
}
