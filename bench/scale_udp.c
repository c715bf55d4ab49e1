/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bare lanes: the packets of the wire without its protocol. Several pairs of threads send
 * datagrams through loopback as the wire does: bursts that the kernel cuts and merges (GSO, GRO),
 * one port for all receivers (SO_REUSEPORT) and a program that picks the socket by a byte of the
 * packet. Each side computes a CRC over each packet and copies it once, unless -n is given.
 *
 *   scale_udp [-t THREADS] [-d SECONDS] [-n]
 *
 * A window, kept by a count in shared memory, bounds the bytes under way. Prints GB/s received.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/filter.h>

#include "team.h"

enum {
	PACKET = 1056, /* 1024 bytes of payload and the headers of RoCEv2 behind UDP's */
	BURST = 60,    /* packets: close to the 64 KB that the kernel takes at once */
	WINDOW = 512 << 10,
	SOCKET_BYTES = 8 << 20,
};

static struct team team = { .workers = 1, .seconds = 1 };
static bool is_checked = true; /* CRC and copy */
static int receivers[TEAM_WORKERS_MAX];
static struct sockaddr_in address = { .sin_family = AF_INET };

struct buffers {
	uint8_t from[PACKET * BURST], to[PACKET * BURST];
	volatile uint32_t crc; /* so that the compiler computes it */
};

_Noreturn static void usage(void)
{
	fprintf(stderr, "usage: scale_udp [-t THREADS] [-d SECONDS] [-n]\n");
	exit(2);
}

static void parse_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "t:d:n")) != -1) {
		if (option == 't')
			team.workers = atoi(optarg);
		else if (option == 'd')
			team.seconds = atof(optarg);
		else if (option == 'n')
			is_checked = false;
		else
			usage();
	}
	if (optind < argc || team.workers < 1 || team.workers > TEAM_WORKERS_MAX ||
	    !(team.seconds > 0))
		usage();
}

static void set_option(int socket, int level, int name, int value)
{
	if (setsockopt(socket, level, name, &value, sizeof(value)))
		bench_die(errno, "setsockopt");
}

/* The forced size needs root; without it the kernel's limit holds. */
static void set_buffer(int socket, int forced, int name)
{
	int bytes = SOCKET_BYTES;

	if (setsockopt(socket, SOL_SOCKET, forced, &bytes, sizeof(bytes)))
		set_option(socket, SOL_SOCKET, name, bytes);
}

static int open_receiver(void)
{
	socklen_t length = sizeof(address);
	int receiver = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (receiver < 0)
		bench_die(errno, "socket");
	set_option(receiver, SOL_SOCKET, SO_REUSEPORT, 1);
	set_option(receiver, IPPROTO_UDP, UDP_GRO, 1);
	set_buffer(receiver, SO_RCVBUFFORCE, SO_RCVBUF);
	if (bind(receiver, (struct sockaddr *)&address, length) ||
	    getsockname(receiver, (struct sockaddr *)&address, &length))
		bench_die(errno, "bind");
	return receiver;
}

/* Before the fork: positions in the group follow the order of the binds. */
static void open_receivers(void)
{
	struct sock_filter first_byte[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = { 2, first_byte };

	for (int i = 0; i < team.workers; i++)
		receivers[i] = open_receiver();
	if (setsockopt(receivers[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
		       sizeof(program)))
		bench_die(errno, "SO_ATTACH_REUSEPORT_CBPF");
}

static int open_sender(void)
{
	int sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sender < 0)
		bench_die(errno, "socket");
	set_option(sender, IPPROTO_UDP, UDP_SEGMENT, PACKET);
	set_buffer(sender, SO_SNDBUFFORCE, SO_SNDBUF);
	if (connect(sender, (struct sockaddr *)&address, sizeof(address)))
		bench_die(errno, "connect");
	return sender;
}

static void check_and_copy(struct buffers *buffers, size_t length)
{
	for (size_t at = 0; at < length; at += PACKET) {
		size_t bytes = length - at < PACKET ? length - at : PACKET;

		buffers->crc = crc32_gzip_refl(0, buffers->from + at, bytes);
		memcpy(buffers->to + at, buffers->from + at, bytes);
	}
}

static void receive(const struct team_worker *self, struct buffers *buffers)
{
	while (!team_stopped(self)) {
		ssize_t got = recv(receivers[self->index], buffers->from, sizeof(buffers->from), 0);

		if (got <= 0)
			continue;
		if (is_checked)
			check_and_copy(buffers, (size_t)got);
		team_count(self, (uint64_t)got);
	}
}

static void transmit(const struct team_worker *self, struct buffers *buffers)
{
	const _Atomic uint64_t *received = &team_partner_line(self)->done;
	int sender = open_sender();
	uint64_t sent = 0;

	memset(buffers->from, self->index, sizeof(buffers->from));
	while (!team_stopped(self)) {
		if (sent - atomic_load(received) > WINDOW) {
			sched_yield();
			continue;
		}
		if (is_checked)
			check_and_copy(buffers, sizeof(buffers->from));
		if (send(sender, buffers->from, sizeof(buffers->from), 0) > 0)
			sent += sizeof(buffers->from);
	}
	close(sender);
}

static void work(const struct team_worker *self)
{
	struct buffers *buffers = calloc(1, sizeof(*buffers));
	char mine = 0, theirs;

	if (!buffers)
		bench_die(ENOMEM, "buffers");
	team_exchange(self, &mine, &theirs, 1);
	if (self->team->side == BENCH_PARENT)
		transmit(self, buffers);
	else
		receive(self, buffers);
	free(buffers);
}

int main(int argc, char **argv)
{
	parse_options(argc, argv);
	open_receivers();
	printf("bandwidth %.4f\n", team_run(&team, NULL, work) / 1e9);
	return 0;
}
