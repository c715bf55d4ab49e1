/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram goes to and fro between two plain UDP sockets: the cost of a message through the
 * kernel's network, without any protocol on top.
 *
 *   udp_pingpong [-a | -b] [-n TRIPS] [-s BYTES] -p PORT          the server, for one client
 *   udp_pingpong [-a | -b] [-n TRIPS] [-s BYTES] -p PORT ADDRESS  prints half the round trip: a
 *                                                                 median, us
 *
 * Both sides spin on a non-blocking socket, as a program that polls its completion queue does. With
 * -b they sleep in recv. The sockets are connected, which spares the kernel a lookup per datagram.
 * With -a the packets are those of a SEND over RoCEv2, sent as RoCEv2 has to: the message and the
 * ACK of the one before leave in one segmented send, through a socket that is not connected
 * (connected sockets number their packets at random, and the ICRC covers the number). They are
 * merged on arrival, and the ECN bits are read. A TCP connection to the same port number tells that
 * the server is there. Its end ends the server.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "bench.h"

enum { BYTES_MAX = 9000, RESEND_MS = 20 };
/* RoCEv2: BTH, AETH, ICRC; ECN-capable. */
enum { BTH = 12, ICRC = 4, ACK = BTH + 4 + ICRC, ECT0 = 2 };

static struct {
	bool roce, blocking;
	int trips, bytes;
	struct sockaddr_in address; /* port, and the server's address */
	bool client;
} options = { .trips = 20000, .bytes = 8 };

_Noreturn static void usage(void)
{
	fprintf(stderr, "usage: udp_pingpong [-a | -b] [-n TRIPS] [-s BYTES] -p PORT [ADDRESS]\n");
	exit(2);
}

static void parse_options(int argc, char **argv)
{
	int option, port = 0;

	while ((option = getopt(argc, argv, "abn:s:p:")) != -1) {
		switch (option) {
		case 'a':
			options.roce = true;
			break;
		case 'b':
			options.blocking = true;
			break;
		case 'n':
			options.trips = atoi(optarg);
			break;
		case 's':
			options.bytes = atoi(optarg);
			break;
		case 'p':
			port = atoi(optarg);
			break;
		default:
			usage();
		}
	}
	options.client = optind < argc;
	options.address.sin_family = AF_INET;
	options.address.sin_port = htons((uint16_t)port);
	if (port <= 0 || options.trips < 1 || options.bytes < 4 ||
	    options.bytes > BYTES_MAX - BTH - ICRC - ACK || (options.roce && options.blocking) ||
	    (options.client && inet_pton(AF_INET, argv[optind], &options.address.sin_addr) != 1))
		usage();
}

static void set(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		bench_die(errno, "a socket option");
}

static int udp_socket(void)
{
	struct timeval wait = { .tv_usec = RESEND_MS * 1000 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* A lost datagram must not stop the program for ever. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)))
		bench_die(errno, "UDP socket");
	if (options.roce) {
		set(fd, SOL_UDP, UDP_GRO, 1);
		set(fd, IPPROTO_IP, IP_RECVTOS, 1);
		set(fd, IPPROTO_IP, IP_TOS, ECT0);
		set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	}
	return fd;
}

/* The address to send to. The server learns it from the first datagram. */
static struct sockaddr_in peer;

static struct msghdr head_of(struct iovec *iov, void *control, size_t size)
{
	return (struct msghdr){ .msg_name = &peer,
				.msg_namelen = sizeof(peer),
				.msg_iov = iov,
				.msg_iovlen = 1,
				.msg_control = control,
				.msg_controllen = size };
}

static ssize_t receive_roce(int fd, void *buffer)
{
	_Alignas(struct cmsghdr) char control[2 * CMSG_SPACE(sizeof(int))];
	struct iovec iov = { buffer, BYTES_MAX };
	struct msghdr head = head_of(&iov, control, sizeof(control));

	return recvmsg(fd, &head, MSG_DONTWAIT);
}

static ssize_t send_roce(int fd, const void *buffer)
{
	const uint16_t segment = (uint16_t)(BTH + options.bytes + ICRC);
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(segment))];
	struct iovec iov = { (void *)buffer, (size_t)segment + ACK };
	struct msghdr head = head_of(&iov, control, sizeof(control));
	struct cmsghdr *cut = CMSG_FIRSTHDR(&head);

	cut->cmsg_level = SOL_UDP;
	cut->cmsg_type = UDP_SEGMENT;
	cut->cmsg_len = CMSG_LEN(sizeof(segment));
	memcpy(CMSG_DATA(cut), &segment, sizeof(segment));
	return sendmsg(fd, &head, 0);
}

/* Receives into buffer; false: no datagram is there, or none came in time. */
static bool receive(int fd, void *buffer)
{
	ssize_t length = options.roce
				 ? receive_roce(fd, buffer)
				 : recv(fd, buffer, BYTES_MAX, options.blocking ? 0 : MSG_DONTWAIT);

	if (length < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED)
		bench_die(errno, "recv");
	return length >= (ssize_t)sizeof(uint32_t);
}

static void transmit(int fd, const void *buffer)
{
	ssize_t sent =
		options.roce ? send_roce(fd, buffer) : send(fd, buffer, (size_t)options.bytes, 0);

	if (sent < 0 && errno != ECONNREFUSED)
		bench_die(errno, "send");
}

/* --- the server --- */

static bool is_over(int control)
{
	char byte;

	return recv(control, &byte, 1, MSG_DONTWAIT) == 0;
}

/* The first datagram has the client's address. */
static void connect_back(int fd, int control, char *buffer)
{
	socklen_t length = sizeof(peer);

	while (recvfrom(fd, buffer, BYTES_MAX, 0, (struct sockaddr *)&peer, &length) < 0) {
		if (is_over(control))
			exit(0);
	}
	if (!options.roce && connect(fd, (struct sockaddr *)&peer, length))
		bench_die(errno, "connect");
	transmit(fd, buffer);
}

static void echo(int fd, int control)
{
	static char buffer[BYTES_MAX];

	connect_back(fd, control, buffer);
	for (unsigned idle = 0;;) {
		if (receive(fd, buffer)) {
			transmit(fd, buffer);
			idle = 0;
		} else if ((options.blocking || ++idle % 4096 == 0) && is_over(control)) {
			return;
		}
	}
}

static void serve(void)
{
	int one = 1, fd = udp_socket(), listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr *address = (struct sockaddr *)&options.address;
	int control;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, address, sizeof(options.address)) ||
	    bind(listener, address, sizeof(options.address)) || listen(listener, 1))
		bench_die(errno, "bind or listen");
	control = accept(listener, NULL, NULL);
	if (control < 0)
		bench_die(errno, "accept");
	echo(fd, control);
}

/* --- the client --- */

/* Sends number and waits for its echo; false: the datagram was lost, send it again. */
static bool trip(int fd, uint32_t number)
{
	static char buffer[BYTES_MAX];
	double give_up_ns = bench_now_ns() + RESEND_MS * 1e6;
	uint32_t echoed;

	memcpy(buffer, &number, sizeof(number));
	transmit(fd, buffer);
	for (unsigned turn = 1;; turn++) {
		if (receive(fd, buffer)) {
			memcpy(&echoed, buffer, sizeof(echoed));
			if (echoed == number)
				return true;
		} else if (options.blocking || turn % 1024 == 0) {
			if (bench_now_ns() >= give_up_ns)
				return false;
		}
	}
}

static double measure_us(int fd)
{
	double *samples = calloc((size_t)options.trips, sizeof(*samples));
	uint32_t number = 0;

	if (!samples)
		bench_die(errno, "samples");
	while (number < 100) /* warm up */
		trip(fd, number++);
	for (int i = 0; i < options.trips;) {
		double start_ns = bench_now_ns();

		if (trip(fd, number++))
			samples[i++] = (bench_now_ns() - start_ns) / 2e3;
	}
	return bench_median(samples, (size_t)options.trips);
}

static void measure(void)
{
	int fd = udp_socket(), control = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr *address = (struct sockaddr *)&options.address;

	peer = options.address;
	if (connect(control, address, sizeof(options.address)) ||
	    (!options.roce && connect(fd, address, sizeof(options.address))))
		bench_die(errno, "connect");
	printf("%s %.3f\n",
	       options.roce       ? "udp_roce_lat"
	       : options.blocking ? "udp_sleep_lat"
				  : "udp_lat",
	       measure_us(fd));
	close(control);
}

int main(int argc, char **argv)
{
	parse_options(argc, argv);
	if (options.client)
		measure();
	else
		serve();
	return 0;
}
