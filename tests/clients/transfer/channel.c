/* SPDX-License-Identifier: BSD-2-Clause */
#include "channel.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rig.h"

static struct addrinfo *resolve(const char *host, const char *port, int family)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_family = family,
				  .ai_flags = host ? 0 : AI_PASSIVE };
	struct addrinfo *found = NULL;
	int err = getaddrinfo(host, port, &hints, &found);

	CHECK(!err, "%s port %s: %s", host ? host : "any address", port, gai_strerror(err));
	return found;
}

static int connected(int sock)
{
	int on = 1;

	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return sock;
}

/* An IPv6 socket takes IPv4 as well; where there is no IPv6 an IPv4 socket must do. */
static int listener_open(const char *port)
{
	static const int families[] = { AF_INET6, AF_INET };
	int on = 1;

	for (int i = 0; i < 2; i++) {
		int sock = socket(families[i], SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (sock < 0)
			continue;
		struct addrinfo *address = resolve(NULL, port, families[i]);

		setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		CHECK(!bind(sock, address->ai_addr, address->ai_addrlen) && !listen(sock, 1),
		      "port %s: %s", port, strerror(errno));
		freeaddrinfo(address);
		return sock;
	}
	FAIL("no socket: %s", strerror(errno));
}

int channel_accept(const char *port)
{
	int listener = listener_open(port);
	int sock = accept(listener, NULL, NULL);

	CHECK(sock >= 0, "accept: %s", strerror(errno));
	close(listener);
	return connected(sock);
}

int channel_connect(const char *host, const char *port)
{
	struct addrinfo *found = resolve(host, port, AF_UNSPEC);

	for (struct addrinfo *at = found; at; at = at->ai_next) {
		int sock = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (sock >= 0 && !connect(sock, at->ai_addr, at->ai_addrlen)) {
			freeaddrinfo(found);
			return connected(sock);
		}
		if (sock >= 0)
			close(sock);
	}
	FAIL("%s port %s: %s", host, port, strerror(errno));
}

void channel_send(int channel, const void *bytes, size_t size)
{
	ssize_t sent;

	for (const char *at = bytes; size; at += sent, size -= (size_t)sent) {
		sent = send(channel, at, size, MSG_NOSIGNAL);
		CHECK(sent > 0, "the peer is gone: %s", strerror(errno));
	}
}

void channel_receive(int channel, void *bytes, size_t size)
{
	ssize_t got;

	for (char *at = bytes; size; at += got, size -= (size_t)got) {
		got = recv(channel, at, size, 0);
		CHECK(got > 0, "the peer is gone%s%s", got ? ": " : "", got ? strerror(errno) : "");
	}
}

bool channel_look(int channel, char *byte)
{
	ssize_t got = recv(channel, byte, 1, MSG_DONTWAIT);

	CHECK(got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)), "the peer is gone%s%s",
	      got ? ": " : "", got ? strerror(errno) : "");
	return got == 1;
}
