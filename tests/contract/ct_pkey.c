/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Partitions: the P_Key table, which members may talk, what is counted, and a table that changes.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ct.h"

static const uint64_t TARGET = 4 << 20;

enum { DEFAULT, FULL, LIMITED, OTHER, KEYS }; /* indexes of this table: */
static const uint16_t keys[KEYS] = { 0xffff, 0x8001, 0x0001, 0x8002 };

static void with_keys(void)
{
	setenv("VERBENA_PKEYS", "0xffff,0x8001, 0x0001,0x8002", 1);
}

/* ---- links in partitions --------------------------------------------------------------------- */

static void init_with(const struct ct_qp *qp, uint16_t index)
{
	struct ibv_qp_attr attr;
	int mask = ct_attr_init(qp, &attr);

	attr.pkey_index = index;
	CT_EQ(ct_modify_qp(qp, &attr, mask), 0);
}

static void connect_with(struct ct_link *l, uint16_t index_a, uint16_t index_b)
{
	init_with(&l->a, index_a);
	init_with(&l->b, index_b);
	ct_rtr(&l->a, &l->b, &l->o);
	ct_rtr(&l->b, &l->a, &l->o);
	ct_rts(&l->a, &l->o);
	ct_rts(&l->b, &l->o);
}

static void open_with(struct ct *t, struct ct_link *l, uint16_t index_a, uint16_t index_b)
{
	ct_link_create(t, l, NULL);
	connect_with(l, index_a, index_b);
}

static void open_impatient(struct ct *t, struct ct_link *l, uint16_t index_a, uint16_t index_b)
{
	struct ct_opts o = ct_defaults(t);

	o.timeout = 12; /* 16.8 ms, three times */
	o.retry_cnt = 2;
	ct_link_create(t, l, &o);
	connect_with(l, index_a, index_b);
}

static struct ibv_port_attr port_of(struct ct_end *near)
{
	struct ibv_port_attr port;

	CT_EQ(ibv_query_port(ct_context(near), 1, &port), 0);
	return port;
}

/* A packet is still on its way when an unreliable send has completed. */
static void await_count(struct ct_end *near, bool qkey, uint32_t least)
{
	const double until_s = ct_now_s() + CT_DEADLINE_MS / 1e3;
	struct ibv_port_attr port;

	for (;;) {
		port = port_of(near);
		if ((qkey ? port.qkey_viol_cntr : port.bad_pkey_cntr) >= least)
			return;
		if (ct_now_s() > until_s)
			ct_fail("bad_pkey_cntr %u, qkey_viol_cntr %u: less than %u",
				port.bad_pkey_cntr, port.qkey_viol_cntr, least);
		usleep(100); /* between two looks */
	}
}

/* ---- the table ------------------------------------------------------------------------------- */

static void table_has_the_keys(struct ct *t)
{
	struct ibv_context *ctx = ct_context(t->near);
	__be16 key;

	CT_EQ(t->near->port.pkey_tbl_len, KEYS);
	CT_EQ(t->near->attr.max_pkeys, KEYS);
	for (int i = 0; i < KEYS; i++) {
		CT_EQ(ibv_query_pkey(ctx, 1, i, &key), 0);
		CT_EQ(ntohs(key), keys[i]);
		CT_EQ(ibv_get_pkey_index(ctx, 1, key), i);
	}
	CT_EQ(ibv_query_pkey(ctx, 1, KEYS, &key), -1);
	CT_EQ(ibv_query_pkey(ctx, 1, -1, &key), -1);
	CT_EQ(ibv_get_pkey_index(ctx, 1, htons(0x7fff)), -1);
	CT_EQ(ibv_get_pkey_index(ctx, 1, 0), -1);
}

static void default_is_one_key(struct ct *t)
{
	__be16 key;

	CT_EQ(t->near->port.pkey_tbl_len, 1);
	CT_EQ(ibv_query_pkey(ct_context(t->near), 1, 0, &key), 0);
	CT_EQ(ntohs(key), 0xffff);
}

static void index_outside_of_the_table(struct ct *t)
{
	struct ibv_qp_attr attr;
	struct ct_link l;
	int mask;

	ct_link_create(t, &l, NULL);
	mask = ct_attr_init(&l.a, &attr);
	attr.pkey_index = KEYS;
	CT_EQ(ct_modify_qp(&l.a, &attr, mask), EINVAL);
	CT_EQ(ct_qp_state(&l.a), IBV_QPS_RESET);
	connect_with(&l, OTHER, OTHER);
	CT_EQ(ct_query_qp(&l.a, &attr, NULL), 0);
	CT_EQ(attr.pkey_index, OTHER);
	ct_usable(&l);
}

/* ---- who may talk ---------------------------------------------------------------------------- */

static void members_talk(struct ct *t)
{
	static const uint16_t pairs[][2] = { { FULL, FULL }, { FULL, LIMITED }, { LIMITED, FULL } };
	struct ct_link l, back;

	for (int i = 0; i < CT_COUNT(pairs); i++) {
		open_with(t, &l, pairs[i][0], pairs[i][1]);
		back = ct_reverse(&l);
		ct_usable(&l);
		ct_usable(&back);
	}
	CT_EQ(port_of(t->near).bad_pkey_cntr, 0);
}

/* The two processes have found each other: what is lost from now on is lost for its P_Key. */
static void meet(struct ct *t)
{
	struct ct_link l, back;

	ct_link_open(t, &l, NULL);
	back = ct_reverse(&l);
	ct_usable(&l);
	ct_usable(&back);
}

static const uint16_t strangers[][2] = {
	{ FULL, OTHER },
	{ DEFAULT, FULL },
	{ LIMITED, LIMITED },
	{ LIMITED, OTHER },
};

/* The receiver says nothing: the sender gives up when its retries are used up. */
static void strangers_hear_nothing(struct ct *t)
{
	meet(t);
	for (int i = 0; i < CT_COUNT(strangers); i++) {
		const uint32_t before = port_of(t->near).bad_pkey_cntr;
		struct ct_link l, back;

		open_impatient(t, &l, strangers[i][0], strangers[i][1]);
		back = ct_reverse(&l); /* to the near end, whose counters can be asked */
		ct_recv(&back.b, 10, TARGET, 1024);
		ct_send(&back, 1, 0, 64);
		ct_sent(&back, 1, IBV_WC_RETRY_EXC_ERR);
		ct_none(t->near, back.b.rcq);
		CT_EQ(ct_qp_state(&back.b), IBV_QPS_RTS);
		await_count(t->near, false, before + 1);
	}
	ct_no_event(t->near);
}

static void xrc_strangers_hear_nothing(struct ct *t)
{
	struct ct_link l;

	t->type = IBV_QPT_XRC_SEND;
	open_with(t, &l, LIMITED, FULL);
	ct_usable(&l);
	open_impatient(t, &l, OTHER, FULL);
	ct_recv(&l.b, 10, TARGET, 1024);
	ct_send(&l, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_RETRY_EXC_ERR);
	ct_none(t->far, l.b.rcq);
}

static void strangers_are_lost(struct ct *t)
{
	meet(t);
	for (int i = 0; i < CT_COUNT(strangers); i++) {
		const uint32_t before = port_of(t->near).bad_pkey_cntr;
		struct ct_link l, back;

		open_impatient(t, &l, strangers[i][0], strangers[i][1]);
		back = ct_reverse(&l);
		ct_recv(&back.b, 10, TARGET, 1024);
		for (int k = 0; k < 3; k++) {
			ct_send(&back, k, 0, 64);
			ct_sent(&back, k, IBV_WC_SUCCESS);
		}
		await_count(t->near, false, before + 3);
		ct_none(t->near, back.b.rcq);
		CT_EQ(ct_qp_state(&back.a), IBV_QPS_RTS);
		CT_EQ(ct_qp_state(&back.b), IBV_QPS_RTS);
	}
}

/* The numbers of a QP that is gone stay in those of its port. */
static void wrong_qkeys_are_counted(struct ct *t)
{
	struct ibv_sge sge = ct_sge(t->far, 0, 64);
	struct ibv_send_wr wr;
	struct ct_link l, back;

	meet(t);
	open_with(t, &l, DEFAULT, DEFAULT);
	back = ct_reverse(&l);
	CT_EQ(port_of(t->near).qkey_viol_cntr, 0);
	for (int i = 0; i < 3; i++) {
		wr = ct_wr(&back, IBV_WR_SEND, 1, &sge, 1);
		wr.wr.ud.remote_qkey = CT_QKEY + 1;
		ct_post(&back.a, &wr);
		ct_sent(&back, 1, IBV_WC_SUCCESS);
	}
	await_count(t->near, true, 3);
	ct_usable(&back);
	CT_EQ(ct_destroy(t->near, back.b.handle), 0);
	CT_EQ(port_of(t->near).qkey_viol_cntr, 3);
	CT_EQ(port_of(t->near).bad_pkey_cntr, 0);
}

/* Another index while the QP is drained. */
static void index_follows_modify(struct ct *t)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	struct ct_link l;

	open_with(t, &l, FULL, FULL);
	ct_usable(&l);
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_STATE), 0);
	attr = (struct ibv_qp_attr){ .pkey_index = OTHER, .qp_state = IBV_QPS_SQD, .timeout = 14 };
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_TIMEOUT), 0);
	CT_EQ(ct_to_state(&l.a, IBV_QPS_RTS), 0);
	ct_recv(&l.b, 10, TARGET, 1024);
	ct_send(&l, 1, 0, 64);
	ct_sent(&l, 1, IBV_WC_RETRY_EXC_ERR);
	ct_none(t->far, l.b.rcq);
}

/* ---- a table that changes -------------------------------------------------------------------- */

static char path[] = "/tmp/verbena-test-pkeys-XXXXXX";

/* As an administrator does it: a new file takes the place of the old one. */
static void replace(const char *text)
{
	char fresh[sizeof(path) + 4];
	FILE *file;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	file = fopen(fresh, "w");
	CT_TRUE(file && fputs(text, file) >= 0 && !fclose(file));
	CT_EQ(rename(fresh, path), 0);
}

static void rewrite(const char *text)
{
	FILE *file = fopen(path, "w");

	CT_TRUE(file && fputs(text, file) >= 0 && !fclose(file));
}

static void with_file(void)
{
	const int fd = mkstemp(path);

	CT_TRUE(fd >= 0 && !close(fd));
	rewrite("0xffff\n0x8001\n0x0001\n");
	setenv("VERBENA_PKEYS_FILE", path, 1);
}

static void await_change(struct ct *t)
{
	ct_event(t->near, IBV_EVENT_PKEY_CHANGE, 0);
	ct_event(t->far, IBV_EVENT_PKEY_CHANGE, 0);
}

static void check_table(struct ct *t, int index, uint16_t wanted)
{
	__be16 key;

	CT_EQ(ibv_query_pkey(ct_context(t->near), 1, index, &key), 0);
	CT_EQ(ntohs(key), wanted);
}

/* QPs follow their index: what does not fit any more waits, and goes on when it fits again. */
static void table_changes(struct ct *t)
{
	struct ct_opts o = ct_defaults(t);
	struct ct_link l, back;

	o.timeout = 20; /* 34 s in all: the files are read when there is a CPU */
	o.retry_cnt = 7;
	ct_link_create(t, &l, &o);
	connect_with(&l, FULL, LIMITED);
	back = ct_reverse(&l);
	for (int i = 0; i < 4; i++) {
		ct_usable(&l);
		ct_usable(&back);
	}
	CT_EQ(t->near->port.pkey_tbl_len, 32);
	check_table(t, 3, 0);
	for (int i = 0; i < 2; i++) {
		struct ct_link *from = i ? &back : &l;

		replace("0xffff,0x8001,0x8005,0x8006");
		await_change(t);
		check_table(t, LIMITED, 0x8005);
		check_table(t, 3, 0x8006);
		ct_recv(&from->b, 10, TARGET, 1024);
		ct_send(from, 1, 0, 20);
		ct_none(from->a.end, from->a.scq);
		ct_none(from->b.end, from->b.rcq);
		rewrite("0xffff 0x8001 0x0001");
		await_change(t);
		ct_sent(from, 1, IBV_WC_SUCCESS);
		ct_got(from, 10, IBV_WC_SUCCESS);
		ct_usable(from);
	}
	unlink(path);
}

/* Both ends have the new key: nobody notices. */
static void partition_moves(struct ct *t)
{
	struct ct_link l;

	ct_link_create(t, &l, NULL);
	connect_with(&l, FULL, FULL);
	ct_usable(&l);
	replace("0xffff,0x8077");
	await_change(t);
	ct_usable(&l);
	ct_no_event(t->near);
	rewrite("0xffff,0x8077,,"); /* the same */
	rewrite("nonsense");
	rewrite("0xffff,0x8078");
	await_change(t); /* one, and for the last */
	check_table(t, FULL, 0x8078);
	ct_no_event(t->near);
	ct_usable(&l);
	unlink(path);
}

/* ---- alternate paths ------------------------------------------------------------------------- */

static void load(const struct ct_qp *qp, const struct ct_end *to, uint16_t index)
{
	struct ibv_qp_attr attr = { .alt_port_num = 1,
				    .alt_timeout = 20,
				    .alt_pkey_index = index,
				    .path_mig_state = IBV_MIG_REARM };

	ct_address(qp->end, to, &attr.alt_ah_attr);
	CT_EQ(ct_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

static void await_state(const struct ct_qp *qp, enum ibv_mig_state state, uint16_t index)
{
	const double until_s = ct_now_s() + CT_DEADLINE_MS / 1e3;
	struct ibv_qp_attr attr;

	for (;;) {
		CT_EQ(ct_query_qp(qp, &attr, NULL), 0);
		if (attr.path_mig_state == state && attr.pkey_index == index)
			return;
		if (ct_now_s() > until_s)
			ct_fail("migration state %d, P_Key index %u", attr.path_mig_state,
				attr.pkey_index);
		usleep(100); /* between two looks */
	}
}

static void alternate_path_has_a_key(struct ct *t)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_MIGRATED };
	struct ct_link l, back;

	ct_link_create(t, &l, NULL);
	connect_with(&l, FULL, LIMITED);
	back = ct_reverse(&l);
	load(&l.a, t->far, OTHER);
	load(&l.b, t->near, OTHER);
	ct_usable(&l);
	ct_usable(&back);
	await_state(&l.a, IBV_MIG_ARMED, FULL);
	await_state(&l.b, IBV_MIG_ARMED, LIMITED);
	CT_EQ(ct_modify_qp(&l.a, &attr, IBV_QP_PATH_MIG_STATE), 0);
	ct_usable(&l);
	ct_usable(&back);
	await_state(&l.a, IBV_MIG_MIGRATED, OTHER);
	await_state(&l.b, IBV_MIG_MIGRATED, OTHER);
}

#define P "partitions: "

const struct ct_case ct_pkey_cases[] = {
	{ P "one P_Key by default", default_is_one_key, CT_SOLO },
	{ P "VERBENA_PKEYS is the P_Key table", table_has_the_keys, CT_SOLO, with_keys },
	{ P "the table of an InfiniBand port", table_has_the_keys, CT_SOLO | CT_ONLY_IB,
	  with_keys },
	{ P "a P_Key index outside of the table is EINVAL", index_outside_of_the_table,
	  CT_RC | CT_UC | CT_UD, with_keys },
	{ P "members of one partition talk", members_talk, CT_RC | CT_UC | CT_UD | CT_IB,
	  with_keys },
	{ P "P_Keys that do not fit: retries are used up, and counted", strangers_hear_nothing,
	  CT_RC | CT_IB, with_keys },
	{ P "P_Keys that do not fit: XRC", xrc_strangers_hear_nothing, CT_RC, with_keys },
	{ P "P_Keys that do not fit: lost, and counted", strangers_are_lost, CT_UC | CT_UD | CT_IB,
	  with_keys },
	{ P "wrong Q_Keys are counted", wrong_qkeys_are_counted, CT_UD | CT_IB },
	{ P "another P_Key index in SQD", index_follows_modify, CT_RC, with_keys },
	{ P "a P_Key table that changes", table_changes, CT_RC | CT_IB, with_file },
	{ P "a partition that moves", partition_moves, CT_RC | CT_UC | CT_UD, with_file },
	{ P "the P_Key of an alternate path", alternate_path_has_a_key, CT_RC | CT_ONLY_IB,
	  with_keys },
	{ 0 },
};
