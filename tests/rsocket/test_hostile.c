/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that knows the protocol and breaks it. It ends its own connection, with an error for
 * the program, and touches nobody else.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "pair.h"
#include "rsocket/proto.h"

/* The peer: a synchronous connection that speaks for itself. */
struct peer {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t memory[8192];      /* its SGL and its buffer */
	struct vb_rs_conn rsocket; /* what the other side said */
};

static void peer_describe(struct peer *peer, uint8_t bytes[VB_RS_CONN_SIZE])
{
	const struct vb_rs_conn conn = {
		.credits = 16,
		.sgl = { (uintptr_t)peer->memory, peer->mr->rkey, VB_RS_SGL_COUNT },
		.data = { (uintptr_t)peer->memory + 4096, peer->mr->rkey, 4096 },
	};

	vb_rs_conn_emit(&conn, bytes);
}

static void peer_prepare(struct peer *peer, const struct pair *pair)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 64,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	memset(peer, 0, sizeof(*peer));
	assert_int_equal(rdma_create_id(NULL, &peer->id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(peer->id, NULL, (void *)&pair->addr, 2000), 0);
	assert_int_equal(rdma_resolve_route(peer->id, 2000), 0);
	assert_int_equal(rdma_create_qp(peer->id, NULL, &attr), 0);
	peer->mr = rdma_reg_write(peer->id, peer->memory, sizeof(peer->memory));
	assert_non_null(peer->mr);
	for (int i = 0; i < 64; i++)
		assert_int_equal(rdma_post_recvv(peer->id, NULL, NULL, 0), 0);
}

static int peer_connect(struct peer *peer, const uint8_t *private_data, uint8_t size)
{
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = size,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	return rdma_connect(peer->id, &param);
}

static void peer_open(struct peer *peer, const struct pair *pair)
{
	const struct rdma_conn_param *answer;
	uint8_t bytes[VB_RS_CONN_SIZE];

	peer_prepare(peer, pair);
	peer_describe(peer, bytes);
	assert_int_equal(peer_connect(peer, bytes, sizeof(bytes)), 0);
	answer = &peer->id->event->param.conn;
	assert_int_equal(
		vb_rs_conn_parse(answer->private_data, answer->private_data_len, &peer->rsocket),
		0);
}

static void peer_destroy(struct peer *peer)
{
	rdma_destroy_qp(peer->id);
	rdma_dereg_mr(peer->mr);
	assert_int_equal(rdma_destroy_id(peer->id), 0);
}

static void peer_close(struct peer *peer)
{
	rdma_disconnect(peer->id);
	peer_destroy(peer);
}

static void peer_write(struct peer *peer, const void *bytes, uint32_t size, uint64_t addr,
		       uint32_t key, uint32_t message)
{
	struct ibv_sge sge = { (uintptr_t)peer->memory + 2048, size, peer->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = size ? 1 : 0,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(message),
		.wr.rdma = { addr, key },
	};
	struct ibv_send_wr *bad;

	memcpy(peer->memory + 2048, bytes, size);
	assert_int_equal(ibv_post_send(peer->id->qp, &wr, &bad), 0);
}

static void peer_say(struct peer *peer, enum vb_rs_op op, uint32_t operand)
{
	peer_write(peer, "", 0, 0, 0, vb_rs_message(op, operand));
}

static void good_data(struct peer *peer)
{
	peer_write(peer, "good", 4, peer->rsocket.data.addr, peer->rsocket.data.key,
		   vb_rs_message(VB_RS_DATA, 4));
}

static void more_data_than_granted(struct peer *peer)
{
	peer_say(peer, VB_RS_DATA, peer->rsocket.data.length * 2 + 1);
}

static void most_data(struct peer *peer)
{
	peer_say(peer, VB_RS_DATA, VB_RS_MESSAGE_MAX);
}

static void credits_for_nothing(struct peer *peer)
{
	peer_say(peer, VB_RS_SGL, 17);
}

static void fewer_credits(struct peer *peer)
{
	peer_say(peer, VB_RS_SGL, 3);
}

static void a_mapping_that_is_not_there(struct peer *peer)
{
	peer_say(peer, VB_RS_IOMAP, 0);
}

static void a_reserved_message(struct peer *peer)
{
	peer_say(peer, 5, 0);
}

static void a_message_without_immediate(struct peer *peer)
{
	assert_int_equal(rdma_post_send(peer->id, NULL, peer->memory, 0, peer->mr, 0), 0);
}

static void a_window_that_was_not_used_up(struct peer *peer)
{
	const struct vb_rs_sge window = { (uintptr_t)peer->memory, peer->mr->rkey, 100 };
	uint8_t bytes[2 * VB_RS_SGE_SIZE];

	vb_rs_sge_emit(&window, vb_rs_host_big_endian(), bytes);
	vb_rs_sge_emit(&window, vb_rs_host_big_endian(), bytes + VB_RS_SGE_SIZE);
	peer_write(peer, bytes, sizeof(bytes), peer->rsocket.sgl.addr, peer->rsocket.sgl.key,
		   vb_rs_message(VB_RS_SGL, 16));
	peer_say(peer, VB_RS_SGL, 16);
}

static void a_write_outside_of_the_buffer(struct peer *peer)
{
	peer_write(peer, "x", 1, peer->rsocket.data.addr - 1, peer->rsocket.data.key,
		   vb_rs_message(VB_RS_DATA, 1));
}

static const struct {
	void (*sin)(struct peer *peer);
	int error;
} rows[] = {
	{ more_data_than_granted, EPROTO },
	{ most_data, EPROTO },
	{ credits_for_nothing, EPROTO },
	{ fewer_credits, EPROTO },
	{ a_mapping_that_is_not_there, EPROTO },
	{ a_reserved_message, EPROTO },
	{ a_message_without_immediate, EPROTO },
	{ a_window_that_was_not_used_up, EPROTO },
	{ a_write_outside_of_the_buffer, ECONNRESET },
};

static void a_peer_that_lies_loses_its_connection_only(void **state)
{
	struct pair good;
	uint8_t bytes[8];

	pair_open(&good, NULL);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct peer peer;
		int fd;

		peer_open(&peer, &good);
		fd = raccept(good.listener, NULL, NULL);
		assert_true(fd >= 0);
		good_data(&peer);
		assert_int_equal(rrecv(fd, bytes, sizeof(bytes), 0), 4);
		assert_memory_equal(bytes, "good", 4);
		rows[i].sin(&peer);
		assert_errno(rrecv(fd, bytes, sizeof(bytes), 0), rows[i].error);
		assert_int_equal(rrecv(fd, bytes, sizeof(bytes), 0), 0); /* told once */
		assert_int_equal(rsend(fd, "x", 1, MSG_NOSIGNAL), -1);
		assert_int_equal(rclose(fd), 0);
		peer_close(&peer);
		send_all(good.client, 1000);
		receive_all(good.server, 1000);
	}
	pair_close(&good);
}

static void a_window_with_a_wrong_key_breaks_the_connection(void **state)
{
	struct pair good;
	struct peer peer;
	uint8_t bytes[VB_RS_CONN_SIZE];
	int fd;

	make_listener(&good, AF_INET, NULL);
	peer_prepare(&peer, &good);
	peer_describe(&peer, bytes);
	bytes[35] ^= 0x55; /* the key of the data buffer */
	assert_int_equal(peer_connect(&peer, bytes, sizeof(bytes)), 0);
	fd = raccept(good.listener, NULL, NULL);
	assert_int_equal(rsend(fd, "x", 1, 0), 1);
	assert_errno(rrecv(fd, bytes, 1, 0), ECONNRESET);
	assert_int_equal(rclose(fd), 0);
	peer_close(&peer);
	assert_int_equal(rclose(good.listener), 0);
}

static void private_data_of_something_else_is_refused(void **state)
{
	const uint8_t nonsense[VB_RS_CONN_SIZE] = { 9 };
	struct pair good;
	struct peer peer;

	make_listener(&good, AF_INET, NULL);
	for (int i = 0; i < 2; i++) {
		peer_prepare(&peer, &good);
		assert_errno(peer_connect(&peer, nonsense, i ? 0 : sizeof(nonsense)), ECONNREFUSED);
		peer_destroy(&peer);
	}
	assert_int_equal(rclose(good.listener), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_that_lies_loses_its_connection_only),
		cmocka_unit_test(a_window_with_a_wrong_key_breaks_the_connection),
		cmocka_unit_test(private_data_of_something_else_is_refused),
	};

	return cmocka_run_group_tests_name("rsocket hostile peers", tests, NULL, NULL);
}
