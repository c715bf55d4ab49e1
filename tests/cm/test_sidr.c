/* SPDX-License-Identifier: BSD-2-Clause */
/* Service id resolution. */
#include "rig.h"

static struct vb_cm_sidr_params sidr_params(struct rig *rig, const struct vb_cm_ip *ip)
{
	return (struct vb_cm_sidr_params){
		.route = rig->route,
		.service_id = RIG_SIDR,
		.ip = ip,
		.private_data = "who",
		.private_data_length = 3,
	};
}

static void sidr_asks_and_is_answered(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_ip ip = rig_ip(rig);
	struct vb_cm_sidr_params params = sidr_params(rig, &ip);
	struct vb_cm_message req, rep = { .attribute = VB_CM_SIDR_REP };
	struct rig_event event;
	uint8_t data[256] = { 0 };

	params.private_data = data;
	params.private_data_length = 181;
	assert_int_equal(vb_cm_sidr_request(&rig->a, &params, rig->now_ns), -EINVAL);
	params.private_data_length = 180;
	assert_int_equal(vb_cm_sidr_request(&rig->a, &params, rig->now_ns), 0);
	req = rig_take(rig, VB_CM_SIDR_REQ);
	assert_int_equal(req.sidr_req.request_id >> 20, RIG_SLOT);
	assert_int_equal(req.sidr_req.pkey, 0xffff);
	rig_wait(rig, 75 * MS);
	rig_take(rig, VB_CM_SIDR_REQ);
	rep.transaction_id = req.transaction_id;
	rep.sidr_rep.request_id = req.sidr_req.request_id;
	rep.sidr_rep.qpn = 0x99;
	rep.sidr_rep.qkey = 0x01234567;
	memcpy(rep.sidr_rep.private_data, "me", 2);
	rig_give(rig, &rep);
	event = rig_event(rig, &rig->a, VB_CM_EVENT_SIDR_REP_RECEIVED);
	assert_int_equal(event.event.sidr_status, VB_CM_SIDR_SUCCESS);
	assert_int_equal(event.event.sidr_qpn, 0x99);
	assert_int_equal(event.event.sidr_qkey, 0x01234567);
	assert_int_equal(event.event.private_data_size, 136);
	assert_memory_equal(event.private_data, "me\0", 3);
	rig_give(rig, &rep);
	rig_event_none(rig);
	rig_wait(rig, 10000 * MS);
	rig_take_none(rig);
}

static void sidr_is_given_up(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_ip ip = rig_ip(rig);
	struct vb_cm_sidr_params params = sidr_params(rig, &ip);

	assert_int_equal(vb_cm_sidr_request(&rig->a, &params, rig->now_ns), 0);
	rig_wait(rig, 80000 * MS);
	for (int i = 0; i < 16; i++)
		rig_take(rig, VB_CM_SIDR_REQ);
	rig_take_none(rig);
	assert_int_equal(rig_event(rig, &rig->a, VB_CM_EVENT_UNREACHABLE).event.status, -ETIMEDOUT);
}

static struct vb_cm_message sidr_req(struct rig *rig, uint32_t id)
{
	struct vb_cm_ip ip = { .src_port = 40001, .src = rig->peer, .dst = rig->own };
	struct vb_cm_message req = { .attribute = VB_CM_SIDR_REQ, .transaction_id = 0x2222 + id };

	req.sidr_req.request_id = id;
	req.sidr_req.pkey = 0xffff;
	req.sidr_req.service_id = RIG_SIDR;
	vb_cm_ip_emit(&ip, req.sidr_req.private_data);
	memcpy(req.sidr_req.private_data + VB_CM_IP_SIZE, "who", 3);
	return req;
}

static void sidr_answers(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = sidr_req(rig, RIG_PEER_ID), rep;
	struct vb_cm_sidr_reply_params reply = {
		.qpn = 0x99, .qkey = 0x01234567, .private_data = "me", .private_data_length = 2
	};
	struct rig_event event;

	rig_give(rig, &req);
	assert_int_equal(rig_take(rig, VB_CM_SIDR_REP).sidr_rep.status, VB_CM_SIDR_UNSUPPORTED);
	rig_listen(rig, RIG_SIDR, 0);
	rig_give(rig, &req);
	event = rig_event(rig, NULL, VB_CM_EVENT_SIDR_REQ_RECEIVED);
	assert_true(event.event.has_ip);
	assert_int_equal(event.event.private_data_size, 180);
	assert_memory_equal(event.private_data, "who\0", 4);
	rig_give(rig, &req);
	rig_event_none(rig);
	rig_take_none(rig);
	assert_int_equal(vb_cm_sidr_reply(event.endpoint, &reply, rig->now_ns), 0);
	rep = rig_take(rig, VB_CM_SIDR_REP);
	assert_int_equal(rep.sidr_rep.request_id, RIG_PEER_ID);
	assert_int_equal(rep.sidr_rep.service_id, RIG_SIDR);
	assert_int_equal(rep.sidr_rep.qpn, 0x99);
	assert_int_equal(rep.transaction_id, req.transaction_id);
	vb_cm_destroy(event.endpoint, rig->now_ns);
	/* The answer got lost, and again. */
	for (int i = 0; i < 3; i++) {
		rig_give(rig, &req);
		rep = rig_take(rig, VB_CM_SIDR_REP);
		assert_int_equal(rep.sidr_rep.qkey, 0x01234567);
		rig_event_none(rig);
		rig_wait(rig, 6443 * MS);
	}
}

static void sidr_that_nobody_wants_is_rejected(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = sidr_req(rig, RIG_PEER_ID), rep;

	rig_listen(rig, RIG_SIDR, 0);
	rig_give(rig, &req);
	vb_cm_destroy(rig_event(rig, NULL, VB_CM_EVENT_SIDR_REQ_RECEIVED).endpoint, rig->now_ns);
	rep = rig_take(rig, VB_CM_SIDR_REP);
	assert_int_equal(rep.sidr_rep.status, VB_CM_SIDR_REJECT);
	assert_int_equal(rep.sidr_rep.request_id, RIG_PEER_ID);
}

/* The same number may be a request id and a comm id of one peer. */
static void sidr_ids_are_numbers_of_their_own(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = sidr_req(rig, RIG_PEER_ID);
	struct vb_cm_listen_params params = { .service_id = RIG_SERVICE, .family = VB_CM_DUAL };
	struct vb_cm_message connect = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);

	rig_listen(rig, RIG_SIDR, 0);
	rig_give(rig, &req);
	rig_event(rig, NULL, VB_CM_EVENT_SIDR_REQ_RECEIVED);
	vb_cm_destroy(&rig->listener, rig->now_ns);
	vb_cm_endpoint_init(&rig->cm, &rig->listener);
	assert_int_equal(vb_cm_listen(&rig->listener, &params), 0);
	rig_give(rig, &connect);
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
	rig_take_none(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		rig_test(sidr_asks_and_is_answered),
		rig_test(sidr_is_given_up),
		rig_test(sidr_answers),
		rig_test(sidr_that_nobody_wants_is_rejected),
		rig_test(sidr_ids_are_numbers_of_their_own),
	};

	return rig_run(tests);
}
