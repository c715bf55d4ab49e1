/* SPDX-License-Identifier: BSD-2-Clause */
/* What strangers write to QP 1 and to the names behind it, readers that are slow, ways that are
 * not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "engine/wire/wire_impl.h"
#include "gsi/impl.h"
#include "gsi_rig.h"
#include "wire/icrc.h"
#include "wire/packet.h"

/* --- a reader that is slow --- */

static void request_often(struct vb_nic *nic, uint32_t count)
{
	for (uint32_t i = 1; i <= count; i++) {
		const struct vb_cm_message out = request(comm_id_of(nic, i), "192.0.2.7");

		CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &out));
	}
}

static void slow_reader_in_namespace(void)
{
	enum { MANY = 600 };
	struct vb_nic *nic;
	int claimed;

	prepare_host();
	nic = nic_of_process();
	claimed = claim(nic, VB_CM_DUAL, "");
	request_often(nic, MANY);
	CHECK(counter("mad_waited") > 0);
	for (uint32_t i = 1; i <= MANY; i++) {
		struct vb_cm_message in;

		hear(nic, claimed, &in);
		CHECK(in.req.local_comm_id == comm_id_of(nic, i)); /* in order */
	}
	CHECK(counter("mad_dropped_full") == 0);
}

/* --- readers that do not read, and are in nobody else's way --- */

static void tell(struct vb_nic *nic, uint32_t number)
{
	struct vb_cm_message rtu = { .attribute = VB_CM_RTU };

	rtu.rtu.remote_comm_id = comm_id_of(nic, number);
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &rtu));
}

static void hear_told(struct vb_nic *nic, int answers, uint32_t number)
{
	struct vb_cm_message in;

	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_RTU && in.rtu.remote_comm_id == comm_id_of(nic, number));
}

/* Nobody reads what is for the claimed port; answers are read. */
static struct vb_nic *claim_unread(int *answers)
{
	struct vb_nic *nic;

	prepare_host();
	nic = nic_of_process();
	claim(nic, VB_CM_DUAL, "");
	*answers = vb_gsi_open(nic);
	return nic;
}

static void no_reader_in_namespace(void)
{
	int answers;
	struct vb_nic *nic = claim_unread(&answers);

	request_often(nic, 64);
	tell(nic, 1);
	hear_told(nic, answers, 1);
}

/* What lies unread counts as the sender's. */
static void room_of_the_sender_in_namespace(void)
{
	const int small = 1;
	int answers;
	struct vb_nic *nic = claim_unread(&answers);

	CHECK(!setsockopt(vb_gsi_get(nic)->out, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
	request_often(nic, 64);
	tell(nic, 1);
	hear_told(nic, answers, 1);
}

/* What waits for one name leaves room for what has to wait for another. */
static void room_in_line_in_namespace(void)
{
	enum { MANY = 10000, SOME = 600 };
	int answers;
	struct vb_nic *nic = claim_unread(&answers);

	request_often(nic, MANY);
	CHECK(counter("mad_dropped_full") > 0);
	for (uint32_t i = 1; i <= SOME; i++)
		tell(nic, i);
	for (uint32_t i = 1; i <= SOME; i++)
		hear_told(nic, answers, i);
}

/* --- strangers --- */

static void write_to(const struct vb_cm_target *target, const void *bytes, size_t size)
{
	int out = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(sendto(out, bytes, size, 0, (const void *)&target->address, target->length) ==
	      (ssize_t)size);
	close(out);
}

static void garbage_in_namespace(void)
{
	struct vb_nic *nic;
	struct vb_cm_target target;
	struct vb_gsi_datagram good = { .magic = VB_GSI_MAGIC }, bad;
	struct vb_cm_message in, rtu = { .attribute = VB_CM_RTU };
	char longer[2 * sizeof(good)] = { 0 };
	uid_t uid;
	int answers;

	prepare_host();
	nic = nic_of_process();
	answers = vb_gsi_open(nic);
	CHECK(!vb_cm_target_slot(nic->seg.head->slot, &target));
	good.src = good.dst = gid_of("192.0.2.7");
	vb_cm_emit(&rtu, good.mad);
	write_to(&target, &good, sizeof(good) - 1);
	memcpy(longer, &good, sizeof(good));
	write_to(&target, longer, sizeof(longer));
	bad = good;
	bad.magic++;
	write_to(&target, &bad, sizeof(bad));
	bad = good;
	bad.from_wire = 2;
	write_to(&target, &bad, sizeof(bad));
	bad = good;
	bad.src = gid_of("198.51.100.1"); /* of another host, and not from a port */
	write_to(&target, &bad, sizeof(bad));
	bad.src = gid_of("224.0.0.1");
	bad.from_wire = 1;
	write_to(&target, &bad, sizeof(bad));
	write_to(&target, &good, sizeof(good));
	/* One after the other: a flood of them would keep the caller for ever. */
	for (int i = 0; i < 6; i++)
		CHECK(vb_gsi_receive(nic, answers, &bad, &uid) == -EBADMSG);
	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_RTU);
	CHECK(counter("mad_dropped_malformed") == 6 && counter("mad_taken") == 1);
}

/* The same, by somebody else; false: we cannot be anybody else here. */
static bool write_as_other(const struct vb_cm_target *target, const void *bytes, size_t size)
{
	enum { OTHER = 65534 };
	pid_t child = fork();
	int status;

	if (!child) {
		if (syscall(SYS_setresuid, OTHER, OTHER, OTHER))
			_exit(1);
		write_to(target, bytes, size);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return !WEXITSTATUS(status);
}

/* Who holds no port cannot have got it from another host. */
static void forged_in_namespace(void)
{
	struct vb_gsi_datagram datagram = { .magic = VB_GSI_MAGIC, .from_wire = 1 };
	struct vb_cm_message in, rtu = { .attribute = VB_CM_RTU };
	struct vb_cm_target target;
	struct vb_nic *nic;
	int answers;

	prepare_host();
	nic = nic_of_process();
	answers = vb_gsi_open(nic);
	CHECK(!vb_cm_target_slot(nic->seg.head->slot, &target));
	datagram.src = gid_of("198.51.100.1");
	datagram.dst = gid_of("192.0.2.7");
	CHECK(!vb_gsi_listen(nic, &datagram.dst));
	vb_cm_emit(&rtu, datagram.mad);
	if (!write_as_other(&target, &datagram, sizeof(datagram)))
		return;
	write_to(&target, &datagram, sizeof(datagram)); /* another process of our user might */
	CHECK(hear(nic, answers, &in).from_wire == 1);
	CHECK(counter("mad_dropped_refused") == 1 && counter("mad_taken") == 1);
}

/* A packet for QP 1 as somebody else would make it. */
static void throw_packet(struct vb_icrc_flow *flow, struct vb_packet *packet, const uint8_t *mad)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(VB_UDP_PORT_ROCE) };
	struct sockaddr_in from = { .sin_family = AF_INET };
	uint8_t bytes[VB_PACKET_MAX] = { 0 };
	size_t headers = vb_packet_emit(packet, bytes), length = headers + packet->payload_length;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), probe = IP_PMTUDISC_DO;

	memcpy(&to.sin_addr, flow->dst, 4);
	memcpy(&from.sin_addr, flow->src, 4);
	from.sin_port = htons(flow->src_port);
	memcpy(bytes + headers, mad, packet->payload_length);
	vb_icrc_flow_init(flow);
	vb_icrc_put(flow, 0, bytes, length);
	CHECK(!setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe)));
	CHECK(!bind(fd, (void *)&from, sizeof(from)));
	CHECK(sendto(fd, bytes, length + VB_ICRC_LENGTH, 0, (void *)&to, sizeof(to)) > 0);
	close(fd);
}

static void packets_in_namespace(void)
{
	struct vb_icrc_flow flow = { .src_port = 50000, .dst_port = VB_UDP_PORT_ROCE };
	struct vb_packet good = { .opcode = VB_TRANSPORT_UD | VB_OP_SEND_ONLY,
				  .pkey = 0xffff,
				  .dest_qpn = VB_GSI_QPN,
				  .src_qpn = VB_GSI_QPN,
				  .qkey = VB_GSI_QKEY,
				  .payload_length = VB_MAD_SIZE },
			 bad;
	struct vb_cm_message in, rtu = { .attribute = VB_CM_RTU };
	uint8_t mad[VB_MAD_SIZE];
	struct vb_nic *nic;
	const union ibv_gid any = gid_of("192.0.2.7"), loopback = gid_of("127.0.0.1");
	int answers;

	prepare_host();
	nic = nic_of_process();
	answers = vb_gsi_open(nic);
	CHECK(!vb_gsi_listen(nic, &any) && !vb_gsi_listen(nic, &loopback));
	rtu.rtu.remote_comm_id = comm_id_of(nic, 1);
	vb_cm_emit(&rtu, mad);
	memcpy(flow.src, any.raw + 12, 4);
	memcpy(flow.dst, any.raw + 12, 4);
	bad = good;
	bad.qkey--;
	throw_packet(&flow, &bad, mad);
	await("mad_dropped_refused", 1);
	bad = good;
	bad.payload_length = VB_MAD_SIZE - 4;
	throw_packet(&flow, &bad, mad);
	await("mad_dropped_refused", 2);
	throw_packet(&flow, &good, mad);
	CHECK(hear(nic, answers, &in).from_wire == 1);
	CHECK(in.attribute == VB_CM_RTU);
	mad[0]++; /* another base version */
	throw_packet(&flow, &good, mad);
	await("mad_dropped_malformed", 1);
	mad[0]--;
	mad[1] = 0x09; /* a class that nobody has, and no request */
	throw_packet(&flow, &good, mad);
	await("mad_dropped_nobody", 1);
	mad[1] = VB_MAD_CLASS_SUBN; /* SMPs are for QP 0, which has another Q_Key */
	throw_packet(&flow, &good, mad);
	await("mad_dropped_refused", 3);
	bad = good;
	bad.dest_qpn = bad.src_qpn = VB_SMI_QPN;
	throw_packet(&flow, &bad, mad);
	await("mad_dropped_refused", 4);
	/* Who is on this host and says so does not make packets. */
	memcpy(flow.src, loopback.raw + 12, 4);
	memcpy(flow.dst, loopback.raw + 12, 4);
	throw_packet(&flow, &good, mad);
	await("mad_dropped_refused", 5);
	CHECK(counter("mad_rcvd") == 8 && counter("mad_taken") == 1);
}

/* --- what cannot be sent --- */

/* One that is no message of the connection manager, but counted as such only if it is looked at. */
static void arrive_from(struct vb_lane *lane, uint8_t host)
{
	const struct vb_icrc_flow flow = { .src = { 198, 51, 100, host }, .dst = { 192, 0, 2, 7 } };
	const uint8_t mad[VB_MAD_SIZE] = { [1] = VB_MAD_CLASS_CM };
	const struct vb_packet packet = { .opcode = VB_TRANSPORT_UD | VB_OP_SEND_ONLY,
					  .dest_qpn = VB_GSI_QPN,
					  .src_qpn = VB_GSI_QPN,
					  .qkey = VB_GSI_QKEY,
					  .payload = mad,
					  .payload_length = VB_MAD_SIZE };

	lane->roce.sink.gsi(lane, &packet, &(struct vb_arrival){ .flow = &flow });
}

/* At one moment: nothing more is earned. */
static void flood_in_namespace(void)
{
	enum { MANY = 20000, OTHERS = 16 };
	struct vb_lane *lane;
	uint64_t looked_at;
	int err;

	prepare_host();
	lane = vb_wire_get(nic_of_process(), &err);
	CHECK(lane);
	vb_wire_lock(lane);
	lane->roce.now_ns = vb_now_ns();
	for (int i = 0; i < MANY; i++)
		arrive_from(lane, 1);
	looked_at = counter("mad_dropped_malformed");
	CHECK(counter("mad_dropped_flood") == MANY - looked_at && looked_at < MANY / 2);
	for (uint8_t host = 2; host < 2 + OTHERS; host++)
		arrive_from(lane, host);
	/* Some may share what the first one is allowed. */
	CHECK(counter("mad_dropped_malformed") > looked_at + OTHERS / 2);
	vb_wire_unlock(lane);
}

static void unsendable_in_namespace(void)
{
	struct vb_nic *nic;
	struct vb_cm_message req;

	prepare_host();
	nic = nic_of_process();
	req = request(comm_id_of(nic, 1), "192.0.2.7");
	CHECK(say(nic, "192.0.2.7", "", &req) == -EINVAL);
	CHECK(say(nic, "192.0.2.7", "224.0.0.1", &req) == -EINVAL);
	CHECK(say(nic, "203.0.113.9", "198.51.100.1", &req) == -ENETUNREACH);
	CHECK(!say(nic, "192.0.2.7", "192.0.2.99", &req)); /* who does not answer is no error */
}

CASE(a_slow_reader_loses_nothing, slow_reader_in_namespace, NULL)
CASE(who_does_not_read_is_in_nobodys_way, no_reader_in_namespace, NULL)
CASE(nor_does_it_use_up_what_others_may_be_sent, room_of_the_sender_in_namespace, NULL)
CASE(nor_the_places_to_wait, room_in_line_in_namespace, NULL)
CASE(garbage_is_not_shown, garbage_in_namespace, NULL)
CASE(what_did_not_come_through_a_port_is_not_shown, forged_in_namespace, NULL)
CASE(packets_are_looked_at, packets_in_namespace, NULL)
CASE(a_flood_from_one_host_is_not_that_of_others, flood_in_namespace, NULL)
CASE(what_cannot_be_sent_is_an_error, unsendable_in_namespace, NULL)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_reader_loses_nothing),
		cmocka_unit_test(who_does_not_read_is_in_nobodys_way),
		cmocka_unit_test(nor_does_it_use_up_what_others_may_be_sent),
		cmocka_unit_test(nor_the_places_to_wait),
		cmocka_unit_test(garbage_is_not_shown),
		cmocka_unit_test(what_did_not_come_through_a_port_is_not_shown),
		cmocka_unit_test(packets_are_looked_at),
		cmocka_unit_test(a_flood_from_one_host_is_not_that_of_others),
		cmocka_unit_test(what_cannot_be_sent_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
