/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths between InfiniBand ports: LIDs, requests without IP addresses, alternate paths. */
#include "rig.h"

enum { ALTERNATE_SL = 3 };

/* As the peer sees it: from its port to ours. */
static struct vb_cm_path path_from_peer(uint8_t sl)
{
	return (struct vb_cm_path){
		.local_lid = 2,
		.remote_lid = 1,
		.local_gid = rig_port_gid(2),
		.remote_gid = rig_port_gid(1),
		.sl = sl,
		.subnet_local = true,
		.ack_timeout = 19,
	};
}

static struct vb_cm_message request(struct rig *rig)
{
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);

	rig->infiniband = true;
	req.req.primary = path_from_peer(0);
	return req;
}

static void give_refused(struct rig *rig, const struct vb_cm_message *req, unsigned reason)
{
	rig_give(rig, req);
	rig_take_rej(rig, reason);
	rig_event_none(rig);
}

static void check_path(const struct vb_cm_path *path, uint8_t sl)
{
	const union ibv_gid local = rig_port_gid(2), remote = rig_port_gid(1);

	assert_int_equal(path->local_lid, 2);
	assert_int_equal(path->remote_lid, 1);
	assert_memory_equal(&path->local_gid, &local, sizeof(local));
	assert_memory_equal(&path->remote_gid, &remote, sizeof(remote));
	assert_int_equal(path->sl, sl);
	assert_true(path->subnet_local);
	assert_int_equal(path->ack_timeout, 19);
}

static void a_request_says_its_paths(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_ip ip = rig_ip(rig);
	struct vb_cm_connect_params params = rig_connect_params(rig, &ip);
	const struct vb_cm_path primary = path_from_peer(0),
				alternate = path_from_peer(ALTERNATE_SL);
	struct vb_cm_message req;

	params.primary = &primary;
	params.alternate = &alternate;
	assert_int_equal(vb_cm_connect(&rig->a, &params, rig->now_ns), 0);
	req = rig_take(rig, VB_CM_REQ);
	check_path(&req.req.primary, 0);
	check_path(&req.req.alternate, ALTERNATE_SL);
}

static void ports_are_known_by_their_lids(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message good = request(rig), bad = good;
	struct vb_cm_rej rej;

	rig_listen(rig, RIG_SERVICE, 0);
	bad.req.primary.local_lid = 7; /* not that of the sender */
	rig_give(rig, &bad);
	rig_take_none(rig);
	assert_int_equal(rig->cm.counters.drops[VB_CM_DROP_ADDRESS], 1);
	bad = good;
	bad.req.primary.remote_lid = 7;
	rig_give(rig, &bad);
	rej = rig_take(rig, VB_CM_REJ).rej;
	assert_int_equal(rej.reason, VB_CM_REJ_INVALID_LID);
	assert_int_equal(rej.info_length, 2);
	assert_int_equal(rej.info[0] << 8 | rej.info[1], 1); /* the right one */
	bad = good;
	bad.req.primary.remote_gid = rig_port_gid(7);
	give_refused(rig, &bad, VB_CM_REJ_INVALID_GID);
	bad = good;
	bad.req.alternate = path_from_peer(ALTERNATE_SL);
	bad.req.alternate.remote_lid = 7;
	give_refused(rig, &bad, VB_CM_REJ_INVALID_ALT_LID);
	rig_give(rig, &good);
	rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
}

static void without_a_port_lids_mean_nothing(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = request(rig);

	rig->infiniband = false;
	rig_listen(rig, RIG_SERVICE, 0);
	rig_give(rig, &req);
	rig_take_none(rig);
	rig_event_none(rig);
}

/* Data that begin like a header with other addresses are data. */
static void a_port_is_enough_of_an_address(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = request(rig);
	struct vb_cm_ip no_ip = { .src = rig_gid4(1, 2, 3, 4), .dst = rig_gid4(5, 6, 7, 8) };
	const struct vb_cm_listen_params params = { .service_id = RIG_SERVICE,
						    .family = VB_CM_IPV6,
						    .address = rig_port_gid(1) };
	struct rig_event event;

	assert_int_equal(vb_cm_listen(&rig->listener, &params), 0);
	vb_cm_ip_emit(&no_ip, req.req.private_data);
	rig_give(rig, &req);
	event = rig_event(rig, NULL, VB_CM_EVENT_REQ_RECEIVED);
	assert_false(event.event.has_ip);
	assert_int_equal(event.event.private_data_size, VB_CM_REQ_DATA_SIZE);
	assert_memory_equal(event.private_data, req.req.private_data, VB_CM_REQ_DATA_SIZE);
}

static void roce_needs_ip_addresses(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_message req = rig_req(rig, RIG_PEER_ID, RIG_PEER_QPN);

	rig->infiniband = true;
	rig_listen(rig, RIG_SERVICE, 0);
	memset(req.req.private_data, 0, sizeof(req.req.private_data));
	rig_give(rig, &req);
	rig_take_none(rig);
	rig_event_none(rig);
}

/* --- LAP --- */

static struct vb_cm_message lap_for(const struct vb_cm_endpoint *endpoint, uint64_t transaction_id)
{
	struct vb_cm_message lap = rig_answer(endpoint, VB_CM_LAP);

	lap.transaction_id = transaction_id;
	lap.lap.alternate = path_from_peer(ALTERNATE_SL);
	return lap;
}

static struct vb_cm_endpoint *establish(struct rig *rig)
{
	struct vb_cm_message req = request(rig), rtu;
	struct vb_cm_accept_params params = rig_accept_params();
	struct vb_cm_endpoint *endpoint = &rig->incoming[0];

	rig_listen(rig, RIG_SERVICE, 0);
	rig_give(rig, &req);
	rig_event(rig, endpoint, VB_CM_EVENT_REQ_RECEIVED);
	assert_int_equal(vb_cm_accept(endpoint, &params, rig->now_ns), 0);
	rig_take(rig, VB_CM_REP);
	rtu = rig_answer(endpoint, VB_CM_RTU);
	rig_give(rig, &rtu);
	rig_event(rig, endpoint, VB_CM_EVENT_ESTABLISHED);
	return endpoint;
}

static void a_lap_is_answered_when_the_path_is_loaded(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = establish(rig);
	struct vb_cm_message lap = lap_for(endpoint, 77), apr;

	rig_give(rig, &lap);
	rig_event(rig, endpoint, VB_CM_EVENT_LAP_RECEIVED);
	rig_give(rig, &lap); /* it is thought about */
	rig_event_none(rig);
	rig_take_none(rig);
	assert_int_equal(vb_cm_lap_answer(endpoint, VB_CM_APR_SUCCESS, rig->now_ns), 0);
	apr = rig_take(rig, VB_CM_APR);
	assert_int_equal(apr.apr.status, VB_CM_APR_SUCCESS);
	assert_int_equal(apr.transaction_id, 77);
	assert_int_equal(apr.apr.remote_comm_id, RIG_PEER_ID);
	assert_int_equal(vb_cm_lap_answer(endpoint, VB_CM_APR_REJECT, rig->now_ns), -EINVAL);
	rig_give(rig, &lap); /* the APR was lost */
	assert_int_equal(rig_take(rig, VB_CM_APR).apr.status, VB_CM_APR_SUCCESS);
	rig_event_none(rig);
	lap.transaction_id++;
	rig_give(rig, &lap);
	rig_event(rig, endpoint, VB_CM_EVENT_LAP_RECEIVED);
	assert_int_equal(vb_cm_lap_answer(endpoint, VB_CM_APR_REJECT, rig->now_ns), 0);
	assert_int_equal(rig_take(rig, VB_CM_APR).apr.status, VB_CM_APR_REJECT);
}

static void a_lap_for_another_port_is_refused(void **state)
{
	struct rig *rig = *state;
	struct vb_cm_endpoint *endpoint = establish(rig);
	struct vb_cm_message lap = lap_for(endpoint, 77);

	lap.lap.alternate.local_lid = 7;
	rig_give(rig, &lap);
	assert_int_equal(rig_take(rig, VB_CM_APR).apr.status, VB_CM_APR_INVALID_LID);
	lap = lap_for(endpoint, 78);
	lap.lap.remote_qpn = RIG_QPN + 1;
	rig_give(rig, &lap);
	assert_int_equal(rig_take(rig, VB_CM_APR).apr.status, VB_CM_APR_INVALID_QPN);
	rig_event_none(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		rig_test(a_request_says_its_paths),
		rig_test(ports_are_known_by_their_lids),
		rig_test(without_a_port_lids_mean_nothing),
		rig_test(a_port_is_enough_of_an_address),
		rig_test(roce_needs_ip_addresses),
		rig_test(a_lap_is_answered_when_the_path_is_loaded),
		rig_test(a_lap_for_another_port_is_refused),
	};

	return rig_run(tests);
}
