/* SPDX-License-Identifier: BSD-2-Clause */
#include "meet.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGE_SIZE = sizeof("0000:000000:000000:") + PP_GID_DIGITS };

/* All addresses of a name; NULL after a complaint. */
static struct addrinfo *resolve(const char *host, unsigned port)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM }, *found;
	char service[12];
	int err;

	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(host, service, &hints, &found);
	if (!err)
		return found;
	fprintf(stderr, "%s for %s:%u\n", gai_strerror(err), host, port);
	return NULL;
}

static int bind_to(int family, const void *address, socklen_t size)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, zero = 0;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (family == AF_INET6) /* for IPv4 as well */
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (!bind(fd, address, size) && !listen(fd, 128))
		return fd;
	close(fd);
	return -1;
}

int pp_meet_listen(unsigned port)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = bind_to(AF_INET6, &v6, sizeof(v6));

	if (fd < 0 && errno != EADDRINUSE)
		fd = bind_to(AF_INET, &v4, sizeof(v4));
	if (fd < 0)
		fprintf(stderr, "Couldn't listen to port %u: %s\n", port, strerror(errno));
	return fd;
}

int pp_meet_accept(int listener)
{
	int fd;

	do
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (fd < 0)
		fprintf(stderr, "accept() failed: %s\n", strerror(errno));
	return fd;
}

int pp_meet_connect(const char *host, unsigned port)
{
	struct addrinfo *found = resolve(host, port);
	int fd = -1;

	if (!found)
		return -1;
	for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	if (fd < 0)
		fprintf(stderr, "Couldn't connect to %s:%u: %s\n", host, port, strerror(errno));
	return fd;
}

bool pp_meet_write(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size) {
		ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			fprintf(stderr, "Couldn't send local address: %s\n", strerror(errno));
			return false;
		}
		at += n;
		size -= (size_t)n;
	}
	return true;
}

bool pp_meet_read(int fd, void *bytes, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = recv(fd, (char *)bytes + done, size - done, MSG_WAITALL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			fprintf(stderr, "%zu/%zu: Couldn't read remote address: %s\n", done, size,
				n ? strerror(errno) : "the other side hung up");
			return false;
		}
		done += (size_t)n;
	}
	return true;
}

void pp_gid_write(const union ibv_gid *gid, char text[PP_GID_DIGITS + 1])
{
	for (size_t i = 0; i < sizeof(gid->raw); i++)
		snprintf(text + 2 * i, 3, "%02x", gid->raw[i]);
}

bool pp_gid_read(const char *text, union ibv_gid *gid)
{
	for (size_t i = 0; i < sizeof(gid->raw); i++) {
		unsigned byte;
		int used = 0;

		if (sscanf(text + 2 * i, "%2x%n", &byte, &used) != 1 || used != 2)
			return false;
		gid->raw[i] = (uint8_t)byte;
	}
	return true;
}

bool pp_address_send(int fd, const struct pp_address *address)
{
	char message[MESSAGE_SIZE], gid[PP_GID_DIGITS + 1];

	pp_gid_write(&address->gid, gid);
	snprintf(message, sizeof(message), "%04x:%06x:%06x:%s", address->lid & 0xffff,
		 address->qpn & 0xffffff, address->psn & 0xffffff, gid);
	return pp_meet_write(fd, message, sizeof(message));
}

bool pp_address_receive(int fd, struct pp_address *address)
{
	char message[MESSAGE_SIZE + 1] = "", gid[PP_GID_DIGITS + 1];

	if (!pp_meet_read(fd, message, MESSAGE_SIZE))
		return false;
	if (sscanf(message, "%x:%x:%x:%32s", &address->lid, &address->qpn, &address->psn, gid) !=
		    4 ||
	    strlen(gid) != PP_GID_DIGITS || !pp_gid_read(gid, &address->gid)) {
		fprintf(stderr, "Couldn't read remote address: '%s' is none\n", message);
		return false;
	}
	return true;
}

unsigned pp_psn(void)
{
	unsigned psn = 0;

	if (getrandom(&psn, sizeof(psn), 0) != (ssize_t)sizeof(psn))
		psn = (unsigned)getpid() * 2654435761u;
	return psn & 0xffffff;
}
