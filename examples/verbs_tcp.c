/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs_tcp.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static int accept_one(const struct addrinfo *address)
{
	int listener = socket(address->ai_family, SOCK_STREAM, 0), one = 1, fd;

	if (listener < 0)
		die("socket");
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, address->ai_addr, address->ai_addrlen) || listen(listener, 1))
		die("bind or listen");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		die("accept");
	close(listener);
	return fd;
}

static int connect_any(const struct addrinfo *address)
{
	for (; address; address = address->ai_next) {
		int fd = socket(address->ai_family, SOCK_STREAM, 0);

		if (fd >= 0 && !connect(fd, address->ai_addr, address->ai_addrlen))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	die("connect");
}

int tcp_meet(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_family = host ? AF_UNSPEC : AF_INET,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = host ? 0 : AI_PASSIVE };
	struct addrinfo *found;
	int fd, err = getaddrinfo(host, port, &hints, &found);

	if (err) {
		fprintf(stderr, "%s: %s\n", host ? host : port, gai_strerror(err));
		exit(1);
	}
	fd = host ? connect_any(found) : accept_one(found);
	freeaddrinfo(found);
	return fd;
}

void tcp_exchange(int fd, const void *mine, void *theirs, size_t size)
{
	if (send(fd, mine, size, MSG_NOSIGNAL) != (ssize_t)size)
		die("send");
	if (recv(fd, theirs, size, MSG_WAITALL) != (ssize_t)size) {
		fprintf(stderr, "the other side is gone\n");
		exit(1);
	}
}

void tcp_synchronize(int fd)
{
	char mine = 'S', theirs;

	tcp_exchange(fd, &mine, &theirs, sizeof(mine));
}
