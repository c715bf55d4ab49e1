/* SPDX-License-Identifier: BSD-2-Clause */
#include "connect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"

enum { WARM_UP = 5 };

_Noreturn static void usage(const char *prefix)
{
	fprintf(stderr, "usage: %s [-n COUNT] [-c CONCURRENT] -p PORT [ADDRESS]\n", prefix);
	exit(2);
}

static void resolve(struct connect_options *options, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_family = host ? AF_UNSPEC : AF_INET,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE };
	struct addrinfo *info;

	if (getaddrinfo(host, port, &hints, &info))
		bench_die(0, "that is no address");
	memcpy(&options->address, info->ai_addr, info->ai_addrlen);
	options->address_length = info->ai_addrlen;
	freeaddrinfo(info);
}

/* Many connections at once need many descriptors. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static struct connect_options parse_options(int argc, char **argv, const char *prefix)
{
	struct connect_options options = { .prefix = prefix, .count = 1000, .concurrent = 1000 };
	const char *port = NULL;
	int option;

	while ((option = getopt(argc, argv, "n:c:p:")) != -1) {
		switch (option) {
		case 'n':
			options.count = atoi(optarg);
			break;
		case 'c':
			options.concurrent = atoi(optarg);
			break;
		case 'p':
			port = optarg;
			break;
		default:
			usage(prefix);
		}
	}
	options.client = optind < argc;
	if (!port || options.count < 1 || options.concurrent < 1)
		usage(prefix);
	resolve(&options, options.client ? argv[optind] : NULL, port);
	raise_limit();
	return options;
}

int connect_control_listen(const struct connect_options *options)
{
	int one = 1, fd = socket(options->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&options->address, options->address_length) ||
	    listen(fd, SOMAXCONN))
		bench_die(errno, "bind or listen");
	return fd;
}

int connect_control_accept(int listener)
{
	int control = accept(listener, NULL, NULL);

	if (control < 0)
		bench_die(errno, "accept");
	return control;
}

static int control_open(const struct connect_options *options)
{
	int fd = socket(options->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)&options->address, options->address_length))
		bench_die(errno, "connect");
	return fd;
}

static void measure(const struct connect_options *options, const struct connect_shape *shape)
{
	double start_ns;

	for (int i = 0; i < WARM_UP; i++)
		shape->one(options);
	start_ns = bench_now_ns();
	for (int i = 0; i < options->count; i++)
		shape->one(options);
	printf("%s_one %.1f\n", options->prefix,
	       options->count / ((bench_now_ns() - start_ns) / 1e9));
	printf("%s_many %.1f\n", options->prefix,
	       options->concurrent / (shape->many(options) / 1e9));
}

int connect_main(int argc, char **argv, const struct connect_shape *shape)
{
	struct connect_options options = parse_options(argc, argv, shape->prefix);
	int control;

	if (!options.client) {
		shape->serve(&options);
		return 0;
	}
	control = control_open(&options);
	measure(&options, shape);
	close(control);
	return 0;
}
