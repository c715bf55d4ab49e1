/* SPDX-License-Identifier: BSD-2-Clause */
/* The active side against a peer that is played by hand. */
#include "rig.h"

static void req_says_what_linux_says(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message message;
	struct vb_cm_ip ip;

	rig_connect(rig, &rig->a);
	message = rig_take(rig, VB_CM_REQ);
	assert_int_equal(message.req.local_comm_id >> 20, RIG_SLOT);
	assert_int_equal(message.req.local_comm_id, rig->a.local_id);
	assert_int_equal(message.req.service_id, RIG_SERVICE);
	assert_int_equal(message.req.ca_guid, RIG_GUID);
	assert_int_equal(message.req.qpn, RIG_QPN);
	assert_int_equal(message.req.responder_resources, 4);
	assert_int_equal(message.req.initiator_depth, 2);
	assert_int_equal(message.req.remote_cm_timeout, 20);
	assert_int_equal(message.req.local_cm_timeout, 20);
	assert_int_equal(message.req.max_cm_retries, 15);
	assert_int_equal(message.req.starting_psn, rig->a.rq_psn);
	assert_int_equal(message.req.retry_count, 7);
	assert_int_equal(message.req.rnr_retry_count, 6);
	assert_int_equal(message.req.pkey, 0xffff);
	assert_int_equal(message.req.mtu, IBV_MTU_1024);
	assert_int_equal(message.req.transport, VB_CM_TRANSPORT_RC);
	assert_int_equal(message.req.primary.local_lid, 0xffff);
	assert_int_equal(message.req.primary.remote_lid, 0xffff);
	assert_memory_equal(&message.req.primary.local_gid, &rig->own, 16);
	assert_memory_equal(&message.req.primary.remote_gid, &rig->peer, 16);
	assert_int_equal(message.req.primary.hop_limit, 64);
	assert_int_equal(message.req.primary.packet_rate, 0);
	assert_int_equal(message.req.primary.ack_timeout, 19);
	assert_int_equal(vb_cm_ip_parse(message.req.private_data, &ip), 0);
	assert_memory_equal(&ip.src, &rig->own, 16);
	assert_memory_equal(message.req.private_data + VB_CM_IP_SIZE, "hello\0", 6);
}

/* 50 ms, then twice as long each time, up to 4.3 s, and up to half of it more; 15 times. */
static void req_is_resent_and_given_up(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message first, again;
	uint64_t after_ns = 50 * MS, begin_ns = rig->now_ns, at_ns = begin_ns;

	rig_connect(rig, &rig->a);
	first = rig_take(rig, VB_CM_REQ);
	rig_wait(rig, 80000 * MS);
	for (int i = 0; i < 15; i++) {
		struct rig_sent sent = rig_take_sent(rig, VB_CM_REQ);

		again = sent.message;
		assert_memory_equal(&again, &first, sizeof(first));
		assert_in_range(sent.at_ns - at_ns, after_ns, after_ns + after_ns / 2);
		at_ns = sent.at_ns;
		after_ns = after_ns * 2 < 4096ull << 20 ? after_ns * 2 : 4096ull << 20;
	}
	rig_take_rej(rig, VB_CM_REJ_TIMEOUT);
	assert_int_equal(rig_event(rig, &rig->a, VB_CM_EVENT_UNREACHABLE).event.status, -ETIMEDOUT);
	rig_event_none(rig);
	assert_int_equal(rig->a.state, VB_CM_IDLE);
	/* As patient as Linux says it is, in the order of magnitude. */
	assert_in_range((at_ns - begin_ns) / MS, 30000, 80000);
}

static void rep_is_turned_round(void **state)
{
	struct rig *rig = *state;
	struct rig_event event;
	struct vb_cm_message rep, rtu;

	rig_request_sent(rig, &rig->a);
	rep = rig_rep(&rig->a);
	rig_give(rig, &rep);
	event = rig_event(rig, &rig->a, VB_CM_EVENT_REP_RECEIVED);
	assert_int_equal(event.event.peer.qpn, RIG_PEER_QPN);
	assert_int_equal(event.event.peer.sq_psn, 0xabcdef);
	assert_int_equal(event.event.peer.responder_resources, 1);
	assert_int_equal(event.event.peer.initiator_depth, 3);
	assert_int_equal(event.event.peer.rnr_retry_count, 5);
	assert_int_equal(event.event.private_data_size, 196);
	assert_memory_equal(event.private_data, "welcome\0", 8);
	rig_take_none(rig);
	assert_int_equal(vb_cm_establish(&rig->a, rig->now_ns), 0);
	rtu = rig_take(rig, VB_CM_RTU);
	assert_int_equal(rtu.rtu.local_comm_id, rig->a.local_id);
	assert_int_equal(rtu.rtu.remote_comm_id, RIG_PEER_ID);
	assert_int_equal(rtu.transaction_id, rep.transaction_id);
	rig_wait(rig, 100000 * MS);
	rig_take_none(rig);
	rig_event_none(rig);
}

static void rep_again_while_the_qp_is_readied_gets_an_mra(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rep, mra;

	rep = rig_replied(rig, &rig->a);
	rig_give(rig, &rep);
	mra = rig_take(rig, VB_CM_MRA);
	assert_int_equal(mra.mra.answers, VB_CM_ANSWERS_REP);
	assert_int_equal(mra.mra.service_timeout, 24);
	rig_event_none(rig);
}

static void rep_again_when_established_gets_the_rtu_again(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rep;

	rig_establish_active(rig, &rig->a);
	rep = rig_rep(&rig->a);
	rig_give(rig, &rep);
	rig_take(rig, VB_CM_RTU);
	rig_take_none(rig);
	rig_event_none(rig);
	assert_int_equal(rig->cm.counters.duplicates[VB_CM_REP - VB_CM_REQ], 1);
}

/* A peer that was told to wait does not say REP again when the RTU gets lost. */
static void an_rtu_after_an_mra_is_repeated(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rep = rig_replied(rig, &rig->a);

	rig_give(rig, &rep);
	rig_take(rig, VB_CM_MRA);
	assert_int_equal(vb_cm_establish(&rig->a, rig->now_ns), 0);
	rig_take(rig, VB_CM_RTU);
	rig_take_none(rig);
	rig_wait(rig, 3000 * MS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_take(rig, VB_CM_RTU).rtu.remote_comm_id, RIG_PEER_ID);
	rig_wait(rig, 100000 * MS);
	rig_take_none(rig);
	rig_event_none(rig);
	rig_give(rig, &rep);
	rig_take(rig, VB_CM_RTU);
}

static void mra_gives_the_peer_time(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message mra;

	rig_request_sent(rig, &rig->a);
	mra = rig_answer(&rig->a, VB_CM_MRA);
	mra.mra.answers = VB_CM_ANSWERS_REQ;
	mra.mra.service_timeout = 24;
	rig_give(rig, &mra);
	rig_wait(rig, 68000 * MS);
	rig_take_none(rig);
	rig_wait(rig, 6000 * MS);
	rig_take(rig, VB_CM_REQ);
}

static void an_endless_mra_is_not_believed(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message mra;

	rig_request_sent(rig, &rig->a);
	mra = rig_answer(&rig->a, VB_CM_MRA);
	mra.mra.service_timeout = 31;
	rig_give(rig, &mra);
	rig_wait(rig, 75000 * MS);
	rig_take(rig, VB_CM_REQ);
}

static void rej_names_our_id_only(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rej;
	struct rig_event event;

	rig_request_sent(rig, &rig->a);
	rej = rig_answer(&rig->a, VB_CM_REJ);
	rej.rej.local_comm_id = 0;
	rej.rej.answers = VB_CM_ANSWERS_REQ;
	rej.rej.reason = VB_CM_REJ_CONSUMER;
	memcpy(rej.rej.private_data, "no", 2);
	rig_give(rig, &rej);
	event = rig_event(rig, &rig->a, VB_CM_EVENT_REJECTED);
	assert_int_equal(event.event.reason, 28);
	assert_int_equal(event.event.private_data_size, 148);
	assert_memory_equal(event.private_data, "no\0", 3);
	rig_give(rig, &rej);
	rig_event_none(rig);
	assert_int_equal(rig->a.state, VB_CM_IDLE);
	/* It can be used again. */
	rig_request_sent(rig, &rig->a);
}

/* The peer holds a connection of a process that died: once it has let go, the next REQ works. */
static void stale_is_tried_again_with_another_id(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rej;

	rig_connect(rig, &rig->a);
	for (int i = 0; i < 4; i++) {
		uint32_t id = rig_take(rig, VB_CM_REQ).req.local_comm_id;

		rej = rig_answer(&rig->a, VB_CM_REJ);
		rej.rej.local_comm_id = 0;
		rej.rej.reason = VB_CM_REJ_STALE;
		rig_give(rig, &rej);
		if (i == 3)
			break;
		rig_event_none(rig);
		rig_take_none(rig);
		assert_int_not_equal(rig->a.local_id, id);
		rig_wait(rig, 50 * MS << i);
	}
	assert_int_equal(rig_event(rig, &rig->a, VB_CM_EVENT_REJECTED).event.reason, 10);
	rig_take_none(rig);
}

/* The peer's process died and came back in the same slot: the new connection wins. */
static void rep_of_a_qp_that_we_hold_ends_the_old_connection(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rep;

	rig_establish_active(rig, &rig->a);
	rig_connect(rig, &rig->b);
	rig_take(rig, VB_CM_REQ);
	rep = rig_rep(&rig->b);
	rep.rep.local_comm_id = RIG_PEER_ID + 1;
	rig_give(rig, &rep);
	assert_int_equal(rig_take(rig, VB_CM_DREQ).dreq.local_comm_id, rig->a.local_id);
	rig_event(rig, &rig->b, VB_CM_EVENT_REP_RECEIVED);
	rig_event_none(rig);
	rep = rig_answer(&rig->a, VB_CM_DREP);
	rig_give(rig, &rep);
	rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	assert_int_equal(vb_cm_establish(&rig->b, rig->now_ns), 0);
	rig_take(rig, VB_CM_RTU);
}

static void refused_while_the_qp_is_readied(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rej;

	rig_replied(rig, &rig->a);
	rej = rig_answer(&rig->a, VB_CM_REJ);
	rej.rej.answers = VB_CM_ANSWERS_OTHER;
	rej.rej.reason = VB_CM_REJ_CONSUMER;
	rig_give(rig, &rej);
	rig_event(rig, &rig->a, VB_CM_EVENT_REJECTED);
	assert_int_equal(vb_cm_establish(&rig->a, rig->now_ns), -ENOTCONN);
	rig_take_none(rig);
}

/* The peer took data for the RTU, and is done already. */
static void disconnected_while_the_qp_is_readied(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message dreq;

	rig_replied(rig, &rig->a);
	dreq = rig_dreq(&rig->a);
	rig_give(rig, &dreq);
	rig_take_none(rig);
	rig_event(rig, &rig->a, VB_CM_EVENT_DISCONNECTED);
	assert_int_equal(vb_cm_establish(&rig->a, rig->now_ns), 0);
	rig_take_none(rig);
	assert_int_equal(vb_cm_disconnect(&rig->a, rig->now_ns), 0);
	rig_take(rig, VB_CM_DREP);
	rig_wait(rig, 500 * MS);
	rig_event(rig, &rig->a, VB_CM_EVENT_TIMEWAIT_EXIT);
	assert_int_equal(vb_cm_establish(&rig->a, rig->now_ns), 0);
}

static void a_rep_that_is_rejected_stays_rejected(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rep, rej;

	rep = rig_replied(rig, &rig->a);
	assert_int_equal(vb_cm_reject(&rig->a, VB_CM_REJ_CONSUMER, NULL, 0, "x", 1, rig->now_ns),
			 0);
	rej = rig_take(rig, VB_CM_REJ);
	assert_int_equal(rej.rej.answers, VB_CM_ANSWERS_REP);
	vb_cm_destroy(&rig->a, rig->now_ns);
	rig_give(rig, &rep);
	rej = rig_take(rig, VB_CM_REJ);
	assert_int_equal(rej.rej.private_data[0], 'x');
}

static void limits_are_enforced(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_ip ip = rig_ip(rig);
	struct vb_cm_connect_params good = rig_connect_params(rig, &ip), bad;
	uint8_t data[256] = { 0 };

	good.private_data = data;
	bad = good;
	bad.private_data_length = 57;
	assert_int_equal(vb_cm_connect(&rig->a, &bad, rig->now_ns), -EINVAL);
	bad = good;
	bad.ip = NULL;
	bad.private_data_length = 93;
	assert_int_equal(vb_cm_connect(&rig->a, &bad, rig->now_ns), -EINVAL);
	bad = good;
	bad.retry_count = 8;
	assert_int_equal(vb_cm_connect(&rig->a, &bad, rig->now_ns), -EINVAL);
	bad = good;
	bad.qp_type = IBV_QPT_UD;
	assert_int_equal(vb_cm_connect(&rig->a, &bad, rig->now_ns), -EINVAL);
	rig_take_none(rig);
	assert_int_equal(rig->cm.endpoint_count, 0);
	good.private_data_length = 56;
	assert_int_equal(vb_cm_connect(&rig->a, &good, rig->now_ns), 0);
	rig_take(rig, VB_CM_REQ);
	assert_int_equal(vb_cm_connect(&rig->a, &good, rig->now_ns), -EINVAL);
	assert_int_equal(vb_cm_establish(&rig->a, rig->now_ns), -EINVAL);
	assert_int_equal(vb_cm_disconnect(&rig->a, rig->now_ns), -EINVAL);
}

static void xrc_puts_its_qpn_elsewhere(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_connect_params params = rig_connect_params(rig, NULL);
	struct vb_cm_message req, rep;

	params.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(vb_cm_connect(&rig->a, &params, rig->now_ns), 0);
	req = rig_take(rig, VB_CM_REQ);
	assert_int_equal(req.req.transport, VB_CM_TRANSPORT_EXTENDED);
	assert_int_equal(req.req.extended_transport, VB_CM_EXTENDED_XRC);
	rep = rig_rep(&rig->a);
	rep.rep.qpn = 0;
	rep.rep.eecn = RIG_PEER_QPN;
	rig_give(rig, &rep);
	assert_int_equal(rig_event(rig, &rig->a, VB_CM_EVENT_REP_RECEIVED).event.peer.qpn,
			 RIG_PEER_QPN);
}

/* Ids and PSNs of one endpoint after another do not follow each other. */
static void numbers_are_unpredictable(void **state)
{
	struct rig *rig = *state;
	uint32_t ids[64], psns[64];
	unsigned close = 0;

	for (int i = 0; i < 64; i++) {
		rig_connect(rig, &rig->a);
		ids[i] = rig_take(rig, VB_CM_REQ).req.local_comm_id;
		psns[i] = rig->a.rq_psn;
		for (int k = 0; k < i; k++) {
			assert_int_not_equal(ids[i], ids[k]);
			close += ids[i] - ids[k] + 16 < 32;
			close += psns[i] - psns[k] + 16 < 32;
		}
		vb_cm_forget(&rig->a);
	}
	assert_in_range(close, 0, 4);
}

static void destroyed_before_an_answer_says_timeout(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message rej, rep;

	rig_request_sent(rig, &rig->a);
	rep = rig_rep(&rig->a);
	vb_cm_destroy(&rig->a, rig->now_ns);
	rej = rig_take(rig, VB_CM_REJ);
	assert_int_equal(rej.rej.reason, VB_CM_REJ_TIMEOUT);
	assert_int_equal(rej.rej.remote_comm_id, 0);
	assert_int_equal(rej.rej.local_comm_id, rep.rep.remote_comm_id);
	assert_int_equal(rej.rej.info_length, 8);
	assert_int_equal(rej.rej.info[0] << 8 | rej.rej.info[1], RIG_GUID >> 48);
	/* A REP that was on its way belongs to nobody. */
	rig_give(rig, &rep);
	rig_take_rej(rig, VB_CM_REJ_INVALID_COMM_ID);
	rig_event_none(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		rig_test(req_says_what_linux_says),
		rig_test(req_is_resent_and_given_up),
		rig_test(rep_is_turned_round),
		rig_test(rep_again_while_the_qp_is_readied_gets_an_mra),
		rig_test(rep_again_when_established_gets_the_rtu_again),
		rig_test(an_rtu_after_an_mra_is_repeated),
		rig_test(mra_gives_the_peer_time),
		rig_test(an_endless_mra_is_not_believed),
		rig_test(rej_names_our_id_only),
		rig_test(stale_is_tried_again_with_another_id),
		rig_test(rep_of_a_qp_that_we_hold_ends_the_old_connection),
		rig_test(refused_while_the_qp_is_readied),
		rig_test(disconnected_while_the_qp_is_readied),
		rig_test(a_rep_that_is_rejected_stays_rejected),
		rig_test(limits_are_enforced),
		rig_test(xrc_puts_its_qpn_elsewhere),
		rig_test(numbers_are_unpredictable),
		rig_test(destroyed_before_an_answer_says_timeout),
	};

	return rig_run(tests);
}
