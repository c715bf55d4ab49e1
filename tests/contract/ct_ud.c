/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: the 40 bytes in front, who sent it, and how to answer. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ct.h"

static const uint64_t TARGET = 65536;

static bool is_v4_mapped(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

static struct ibv_wc deliver(struct ct_link *l, uint32_t size)
{
	ct_fill(l->a.end, 0, size, size);
	ct_recv(&l->b, 2, TARGET, CT_GRH_BYTES + size);
	ct_send(l, 1, 0, size);
	ct_sent(l, 1, IBV_WC_SUCCESS);
	return ct_got(l, 2, IBV_WC_SUCCESS);
}

static void completion_names_the_sender(struct ct *t)
{
	struct ct_link l;
	struct ibv_wc wc;

	ct_link_open(t, &l, NULL);
	wc = deliver(&l, 100);
	CT_EQ(wc.src_qp, l.a.qpn);
	CT_EQ(wc.byte_len, CT_GRH_BYTES + 100);
	CT_EQ(wc.pkey_index, 0);
	if (t->infiniband) {
		CT_EQ(wc.slid, t->near->port.lid);
	} else {
		CT_TRUE(wc.wc_flags & IBV_WC_GRH);
		/* What the header is, where NICs say it: UDP, and the version of IP. */
		CT_EQ(wc.sl, 8 | (is_v4_mapped(&t->near->gid) ? 2 : 1));
	}
	ct_same(t->far, TARGET + CT_GRH_BYTES, 100, 100);
}

/* RoCEv2 over IPv4: bytes 20 to 39 are the IPv4 header of the packet. */
static void check_ipv4(const struct ct *t, const uint8_t *grh, uint32_t size)
{
	uint16_t total;

	CT_EQ(grh[20], 0x45); /* version 4, no options */
	CT_EQ(grh[29], 17);   /* UDP */
	CT_EQ(memcmp(&grh[32], &t->near->gid.raw[12], 4), 0);
	CT_EQ(memcmp(&grh[36], &t->far->gid.raw[12], 4), 0);
	memcpy(&total, &grh[22], 2);
	/* IPv4, UDP, BTH, DETH, the payload padded to 4, ICRC */
	CT_EQ(ntohs(total), 20 + 8 + 12 + 8 + (size + 3) / 4 * 4 + 4);
}

/* Over IPv6: the IPv6 header. On InfiniBand a GRH, which has the same shape. */
static void check_ipv6(const struct ct *t, const struct ibv_grh *grh)
{
	bool ethernet = t->near->port.link_layer == IBV_LINK_LAYER_ETHERNET;

	CT_EQ(ntohl(grh->version_tclass_flow) >> 28, 6);
	CT_EQ(grh->next_hdr, ethernet ? 17 : 0x1b);
	CT_EQ(memcmp(&grh->sgid, &t->near->gid, 16), 0);
	CT_EQ(memcmp(&grh->dgid, &t->far->gid, 16), 0);
}

static void ip_header_is_in_front(struct ct *t)
{
	struct ct_link l;
	union {
		uint8_t bytes[CT_GRH_BYTES];
		struct ibv_grh grh;
	} got;

	ct_link_open(t, &l, NULL);
	for (uint32_t size = 1; size < 1024; size = size * 3 + 1) {
		deliver(&l, size);
		ct_peek_bytes(t->far, TARGET, CT_GRH_BYTES, &got);
		if (is_v4_mapped(&t->near->gid))
			check_ipv4(t, got.bytes, size);
		else
			check_ipv6(t, &got.grh);
	}
}

/* What a server does: it answers from the completion alone. */
static void answer_by_the_completion(struct ct *t)
{
	struct ct_link l, to_near;
	struct ibv_grh grh;
	struct ibv_ah_attr attr;
	struct ibv_wc wc;

	ct_link_open(t, &l, NULL);
	to_near = ct_reverse(&l); /* far asks, near answers: its objects are at hand */
	wc = deliver(&to_near, 64);
	ct_peek_bytes(t->near, TARGET, CT_GRH_BYTES, &grh);
	CT_EQ(ibv_init_ah_from_wc(ct_context(t->near), 1, &wc, &grh, &attr), 0);
	CT_EQ(attr.port_num, 1);
	if (!t->infiniband)
		CT_EQ(memcmp(&attr.grh.dgid, &t->far->gid, 16), 0);

	struct ibv_ah *ah = ibv_create_ah_from_wc(ct_object(t->near, t->near->pd), &wc, &grh, 1);
	struct ibv_sge sge = ct_sge(t->near, 0, 50);
	struct ibv_send_wr wr = { .wr_id = 7,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	CT_TRUE(ah != NULL);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = wc.src_qp;
	wr.wr.ud.remote_qkey = CT_QKEY;
	ct_fill(t->near, 0, 50, 5);
	ct_recv(&l.b, 8, TARGET, 1024);
	CT_EQ(ibv_post_send(ct_object(t->near, l.a.handle), &wr, &bad), 0);
	ct_sent(&l, 7, IBV_WC_SUCCESS);
	ct_got(&l, 8, IBV_WC_SUCCESS);
	ct_same(t->far, TARGET + CT_GRH_BYTES, 50, 5);
	CT_EQ(ibv_destroy_ah(ah), 0);
}

/* Between programs that met by ::1, over packets, no GID of a device is in the header. */
static void answer_to_loopback(struct ct *t)
{
	struct ibv_grh grh = { .version_tclass_flow = htobe32(6u << 28), .next_hdr = 0x11 };
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;
	union ibv_gid own;

	grh.sgid.raw[15] = grh.dgid.raw[15] = 1;
	CT_EQ(ibv_init_ah_from_wc(ct_context(t->near), 1, &wc, &grh, &attr), 0);
	CT_EQ(memcmp(&attr.grh.dgid, &grh.sgid, 16), 0);
	CT_EQ(ibv_query_gid(ct_context(t->near), 1, attr.grh.sgid_index, &own), 0);
	CT_TRUE(own.global.subnet_prefix || own.global.interface_id);
	ah = ibv_create_ah_from_wc(ct_object(t->near, t->near->pd), &wc, &grh, 1);
	CT_TRUE(ah && !ibv_destroy_ah(ah));
	CT_TRUE(ibv_init_ah_from_wc(ct_context(t->near), 2, &wc, &grh, &attr) != 0); /* no port */
	/* Of another host, to nobody here. */
	grh.sgid.raw[0] = grh.dgid.raw[0] = 0x20;
	CT_TRUE(ibv_init_ah_from_wc(ct_context(t->near), 1, &wc, &grh, &attr) != 0);
}

static void many_senders(struct ct *t)
{
	enum { SENDERS = 4, ROUNDS = 10 };
	struct ct_link l[SENDERS];

	for (int i = 0; i < SENDERS; i++) {
		ct_link_open(t, &l[i], NULL);
		l[i].b = l[0].b; /* all to one QP */
	}
	for (int k = 0; k < ROUNDS; k++)
		for (int i = 0; i < SENDERS; i++) {
			struct ibv_wc wc = deliver(&l[i], 1 + k * 90 + i);

			CT_EQ(wc.src_qp, l[i].a.qpn);
			CT_EQ(wc.qp_num, l[0].b.qpn);
			ct_same(t->far, TARGET + CT_GRH_BYTES, 1 + k * 90 + i, 1 + k * 90 + i);
		}
}

static void one_sender_many_targets(struct ct *t)
{
	enum { TARGETS = 4 };
	struct ct_link l[TARGETS];

	for (int i = 0; i < TARGETS; i++) {
		ct_link_open(t, &l[i], NULL);
		l[i].a = l[0].a;
	}
	for (int k = 0; k < 20; k++) {
		struct ibv_wc wc = deliver(&l[k * 3 % TARGETS], 1 + k * 40);

		CT_EQ(wc.src_qp, l[0].a.qpn);
		CT_EQ(wc.qp_num, l[k * 3 % TARGETS].b.qpn);
	}
}

static void to_itself(struct ct *t)
{
	struct ct_link l;
	struct ct self = *t;

	self.far = t->near;
	ct_link_open(&self, &l, NULL);
	l.b = l.a;
	CT_EQ(deliver(&l, 300).src_qp, l.a.qpn);
	ct_same(t->near, TARGET + CT_GRH_BYTES, 300, 300);
}

static void rtr_is_enough_to_receive(struct ct *t)
{
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	ct_init(&l.a);
	ct_rtr(&l.a, &l.b, &l.o);
	ct_rts(&l.a, &l.o);
	ct_init(&l.b);
	ct_recv(&l.b, 2, TARGET, 1024); /* INIT is enough to post receives */
	ct_rtr(&l.b, &l.a, &l.o);
	ct_send(&l, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 2, IBV_WC_SUCCESS);
}

/* A Q_Key with the top bit set stands for the Q_Key of the sending QP. */
static void privileged_qkey(struct ct *t)
{
	struct ibv_sge sge = ct_sge(t->near, 0, 16);
	struct ibv_send_wr wr;
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	wr = ct_wr(&l, IBV_WR_SEND, 1, &sge, 1);
	wr.wr.ud.remote_qkey = 0x80000000;
	ct_recv(&l.b, 2, TARGET, 1024);
	ct_post(&l.a, &wr);
	ct_sent(&l, 1, IBV_WC_SUCCESS);
	ct_got(&l, 2, IBV_WC_SUCCESS);
}

/*
 * Any user of this host can hold the names of slots (src/shm/slot.h): one that takes connections
 * and never says a word, or, if it is odd, takes none.
 */
static uint32_t silent_slot(uint32_t below)
{
	for (uint32_t slot = below - 1; slot; slot--) {
		struct sockaddr_un address = { .sun_family = AF_UNIX };
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		int length = snprintf(address.sun_path + 1, 32, "verbena.%u", slot);
		socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);

		if (bind(fd, (void *)&address, size) || listen(fd, slot % 2 ? 0 : 1000)) {
			close(fd);
			continue;
		}
		if (slot % 2) /* its queue is full with one */
			connect(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), (void *)&address,
				size);
		return slot;
	}
	return 0;
}

/* If the queue waited a second for each of them, the last one would be too late. */
static void silent_slots_hold_up_nothing(struct ct *t)
{
	enum { SILENT = 40, SLOTS = 8, SLOT_SHIFT = 12 };
	struct ibv_sge sge = ct_sge(t->near, 0, 64);
	uint32_t slots[SLOTS], below = 2048;
	struct ct_link l;

	for (int i = 0; i < SLOTS; i++) {
		slots[i] = below = silent_slot(below);
		CT_TRUE(below);
	}
	ct_link_open(t, &l, NULL);
	ct_recv(&l.b, 2, TARGET, CT_GRH_BYTES + 64);
	for (int i = 0; i < SILENT; i++) {
		struct ibv_send_wr wr = ct_wr(&l, IBV_WR_SEND, (uint64_t)i, &sge, 1);

		wr.wr.ud.remote_qpn = slots[i % SLOTS] << SLOT_SHIFT | 5;
		ct_post(&l.a, &wr);
	}
	ct_send(&l, SILENT, 0, 64);
	ct_got(&l, 2, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i <= SILENT; i++)
		ct_sent(&l, i, IBV_WC_SUCCESS);
}

/* They are on their way before the two processes know each other, and those behind them after. */
static void first_datagrams_come_in_order(struct ct *t)
{
	enum { COUNT = 60, SIZE = 256, ROOM = 512 };
	struct ct_link l;

	ct_link_open(t, &l, NULL);
	for (uint32_t i = 0; i < COUNT; i++) {
		ct_fill(t->near, i * SIZE, SIZE, i + 1);
		ct_recv(&l.b, i, TARGET + i * ROOM, CT_GRH_BYTES + SIZE);
	}
	for (uint32_t i = 0; i < COUNT; i++)
		ct_send(&l, i, i * SIZE, SIZE);
	for (uint32_t i = 0; i < COUNT; i++) {
		ct_sent(&l, i, IBV_WC_SUCCESS);
		ct_got(&l, i, IBV_WC_SUCCESS);
		ct_same(t->far, TARGET + i * ROOM + CT_GRH_BYTES, SIZE, i + 1);
	}
}

static int wake_later(int pid, useconds_t later_us)
{
	int child = fork();

	CT_TRUE(child >= 0);
	if (!child) {
		usleep(later_us); /* the time for which the target has no CPU: the tested thing */
		kill(pid, SIGCONT);
		_exit(0);
	}
	return child;
}

/* More than are put aside, while the target waits for a CPU. Past FAST_S its time may be over. */
static void late_targets_lose_nothing(struct ct *t)
{
	enum { COUNT = 160, SIZE = 8, ROOM = 64, AWAY_US = 80000 };
	static const double FAST_S = 0.15;
	struct ct_opts o = ct_defaults(t);
	struct ibv_wc wc[COUNT];
	double start_s, span_s;
	struct ct_link l;
	int child;

	o.cap.max_recv_wr = COUNT;
	ct_link_open(t, &l, &o);
	for (uint32_t i = 0; i < COUNT; i++)
		ct_recv(&l.b, i, TARGET + i * ROOM, CT_GRH_BYTES + SIZE);
	kill(t->far->pid, SIGSTOP);
	start_s = ct_now_s();
	child = wake_later(t->far->pid, AWAY_US);
	for (uint32_t i = 0; i < COUNT; i++) {
		ct_send(&l, i, 0, SIZE);
		ct_sent(&l, i, IBV_WC_SUCCESS);
	}
	span_s = ct_now_s() - start_s;
	CT_EQ(waitpid(child, NULL, 0), child);
	if (span_s < FAST_S)
		CT_EQ(ct_poll_cq(t->far, t->far->rcq, COUNT, CT_DEADLINE_MS, wc), COUNT);
}

const struct ct_case ct_ud_cases[] = {
	{ "a datagram's completion names its sender", completion_names_the_sender, CT_UD | CT_IB },
	{ "the GRH is an IPv6 header, or holds an IPv4 header", ip_header_is_in_front, CT_UD },
	{ "a datagram from the loopback address can be answered", answer_to_loopback, CT_SOLO },
	{ "a datagram can be answered from its completion", answer_by_the_completion,
	  CT_UD | CT_IB },
	{ "one UD QP receives from many", many_senders, CT_UD },
	{ "one UD QP sends to many", one_sender_many_targets, CT_UD },
	{ "a UD QP can send to itself", to_itself, CT_UD },
	{ "RTR is enough to receive", rtr_is_enough_to_receive, CT_UD },
	{ "a Q_Key with the top bit set stands for that of the QP", privileged_qkey, CT_UD },
	{ "datagrams wait for a target that waits for a CPU", late_targets_lose_nothing,
	  CT_UD | CT_TWO },
	{ "datagrams to slots that never answer hold up no others", silent_slots_hold_up_nothing,
	  CT_UD },
	{ "the first datagrams to a process come in order", first_datagrams_come_in_order,
	  CT_UD | CT_IB },
	{ 0 },
};
