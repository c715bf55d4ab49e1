/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures of two Linux machines, played twice: once we are the server and once the client. What
 * the other side sent is given to us, with our ids in place of Linux's; what our side sent, we are
 * asked to send: it must be the same but for ids, PSNs and transactions.
 */
#include <dirent.h>
#include <stdio.h>

#include "../golden/frame.h"
#include "../golden/pcap.h"
#include "rig.h"
#include "wire/packet.h"

enum { CONNECTIONS_MAX = 4 };

struct connection {
	uint32_t own_id; /* what Linux called it on our side */
	uint64_t transaction_id;
	struct vb_cm_endpoint *endpoint, memory;
	struct vb_cm_message answer; /* DREP: sent before the capture comes to it */
};

struct player {
	struct rig *rig;
	bool server; /* we are it */
	bool nobody; /* there was no listener */
	struct connection connections[CONNECTIONS_MAX];
	unsigned count;
	unsigned played;
};

static struct connection *by_own_id(struct player *player, uint32_t id)
{
	for (unsigned i = 0; i < player->count; i++)
		if (player->connections[i].own_id == id)
			return &player->connections[i];
	fail_msg("no connection has the id 0x%x", id);
	return NULL;
}

/* What must differ is made equal. */
static struct vb_cm_message neutral(struct vb_cm_message message)
{
	message.transaction_id = 0;
	switch (message.attribute) {
	case VB_CM_REQ:
		message.req.local_comm_id = message.req.starting_psn = 0;
		break;
	case VB_CM_SIDR_REQ:
		message.sidr_req.request_id = 0;
		break;
	case VB_CM_SIDR_REP:
		message.sidr_rep.request_id = 0;
		break;
	case VB_CM_REP:
		message.rep.starting_psn = 0;
		/* fall through */
	default:
		message.rtu.local_comm_id = message.rtu.remote_comm_id = 0;
	}
	return message;
}

static void same(struct vb_cm_message ours, struct vb_cm_message linux_one)
{
	char a[1024], b[1024];

	ours = neutral(ours);
	linux_one = neutral(linux_one);
	assert_string_equal(vb_cm_print(&ours, a, sizeof(a)),
			    vb_cm_print(&linux_one, b, sizeof(b)));
	assert_memory_equal(&ours, &linux_one, sizeof(ours));
}

static struct connection *begin(struct player *player, const struct vb_cm_message *message)
{
	struct connection *connection = &player->connections[player->count++];

	assert_true(player->count <= CONNECTIONS_MAX);
	*connection = (struct connection){ .transaction_id = message->transaction_id,
					   .endpoint = &connection->memory };
	vb_cm_endpoint_init(&player->rig->cm, &connection->memory);
	return connection;
}

/* --- our side does what Linux did --- */

static void connect_as(struct player *player, const struct vb_cm_message *message)
{
	const struct vb_cm_req *req = &message->req;
	struct connection *connection = begin(player, message);
	struct vb_cm_connect_params params;
	struct vb_cm_ip ip;

	assert_int_equal(vb_cm_ip_parse(req->private_data, &ip), 0);
	params = (struct vb_cm_connect_params){
		.route = player->rig->route,
		.service_id = req->service_id,
		.ca_guid = req->ca_guid,
		.qpn = req->qpn,
		.qp_type = IBV_QPT_RC,
		.srq = req->srq,
		.flow_control = req->flow_control,
		.responder_resources = req->responder_resources,
		.initiator_depth = req->initiator_depth,
		.retry_count = req->retry_count,
		.rnr_retry_count = req->rnr_retry_count,
		.mtu = (enum ibv_mtu)req->mtu,
		.ack_timeout = req->primary.ack_timeout,
		.flow_label = req->primary.flow_label,
		.ip = &ip,
		.private_data = req->private_data + VB_CM_IP_SIZE,
		.private_data_length = VB_CM_REQ_USER_SIZE,
	};
	connection->own_id = req->local_comm_id;
	assert_int_equal(vb_cm_connect(connection->endpoint, &params, player->rig->now_ns), 0);
	same(rig_take(player->rig, VB_CM_REQ), *message);
}

static struct connection *by_transaction(struct player *player, uint64_t transaction_id)
{
	for (unsigned i = 0; i < player->count; i++)
		if (player->connections[i].transaction_id == transaction_id)
			return &player->connections[i];
	fail_msg("no connection has the transaction 0x%llx", (unsigned long long)transaction_id);
	return NULL;
}

static void accept_as(struct player *player, const struct vb_cm_message *message)
{
	const struct vb_cm_rep *rep = &message->rep;
	struct connection *connection = by_transaction(player, message->transaction_id);
	struct vb_cm_accept_params params = {
		.ca_guid = rep->ca_guid,
		.qpn = rep->qpn,
		.srq = rep->srq,
		.flow_control = rep->flow_control,
		.responder_resources = rep->responder_resources,
		.initiator_depth = rep->initiator_depth,
		.rnr_retry_count = rep->rnr_retry_count,
		.private_data = rep->private_data,
		.private_data_length = VB_CM_REP_DATA_SIZE,
	};

	connection->own_id = rep->local_comm_id;
	assert_int_equal(vb_cm_accept(connection->endpoint, &params, player->rig->now_ns), 0);
	same(rig_take(player->rig, VB_CM_REP), *message);
}

static void resolve_as(struct player *player, const struct vb_cm_message *message)
{
	const struct vb_cm_sidr_req *req = &message->sidr_req;
	struct connection *connection = begin(player, message);
	struct vb_cm_ip ip;
	struct vb_cm_sidr_params params = {
		.route = player->rig->route,
		.service_id = req->service_id,
		.ip = &ip,
		.private_data = req->private_data + VB_CM_IP_SIZE,
		.private_data_length = VB_CM_SIDR_REQ_USER_SIZE,
	};

	assert_int_equal(vb_cm_ip_parse(req->private_data, &ip), 0);
	connection->own_id = req->request_id;
	assert_int_equal(vb_cm_sidr_request(connection->endpoint, &params, player->rig->now_ns), 0);
	same(rig_take(player->rig, VB_CM_SIDR_REQ), *message);
}

static void reply_as(struct player *player, const struct vb_cm_message *message)
{
	const struct vb_cm_sidr_rep *rep = &message->sidr_rep;
	struct connection *connection = by_transaction(player, message->transaction_id);
	struct vb_cm_sidr_reply_params params = {
		.status = (enum vb_cm_sidr_status)rep->status,
		.qpn = rep->qpn,
		.qkey = rep->qkey,
		.private_data = rep->private_data,
		.private_data_length = VB_CM_SIDR_REP_DATA_SIZE,
	};

	assert_int_equal(vb_cm_sidr_reply(connection->endpoint, &params, player->rig->now_ns), 0);
	same(rig_take(player->rig, VB_CM_SIDR_REP), *message);
}

static void ours(struct player *player, const struct vb_cm_message *message)
{
	uint64_t now_ns = player->rig->now_ns;
	struct connection *connection;

	switch (message->attribute) {
	case VB_CM_REQ:
		connect_as(player, message);
		break;
	case VB_CM_REP:
		accept_as(player, message);
		break;
	case VB_CM_RTU:
		connection = by_own_id(player, message->rtu.local_comm_id);
		assert_int_equal(vb_cm_establish(connection->endpoint, now_ns), 0);
		same(rig_take(player->rig, VB_CM_RTU), *message);
		break;
	case VB_CM_DREQ:
		connection = by_own_id(player, message->dreq.local_comm_id);
		assert_int_equal(vb_cm_disconnect(connection->endpoint, now_ns), 0);
		same(rig_take(player->rig, VB_CM_DREQ), *message);
		break;
	case VB_CM_DREP:
		connection = by_own_id(player, message->drep.local_comm_id);
		same(connection->answer, *message);
		break;
	case VB_CM_REJ: /* nobody listened: it was answered at once */
		assert_true(player->nobody);
		same(player->connections[0].answer, *message);
		break;
	case VB_CM_SIDR_REQ:
		resolve_as(player, message);
		break;
	case VB_CM_SIDR_REP:
		reply_as(player, message);
		break;
	default:
		fail_msg("a %s in a capture", vb_cm_name(message->attribute));
	}
}

/* --- the other side speaks to us --- */

static void given_request(struct player *player, const struct vb_cm_message *message)
{
	struct connection *connection = begin(player, message);
	bool sidr = message->attribute == VB_CM_SIDR_REQ;
	uint64_t service_id = sidr ? message->sidr_req.service_id : message->req.service_id;

	if (!player->nobody && player->rig->listener.state == VB_CM_IDLE)
		rig_listen(player->rig, service_id, 0);
	rig_give(player->rig, message);
	if (player->nobody)
		connection->answer = rig_take(player->rig, VB_CM_REJ);
	else
		connection->endpoint =
			rig_event(player->rig, NULL,
				  sidr ? VB_CM_EVENT_SIDR_REQ_RECEIVED : VB_CM_EVENT_REQ_RECEIVED)
				.endpoint;
}

static void theirs(struct player *player, struct vb_cm_message message)
{
	static const enum vb_cm_event_type events[VB_CM_ATTRIBUTES] = {
		[VB_CM_REJ - VB_CM_REQ] = VB_CM_EVENT_REJECTED,
		[VB_CM_REP - VB_CM_REQ] = VB_CM_EVENT_REP_RECEIVED,
		[VB_CM_RTU - VB_CM_REQ] = VB_CM_EVENT_ESTABLISHED,
		[VB_CM_DREQ - VB_CM_REQ] = VB_CM_EVENT_DISCONNECTED,
		[VB_CM_DREP - VB_CM_REQ] = VB_CM_EVENT_DISCONNECTED,
		[VB_CM_SIDR_REP - VB_CM_REQ] = VB_CM_EVENT_SIDR_REP_RECEIVED,
	};
	struct connection *connection;

	if (message.attribute == VB_CM_REQ || message.attribute == VB_CM_SIDR_REQ) {
		given_request(player, &message);
		return;
	}
	connection = by_own_id(player, vb_cm_receiver_id(&message));
	if (message.attribute == VB_CM_SIDR_REP)
		message.sidr_rep.request_id = connection->endpoint->local_id;
	else
		message.rtu.remote_comm_id = connection->endpoint->local_id;
	/* Linux answers a request with its transaction. */
	if (message.transaction_id == connection->transaction_id)
		message.transaction_id = connection->endpoint->transaction_id;
	rig_give(player->rig, &message);
	rig_event(player->rig, connection->endpoint, events[message.attribute - VB_CM_REQ]);
	if (message.attribute != VB_CM_DREQ)
		return;
	/* The application answers, as the one in the capture did. */
	rig_take_none(player->rig);
	assert_int_equal(vb_cm_disconnect(connection->endpoint, player->rig->now_ns), 0);
	connection->answer = rig_take(player->rig, VB_CM_DREP);
}

/* --- from file to message --- */

static union ibv_gid gid_of(const struct vb_icrc_flow *flow, const uint8_t *address)
{
	union ibv_gid gid;

	if (!flow->ipv6)
		return rig_gid4(address[0], address[1], address[2], address[3]);
	memcpy(&gid, address, sizeof(gid));
	return gid;
}

static bool next_message(struct pcap *pcap, struct vb_cm_message *message,
			 struct vb_cm_route *route)
{
	const uint8_t *bytes;
	size_t length;
	struct frame frame;
	struct vb_packet packet;

	while (pcap_next(pcap, &bytes, &length) == 1) {
		assert_int_equal(frame_parse(bytes, length, &frame), 0);
		assert_int_equal(vb_packet_parse(frame.packet, frame.length, &packet), 0);
		if (packet.dest_qpn != VB_GSI_QPN)
			continue;
		assert_int_equal(vb_cm_parse(packet.payload, packet.payload_length, message),
				 VB_CM_OK);
		route->remote = gid_of(&frame.flow, frame.flow.src);
		route->local = gid_of(&frame.flow, frame.flow.dst);
		return true;
	}
	return false;
}

static bool nobody_listened(const char *path)
{
	struct vb_cm_message message;
	struct vb_cm_route route = { 0 };
	struct pcap pcap;
	bool found = false;

	assert_int_equal(pcap_open(&pcap, path), 0);
	while (next_message(&pcap, &message, &route))
		found |= message.attribute == VB_CM_REJ;
	pcap_close(&pcap);
	return found;
}

static void play(const char *path, bool server)
{
	struct player player = { .server = server, .nobody = nobody_listened(path) };
	struct vb_cm_message message;
	struct vb_cm_route route = { 0 };
	struct pcap pcap;
	union ibv_gid client;

	rig_setup((void **)&player.rig);
	assert_int_equal(pcap_open(&pcap, path), 0);
	while (next_message(&pcap, &message, &route)) {
		bool from_client;

		if (!player.played++) {
			client = route.remote;
			player.rig->route = route;
			if (!server) {
				player.rig->route.local = route.remote;
				player.rig->route.remote = route.local;
			}
			player.rig->own = player.rig->route.local;
			player.rig->peer = player.rig->route.remote;
		}
		from_client = !memcmp(&route.remote, &client, sizeof(client));
		if (from_client == server)
			theirs(&player, message);
		else
			ours(&player, &message);
	}
	pcap_close(&pcap);
	assert_true(player.played >= 2);
	rig_take_none(player.rig);
	rig_event_none(player.rig);
	for (unsigned i = 0; i < player.count; i++)
		vb_cm_destroy(&player.connections[i].memory, player.rig->now_ns);
	rig_teardown((void **)&player.rig);
}

static void play_all(const char *folder, bool server)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	unsigned count = 0;
	char path[4096];

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, "cm-", 3) || !strstr(entry->d_name, ".pcap"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		print_message("# %s, we are the %s\n", entry->d_name, server ? "server" : "client");
		play(path, server);
		count++;
	}
	closedir(dir);
	assert_in_range(count, 10, 100);
}

static void as_the_server(void **state)
{
	play_all(*state, true);
}

static void as_the_client(void **state)
{
	play_all(*state, false);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(as_the_server, argv[1]),
		cmocka_unit_test_prestate(as_the_client, argv[1]),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER-OF-CAPTURES\n", argv[0]);
		return 2;
	}
	return rig_run(tests);
}
