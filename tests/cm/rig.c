/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include "wire/mad.h"

union ibv_gid rig_gid4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (union ibv_gid){ .raw = { [10] = 0xff, 0xff, a, b, c, d } };
}

/* --- the other end of the callbacks --- */

static void on_send(void *arg, const struct vb_cm_route *route, const struct vb_cm_message *message)
{
	struct rig *rig = arg;
	struct rig_sent *sent = &rig->sent[rig->sent_tail++ % RIG_QUEUE];
	uint8_t bytes[VB_MAD_SIZE];

	assert_true(rig->sent_tail - rig->sent_head <= RIG_QUEUE);
	sent->route = *route;
	sent->at_ns = rig->now_ns;
	vb_cm_emit(message, bytes);
	assert_int_equal(vb_cm_parse(bytes, sizeof(bytes), &sent->message), VB_CM_OK);
}

static void on_event(void *arg, struct vb_cm_endpoint *endpoint, const struct vb_cm_event *event)
{
	struct rig *rig = arg;
	struct rig_event *copy = &rig->events[rig->events_tail++ % RIG_QUEUE];

	assert_true(rig->events_tail - rig->events_head <= RIG_QUEUE);
	*copy = (struct rig_event){ .endpoint = endpoint, .event = *event };
	if (event->private_data)
		memcpy(copy->private_data, event->private_data, event->private_data_size);
}

static struct vb_cm_endpoint *on_incoming(void *arg, struct vb_cm_endpoint *listener)
{
	struct rig *rig = arg;

	assert_ptr_equal(listener, &rig->listener);
	if (rig->incoming_count == rig->incoming_max)
		return NULL;
	return &rig->incoming[rig->incoming_count++];
}

static bool is_local(void *arg, const union ibv_gid *gid)
{
	struct rig *rig = arg;
	union ibv_gid loopback = rig_gid4(127, 0, 0, 1);

	return !memcmp(gid, &rig->own, 16) || !memcmp(gid, &rig->own6, 16) ||
	       !memcmp(gid, &loopback, 16);
}

union ibv_gid rig_port_gid(uint8_t number)
{
	return (union ibv_gid){ .raw = { 0xfe, 0x80, [15] = number } };
}

static bool lid_is(void *arg, uint16_t lid, const struct vb_cm_route *route,
		   const union ibv_gid *address)
{
	struct rig *rig = arg;

	(void)route;
	return rig->infiniband && lid == (is_local(rig, address) ? 1 : 2);
}

static bool port(void *arg, struct vb_cm_port *port)
{
	struct rig *rig = arg;

	*port = (struct vb_cm_port){ .gid = rig_port_gid(1), .lid = 1 };
	return rig->infiniband;
}

static uint64_t on_random(void *arg)
{
	struct rig *rig = arg;

	rig->random = rig->random * 6364136223846793005ull + 1442695040888963407ull;
	return rig->random ^ rig->random >> 29;
}

static const struct vb_cm_ops ops = {
	.send = on_send,
	.event = on_event,
	.incoming = on_incoming,
	.gid_is_local = is_local,
	.lid_is = lid_is,
	.port = port,
	.random = on_random,
};

int rig_setup(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	rig->now_ns = 1000 * MS;
	rig->random = 42;
	rig->own = rig_gid4(10, 0, 0, 1);
	rig->own6 = (union ibv_gid){ .raw = { 0xfd, [15] = 1 } };
	rig->peer = rig_gid4(10, 0, 0, 2);
	rig->route = (struct vb_cm_route){ .local = rig->own, .remote = rig->peer };
	rig->incoming_max = RIG_ENDPOINTS;
	assert_int_equal(vb_cm_init(&rig->cm, RIG_SLOT, &ops, rig), 0);
	vb_cm_endpoint_init(&rig->cm, &rig->a);
	vb_cm_endpoint_init(&rig->cm, &rig->b);
	vb_cm_endpoint_init(&rig->cm, &rig->listener);
	*state = rig;
	return 0;
}

/* Whatever a test did: after a destroy of everything, and time, nothing is left. */
int rig_teardown(void **state)
{
	struct rig *rig = *state;

	vb_cm_destroy(&rig->a, rig->now_ns);
	vb_cm_destroy(&rig->b, rig->now_ns);
	vb_cm_destroy(&rig->listener, rig->now_ns);
	for (unsigned i = 0; i < rig->incoming_count; i++)
		vb_cm_destroy(&rig->incoming[i], rig->now_ns);
	rig->events_head = rig->events_tail;
	while (vb_cm_next_ns(&rig->cm) != VB_NEVER_NS) {
		rig->sent_head = rig->sent_tail;
		rig->now_ns = vb_cm_next_ns(&rig->cm);
		vb_cm_tick(&rig->cm, rig->now_ns);
	}
	rig_event_none(rig);
	assert_int_equal(rig->cm.endpoint_count, 0);
	assert_int_equal(rig->cm.orphan_count, 0);
	assert_int_equal(rig->cm.by_local_id.count + rig->cm.by_remote_id.count, 0);
	assert_int_equal(rig->cm.by_local_qpn.count + rig->cm.by_remote_qpn.count, 0);
	assert_int_equal(rig->cm.by_service.count, 0);
	vb_cm_fini(&rig->cm);
	free(rig);
	return 0;
}

/* --- what came out --- */

struct rig_sent rig_take_sent(struct rig *rig, enum vb_cm_attribute attribute)
{
	struct rig_sent sent = rig->sent[rig->sent_head % RIG_QUEUE];

	assert_true(rig->sent_head != rig->sent_tail);
	rig->sent_head++;
	assert_string_equal(vb_cm_name(sent.message.attribute), vb_cm_name(attribute));
	return sent;
}

struct vb_cm_message rig_take(struct rig *rig, enum vb_cm_attribute attribute)
{
	return rig_take_sent(rig, attribute).message;
}

void rig_take_none(struct rig *rig)
{
	assert_int_equal(rig->sent_tail - rig->sent_head, 0);
}

void rig_take_rej(struct rig *rig, unsigned reason)
{
	assert_int_equal(rig_take(rig, VB_CM_REJ).rej.reason, reason);
	rig_take_none(rig);
}

struct rig_event rig_event(struct rig *rig, struct vb_cm_endpoint *endpoint,
			   enum vb_cm_event_type type)
{
	struct rig_event event = rig->events[rig->events_head % RIG_QUEUE];

	assert_true(rig->events_head != rig->events_tail);
	rig->events_head++;
	assert_string_equal(vb_cm_event_name(event.event.type), vb_cm_event_name(type));
	if (endpoint)
		assert_ptr_equal(event.endpoint, endpoint);
	return event;
}

void rig_event_none(struct rig *rig)
{
	assert_int_equal(rig->events_tail - rig->events_head, 0);
}

/* --- what goes in --- */

void rig_give_from(struct rig *rig, const struct vb_cm_route *route,
		   const struct vb_cm_message *message)
{
	struct vb_cm_message parsed;
	uint8_t bytes[VB_MAD_SIZE];

	vb_cm_emit(message, bytes);
	assert_int_equal(vb_cm_parse(bytes, sizeof(bytes), &parsed), VB_CM_OK);
	vb_cm_input(&rig->cm, route, &parsed, rig->now_ns);
}

void rig_give(struct rig *rig, const struct vb_cm_message *message)
{
	rig_give_from(rig, &rig->route, message);
}

void rig_wait(struct rig *rig, uint64_t ns)
{
	uint64_t until_ns = rig->now_ns + ns;

	while (vb_cm_next_ns(&rig->cm) <= until_ns) {
		if (vb_cm_next_ns(&rig->cm) > rig->now_ns)
			rig->now_ns = vb_cm_next_ns(&rig->cm);
		vb_cm_tick(&rig->cm, rig->now_ns);
	}
	rig->now_ns = until_ns;
}

/* --- the usual --- */

struct vb_cm_ip rig_ip(const struct rig *rig)
{
	return (struct vb_cm_ip){ .src_port = 40000, .src = rig->own, .dst = rig->peer };
}

struct vb_cm_connect_params rig_connect_params(struct rig *rig, const struct vb_cm_ip *ip)
{
	return (struct vb_cm_connect_params){
		.route = rig->route,
		.service_id = RIG_SERVICE,
		.ca_guid = RIG_GUID,
		.qpn = RIG_QPN,
		.qp_type = IBV_QPT_RC,
		.responder_resources = 4,
		.initiator_depth = 2,
		.retry_count = 7,
		.rnr_retry_count = 6,
		.mtu = IBV_MTU_1024,
		.ip = ip,
		.private_data = "hello",
		.private_data_length = 5,
	};
}

struct vb_cm_accept_params rig_accept_params(void)
{
	return (struct vb_cm_accept_params){
		.ca_guid = RIG_GUID,
		.qpn = RIG_QPN,
		.responder_resources = 3,
		.initiator_depth = 1,
		.rnr_retry_count = 5,
		.private_data = "welcome",
		.private_data_length = 7,
	};
}

void rig_connect(struct rig *rig, struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_ip ip = rig_ip(rig);
	struct vb_cm_connect_params params = rig_connect_params(rig, &ip);

	assert_int_equal(vb_cm_connect(endpoint, &params, rig->now_ns), 0);
}

struct vb_cm_message rig_answer(const struct vb_cm_endpoint *endpoint, enum vb_cm_attribute attr)
{
	struct vb_cm_message message = { .attribute = attr,
					 .transaction_id = endpoint->transaction_id };

	/* All of them begin with the two ids. */
	message.rtu.local_comm_id = RIG_PEER_ID;
	message.rtu.remote_comm_id = endpoint->local_id;
	return message;
}

struct vb_cm_message rig_rep(const struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_message message = rig_answer(endpoint, VB_CM_REP);

	message.rep.qpn = RIG_PEER_QPN;
	message.rep.ca_guid = RIG_PEER_GUID;
	message.rep.starting_psn = 0xabcdef;
	message.rep.responder_resources = 3;
	message.rep.initiator_depth = 1;
	message.rep.target_ack_delay = 15;
	message.rep.rnr_retry_count = 5;
	memcpy(message.rep.private_data, "welcome", 7);
	return message;
}

struct vb_cm_message rig_dreq(const struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_message message = rig_answer(endpoint, VB_CM_DREQ);

	message.transaction_id = 0x4444;
	message.dreq.remote_qpn = endpoint->local_qpn;
	return message;
}

void rig_listen(struct rig *rig, uint64_t service_id, uint32_t backlog)
{
	struct vb_cm_listen_params params = { .service_id = service_id,
					      .family = VB_CM_DUAL,
					      .backlog = backlog };

	assert_int_equal(vb_cm_listen(&rig->listener, &params), 0);
}

struct vb_cm_message rig_req(struct rig *rig, uint32_t id, uint32_t qpn)
{
	struct vb_cm_ip ip = { .src_port = 40001, .src = rig->peer, .dst = rig->own };
	struct vb_cm_message message = { .attribute = VB_CM_REQ, .transaction_id = 0x1111 + id };

	message.req.local_comm_id = id;
	message.req.service_id = RIG_SERVICE;
	message.req.ca_guid = RIG_PEER_GUID;
	message.req.qpn = qpn;
	message.req.responder_resources = 4;
	message.req.initiator_depth = 2;
	message.req.remote_cm_timeout = message.req.local_cm_timeout = 20;
	message.req.max_cm_retries = 15;
	message.req.starting_psn = 0xabcdef;
	message.req.retry_count = 7;
	message.req.rnr_retry_count = 6;
	message.req.pkey = 0xffff;
	message.req.mtu = IBV_MTU_1024;
	message.req.primary.local_gid = rig->peer;
	message.req.primary.remote_gid = rig->own;
	message.req.primary.ack_timeout = 19;
	vb_cm_ip_emit(&ip, message.req.private_data);
	memcpy(message.req.private_data + VB_CM_IP_SIZE, "hello", 5);
	return message;
}

/* --- shorter ways --- */

void rig_request_sent(struct rig *rig, struct vb_cm_endpoint *endpoint)
{
	rig_connect(rig, endpoint);
	rig_take(rig, VB_CM_REQ);
}

struct vb_cm_message rig_replied(struct rig *rig, struct vb_cm_endpoint *endpoint)
{
	struct vb_cm_message rep;

	rig_request_sent(rig, endpoint);
	rep = rig_rep(endpoint);
	rig_give(rig, &rep);
	rig_event(rig, endpoint, VB_CM_EVENT_REP_RECEIVED);
	return rep;
}

void rig_establish_active(struct rig *rig, struct vb_cm_endpoint *endpoint)
{
	(void)rig_replied(rig, endpoint);
	assert_int_equal(vb_cm_establish(endpoint, rig->now_ns), 0);
	rig_take(rig, VB_CM_RTU);
}

struct vb_cm_endpoint *rig_request(struct rig *rig)
{
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);

	if (rig->listener.state == VB_CM_IDLE)
		rig_listen(rig, RIG_SERVICE, 0);
	rig_give(rig, &req);
	return rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED).endpoint;
}

struct vb_cm_endpoint *rig_accepted(struct rig *rig)
{
	struct vb_cm_endpoint *endpoint = rig_request(rig);
	struct vb_cm_accept_params params = rig_accept_params();

	assert_int_equal(vb_cm_accept(endpoint, &params, rig->now_ns), 0);
	rig_take(rig, VB_CM_REP);
	return endpoint;
}

struct vb_cm_endpoint *rig_establish_passive(struct rig *rig)
{
	struct vb_cm_endpoint *endpoint = rig_accepted(rig);
	struct vb_cm_message rtu = rig_answer(endpoint, VB_CM_RTU);

	rig_give(rig, &rtu);
	rig_event(rig, endpoint, VB_CM_EVENT_ESTABLISHED);
	return endpoint;
}
