/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs of the connection manager between processes of one host, by unix datagrams and, where
 * VERBENA_PATH says so, by packets:
 *
 *	network namespace
 *	+-----------------------------------------------------+
 *	| test process         server process                 |
 *	| @verbena.cm.<slot>   @verbena.cm.<slot>, port 7471  |
 *	|        lo 127.0.0.1 ::1, vb0 192.0.2.7              |
 *	+-----------------------------------------------------+
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "gsi_rig.h"

/* --- a server in a process of its own --- */

struct server {
	pid_t pid;
	int from; /* its slot, then what it heard last */
};

/* Answers each REQ with a REP; 0 as responder resources asks it to end. */
static void serve(int to, enum vb_cm_family family, const char *address)
{
	struct vb_nic *nic = nic_of_process();
	int claimed = claim(nic, family, address);
	uint32_t slot = nic->seg.head->slot;

	CHECK(vb_gsi_open(nic) >= 0);
	vb_gsi_listen(nic, NULL);
	CHECK(write(to, &slot, sizeof(slot)) == sizeof(slot));
	for (uint32_t number = 1;; number++) {
		struct vb_cm_message in, out = { .attribute = VB_CM_REP };
		struct vb_gsi_datagram datagram = hear(nic, claimed, &in), answer = { 0 };

		CHECK(in.attribute == VB_CM_REQ && in.transaction_id == INITIAL);
		out.rep.remote_comm_id = in.req.local_comm_id;
		out.rep.local_comm_id = comm_id_of(nic, number);
		answer.src = datagram.dst;
		answer.dst = datagram.src;
		answer.scope = datagram.scope;
		vb_cm_emit(&out, answer.mad);
		CHECK(!vb_gsi_send(nic, &answer));
	}
}

static struct server server_start(enum vb_cm_family family, const char *address)
{
	struct server server;
	uint32_t slot;
	int ends[2];

	CHECK(!pipe(ends));
	server.pid = fork();
	CHECK(server.pid >= 0);
	if (!server.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(ends[1], family, address);
	}
	server.from = ends[0];
	close(ends[1]);
	CHECK(read(server.from, &slot, sizeof(slot)) == sizeof(slot));
	return server;
}

static void server_kill(struct server *server)
{
	kill(server->pid, SIGKILL);
	CHECK(waitpid(server->pid, NULL, 0) == server->pid);
	close(server->from);
}

/* --- within one process --- */

static void own_process_in_namespace(void)
{
	struct vb_nic *nic;
	struct vb_cm_message in, req, rtu = { .attribute = VB_CM_RTU };
	struct vb_gsi_datagram datagram;
	int claimed, answers;

	prepare_host();
	nic = nic_of_process();
	claimed = claim(nic, VB_CM_DUAL, "");
	answers = vb_gsi_open(nic);
	CHECK(answers >= 0 && vb_gsi_open(nic) == answers);
	CHECK(!vb_gsi_listen(nic, NULL));
	req = request(comm_id_of(nic, 1), "192.0.2.7");
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &req));
	datagram = hear(nic, claimed, &in);
	CHECK(in.attribute == VB_CM_REQ && in.req.local_comm_id == comm_id_of(nic, 1));
	CHECK(!memcmp(&in.req, &req.req, sizeof(in.req)));
	CHECK(vb_gid_equal(&datagram.src, &datagram.dst) && vb_gid_is_ipv4(&datagram.src));
	CHECK(datagram.traffic_class == 0x28);
	CHECK(datagram.from_wire == (path_choice != NULL));
	rtu.rtu.remote_comm_id = comm_id_of(nic, 1);
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &rtu));
	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_RTU);
	CHECK(counter("mad_taken") == 2);
	await("mad_routed", 2);
	await("mad_sent", path_choice ? 2 : 0);
}

/* --- nobody there --- */

static void nobody_in_namespace(void)
{
	struct vb_nic *nic;
	struct vb_cm_message in, out = { 0 };
	struct vb_gsi_datagram datagram;
	int answers;

	prepare_host();
	nic = nic_of_process();
	answers = vb_gsi_open(nic);
	CHECK(!vb_gsi_listen(nic, NULL));
	out = request(comm_id_of(nic, 5), "192.0.2.7");
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &out));
	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_REJ && in.rej.reason == VB_CM_REJ_INVALID_SERVICE_ID);
	CHECK(in.rej.remote_comm_id == comm_id_of(nic, 5) && in.transaction_id == INITIAL);

	out = (struct vb_cm_message){ .attribute = VB_CM_SIDR_REQ };
	out.sidr_req.request_id = comm_id_of(nic, 6);
	out.sidr_req.service_id = vb_cm_service_id(RDMA_PS_UDP, PORT);
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &out));
	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_SIDR_REP && in.sidr_rep.status == VB_CM_SIDR_UNSUPPORTED);

	out = (struct vb_cm_message){ .attribute = VB_CM_DREQ };
	out.dreq.local_comm_id = comm_id_of(nic, 7);
	out.dreq.remote_comm_id = 0xfff00001; /* slot 4095 is nobody's */
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &out));
	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_DREP && in.drep.remote_comm_id == comm_id_of(nic, 7));

	out = (struct vb_cm_message){ .attribute = VB_CM_RTU };
	out.rtu.remote_comm_id = 0xfff00001;
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &out));
	out = request(comm_id_of(nic, 8), "192.0.2.7"); /* behind it: the RTU was seen */
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &out));
	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_REJ && in.rej.remote_comm_id == comm_id_of(nic, 8));
	CHECK(!hear_within(nic, answers, 0, &datagram));
	await("mad_answered", 4);
	await("mad_dropped_nobody", 1);
}

/* --- two processes --- */

static void ask(struct vb_nic *nic, int answers, const char *from, const char *to, uint32_t number)
{
	const struct vb_cm_message out = request(comm_id_of(nic, number), to);
	struct vb_cm_message in;

	CHECK(!say(nic, from, to, &out));
	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_REP && in.rep.remote_comm_id == comm_id_of(nic, number));
}

static void two_processes_in_namespace(void)
{
	struct server server;
	struct vb_nic *nic;
	struct vb_cm_message in, out;
	int answers;

	prepare_host();
	server = server_start(VB_CM_DUAL, "");
	nic = nic_of_process();
	answers = vb_gsi_open(nic);
	CHECK(!vb_gsi_listen(nic, NULL)); /* shares the port, where there is one */
	ask(nic, answers, "192.0.2.7", "192.0.2.7", 1);
	ask(nic, answers, "127.0.0.1", "127.0.0.1", 2);
	ask(nic, answers, "::1", "::1", 3);
	for (uint32_t i = 4; i < 300; i++)
		ask(nic, answers, "192.0.2.7", "192.0.2.7", i);
	server_kill(&server);
	out = request(comm_id_of(nic, 999), "192.0.2.7");
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &out));
	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_REJ && in.rej.reason == VB_CM_REJ_INVALID_SERVICE_ID);
	CHECK(claim(nic, VB_CM_DUAL, "") >= 0);
}

/* An address that is bound exactly goes before the wildcard of the other family's, and only it. */
static void one_address_in_namespace(void)
{
	struct server server;
	struct vb_nic *nic;
	struct vb_cm_message in, out;
	int answers;

	prepare_host();
	server = server_start(VB_CM_IPV4, "192.0.2.7");
	nic = nic_of_process();
	answers = vb_gsi_open(nic);
	CHECK(!vb_gsi_listen(nic, NULL));
	ask(nic, answers, "192.0.2.7", "192.0.2.7", 1);
	out = request(comm_id_of(nic, 2), "127.0.0.1");
	CHECK(!say(nic, "127.0.0.1", "127.0.0.1", &out));
	hear(nic, answers, &in);
	CHECK(in.attribute == VB_CM_REJ);
	server_kill(&server);
}

/* Who gives up before there is an answer cannot name the other side's id. */
static void taken_back_in_namespace(void)
{
	struct vb_nic *nic;
	struct vb_cm_message in, rej = { .attribute = VB_CM_REJ }, req;
	int claimed;

	prepare_host();
	nic = nic_of_process();
	claimed = claim(nic, VB_CM_DUAL, "");
	CHECK(!vb_gsi_listen(nic, NULL));
	rej.rej.local_comm_id = comm_id_of(nic, 3);
	rej.rej.reason = VB_CM_REJ_TIMEOUT;
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &rej)); /* nobody asked for anything yet */
	await("mad_dropped_nobody", 1);
	req = request(comm_id_of(nic, 3), "192.0.2.7");
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &req));
	hear(nic, claimed, &in);
	CHECK(in.attribute == VB_CM_REQ);
	CHECK(!say(nic, "192.0.2.7", "192.0.2.7", &rej));
	hear(nic, claimed, &in);
	CHECK(in.attribute == VB_CM_REJ && in.rej.local_comm_id == comm_id_of(nic, 3));
}

/* --- fork --- */

static void fork_in_namespace(void)
{
	struct vb_nic *nic;
	int claimed, hold[2], up[2], status;
	pid_t child;
	char byte;

	prepare_host();
	nic = nic_of_process();
	claimed = claim(nic, VB_CM_DUAL, "");
	CHECK(vb_gsi_open(nic) >= 0 && !pipe(hold) && !pipe(up));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		close(hold[1]);
		CHECK(write(up[1], "", 1) == 1);
		CHECK(read(hold[0], &byte, 1) == 0); /* lives until the parent lets go */
		vb_gsi_release(claimed);             /* not the child's to close */
		_exit(0);
	}
	close(hold[0]);
	CHECK(read(up[0], &byte, 1) == 1);
	vb_gsi_release(claimed);
	claimed = claim(nic, VB_CM_DUAL, ""); /* the child does not hold it */
	close(hold[1]);
	CHECK(waitpid(child, &status, 0) == child && !status);
}

CASE(requests_go_to_claims_and_answers_to_slots, own_process_in_namespace, NULL)
CASE(they_do_as_packets, own_process_in_namespace, "wire")
CASE(where_nobody_is_the_host_answers, nobody_in_namespace, NULL)
CASE(it_does_with_packets, nobody_in_namespace, "wire")
CASE(two_processes_talk, two_processes_in_namespace, NULL)
CASE(two_processes_talk_by_packets, two_processes_in_namespace, "wire")
CASE(a_request_goes_to_the_address_it_asks_for, one_address_in_namespace, NULL)
CASE(it_does_as_a_packet, one_address_in_namespace, "wire")
CASE(a_request_can_be_taken_back, taken_back_in_namespace, NULL)
CASE(it_can_with_packets, taken_back_in_namespace, "wire")
CASE(a_child_holds_no_port_of_its_parent, fork_in_namespace, NULL)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_go_to_claims_and_answers_to_slots),
		cmocka_unit_test(they_do_as_packets),
		cmocka_unit_test(where_nobody_is_the_host_answers),
		cmocka_unit_test(it_does_with_packets),
		cmocka_unit_test(two_processes_talk),
		cmocka_unit_test(two_processes_talk_by_packets),
		cmocka_unit_test(a_request_goes_to_the_address_it_asks_for),
		cmocka_unit_test(it_does_as_a_packet),
		cmocka_unit_test(a_request_can_be_taken_back),
		cmocka_unit_test(it_can_with_packets),
		cmocka_unit_test(a_child_holds_no_port_of_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
