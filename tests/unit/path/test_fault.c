/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault rules: what they mean, what is refused, and that the same seed decides the same. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../child.h"
#include "path/fault/rule.h"
#include "wire/opcode.h"

enum { QPN = 0x1000, PEER = 0x1001 };

static struct vb_fault_rules rules;
static char why[VB_FAULT_WHY_MAX];

static void use(const char *text)
{
	memset(&rules, 0, sizeof(rules));
	why[0] = '\0';
	if (vb_fault_parse(text, &rules, why))
		fail_msg("\"%s\" is refused: %s", text, why);
}

static enum vb_fault_action packet(bool out, uint32_t qpn, uint32_t peer_qpn, uint8_t opcode)
{
	struct vb_fault_verdict verdict;

	vb_fault_judge_packet(&rules, out, qpn, peer_qpn, opcode, &verdict);
	return verdict.action;
}

static enum vb_fault_action sent(uint8_t opcode)
{
	return packet(true, QPN, PEER, opcode);
}

static enum vb_fault_action work(enum ibv_wr_opcode opcode, bool wire)
{
	struct vb_fault_verdict verdict;

	vb_fault_judge_wr(&rules, QPN, PEER, opcode, wire, &verdict);
	return verdict.action;
}

/* One character per packet: x where a rule applies. */
static const char *pattern(unsigned count)
{
	static char text[256];

	for (unsigned i = 0; i < count; i++)
		text[i] = sent(VB_OP_SEND_ONLY) == VB_FAULT_NONE ? '.' : 'x';
	text[count] = '\0';
	return text;
}

/* --- selectors --- */

static void the_position_of_a_packet_chooses_it(void **state)
{
	static const struct {
		const char *rule, *pattern;
	} cases[] = {
		{ "drop packet", "xxxxxxxxxxxx" },
		{ "drop packet nth=3", "..x........." },
		{ "drop packet nth=3..5", "..xxx......." },
		{ "drop packet nth=10..", ".........xxx" },
		{ "drop packet after=4", "....xxxxxxxx" },
		{ "drop packet after=0", "xxxxxxxxxxxx" },
		{ "drop packet every=4", "...x...x...x" },
		{ "drop packet every=1", "xxxxxxxxxxxx" },
		{ "drop packet nth=5.. every=3", "......x..x.." },
		{ "drop packet after=2 every=2 times=3", "...x.x.x...." },
		{ "drop packet times=2", "xx.........." },
		{ "drop packet p=0", "............" },
		{ "drop packet p=1", "xxxxxxxxxxxx" },
		{ "drop packet p=100%", "xxxxxxxxxxxx" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		use(cases[i].rule);
		if (strcmp(pattern(12), cases[i].pattern)) {
			use(cases[i].rule);
			fail_msg("\"%s\" gives %s", cases[i].rule, pattern(12));
		}
	}
}

static void queue_pair_and_peer_choose(void **state)
{
	use("drop packet qp=0x1000; corrupt packet peer=4098");
	assert_int_equal(packet(true, 0x1000, 1, 0), VB_FAULT_DROP);
	assert_int_equal(packet(true, 0x1001, 0x1000, 0), VB_FAULT_NONE);
	assert_int_equal(packet(true, 0x1001, 0x1002, 0), VB_FAULT_CORRUPT);
}

static void direction_and_transport_choose(void **state)
{
	use("drop packet direction=out transport=uc");
	assert_int_equal(packet(true, QPN, PEER, VB_TRANSPORT_UC | VB_OP_SEND_ONLY), VB_FAULT_DROP);
	assert_int_equal(packet(false, QPN, PEER, VB_TRANSPORT_UC), VB_FAULT_NONE);
	assert_int_equal(packet(true, QPN, PEER, VB_TRANSPORT_RC), VB_FAULT_NONE);
	use("drop packet direction=in");
	assert_int_equal(packet(true, QPN, PEER, 0), VB_FAULT_NONE);
	assert_int_equal(packet(false, QPN, PEER, 0), VB_FAULT_DROP);
}

static void a_packet_opcode_is_one_or_a_family_or_a_byte(void **state)
{
	use("drop packet opcode=send");
	assert_int_equal(sent(VB_OP_SEND_MIDDLE), VB_FAULT_DROP);
	assert_int_equal(sent(VB_OP_SEND_ONLY_INVALIDATE), VB_FAULT_DROP);
	assert_int_equal(sent(VB_TRANSPORT_UD | VB_OP_SEND_ONLY), VB_FAULT_DROP);
	assert_int_equal(sent(VB_OP_WRITE_ONLY), VB_FAULT_NONE);
	assert_int_equal(sent(VB_OP_ACKNOWLEDGE), VB_FAULT_NONE);
	use("drop packet opcode=ack,READ_RESPONSE_LAST,0x0a");
	assert_int_equal(sent(VB_OP_ACKNOWLEDGE), VB_FAULT_DROP);
	assert_int_equal(sent(VB_OP_READ_RESPONSE_LAST), VB_FAULT_DROP);
	assert_int_equal(sent(VB_OP_READ_RESPONSE_FIRST), VB_FAULT_NONE);
	assert_int_equal(sent(VB_OP_WRITE_ONLY), VB_FAULT_DROP);
	assert_int_equal(sent(VB_TRANSPORT_UC | VB_OP_WRITE_ONLY), VB_FAULT_NONE);
	use("drop packet opcode=cnp");
	assert_int_equal(sent(0x81), VB_FAULT_DROP);
	assert_int_equal(sent(0x01), VB_FAULT_NONE);
}

/* Each opcode of the table is in exactly one family, and can be named. */
static void every_opcode_of_the_wire_has_a_name(void **state)
{
	static const char *const families[] = { "send",   "write",      "read",  "ack",
						"atomic", "atomic_ack", "flush", "atomic_write",
						"cnp",    "gaps",       "masked" };

	for (unsigned opcode = 0; opcode < 256; opcode++) {
		unsigned found = 0;

		if (!vb_opcode_row((uint8_t)opcode)->name)
			continue;
		for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
			struct vb_fault_opcodes set = { 0 };

			assert_true(vb_fault_packet_opcode(families[i], &set));
			found += vb_fault_opcode_in(&set, opcode);
		}
		if (found != 1)
			fail_msg("opcode 0x%02x is in %u families", opcode, found);
	}
}

static void a_work_request_is_chosen_by_opcode_and_path(void **state)
{
	use("drop wr opcode=write path=local");
	assert_int_equal(work(IBV_WR_RDMA_WRITE, false), VB_FAULT_DROP);
	assert_int_equal(work(IBV_WR_RDMA_WRITE_WITH_IMM, false), VB_FAULT_DROP);
	assert_int_equal(work(IBV_WR_RDMA_WRITE, true), VB_FAULT_NONE);
	assert_int_equal(work(IBV_WR_SEND, false), VB_FAULT_NONE);
	use("drop wr opcode=IBV_WR_SEND,ibv_wr_rdma_read,atomic_cmp_and_swp path=wire");
	assert_int_equal(work(IBV_WR_SEND, true), VB_FAULT_DROP);
	assert_int_equal(work(IBV_WR_SEND_WITH_IMM, true), VB_FAULT_NONE);
	assert_int_equal(work(IBV_WR_RDMA_READ, true), VB_FAULT_DROP);
	assert_int_equal(work(IBV_WR_ATOMIC_CMP_AND_SWP, true), VB_FAULT_DROP);
	assert_int_equal(work(IBV_WR_ATOMIC_FETCH_AND_ADD, true), VB_FAULT_NONE);
	use("drop wr opcode=IBV_WR_ATOMIC_WRITE");
	assert_int_equal(work(IBV_WR_ATOMIC_WRITE, true), VB_FAULT_DROP);
	assert_int_equal(work(IBV_WR_ATOMIC_CMP_AND_SWP, true), VB_FAULT_NONE);
}

static void rules_for_packets_do_not_see_work_requests(void **state)
{
	use("drop packet; fail wr status=rem_op_err");
	assert_int_equal(work(IBV_WR_SEND, true), VB_FAULT_FAIL);
	assert_int_equal(sent(VB_OP_SEND_ONLY), VB_FAULT_DROP);
	assert_int_equal(rules.rule[0].seen, 1);
	assert_int_equal(rules.rule[1].seen, 1);
}

static void what_never_leaves_the_adapter_is_not_lost(void **state)
{
	use("drop wr");
	assert_int_equal(work(IBV_WR_BIND_MW, false), VB_FAULT_NONE);
	assert_int_equal(work(IBV_WR_LOCAL_INV, false), VB_FAULT_NONE);
	assert_int_equal(work(IBV_WR_RDMA_READ, false), VB_FAULT_DROP);
	use("fail wr opcode=bind_mw,local_inv status=mw_bind_err");
	assert_int_equal(work(IBV_WR_BIND_MW, false), VB_FAULT_FAIL);
	assert_int_equal(work(IBV_WR_LOCAL_INV, false), VB_FAULT_FAIL);
}

static void the_device_fails_once(void **state)
{
	use("fatal device after=2");
	assert_int_equal(work(IBV_WR_SEND, false), VB_FAULT_NONE);
	assert_int_equal(work(IBV_WR_SEND, true), VB_FAULT_NONE);
	assert_int_equal(work(IBV_WR_SEND, false), VB_FAULT_FATAL);
	assert_int_equal(work(IBV_WR_SEND, false), VB_FAULT_NONE);
}

/* --- what the verdict carries --- */

static struct vb_fault_verdict verdict_of(const char *rule)
{
	struct vb_fault_verdict verdict;

	use(rule);
	if (rules.rule[0].target == VB_FAULT_PACKET)
		vb_fault_judge_packet(&rules, true, QPN, PEER, VB_OP_SEND_ONLY, &verdict);
	else
		vb_fault_judge_wr(&rules, QPN, PEER, IBV_WR_SEND, false, &verdict);
	return verdict;
}

static void the_verdict_says_how(void **state)
{
	struct vb_fault_verdict verdict = verdict_of("delay packet by=500us");

	assert_int_equal(verdict.action, VB_FAULT_DELAY);
	assert_int_equal(verdict.delay_ns, 500000);
	assert_int_equal(verdict.rule, 1);
	assert_int_equal(verdict_of("delay wr by=7ns").delay_ns, 7);
	assert_int_equal(verdict_of("delay wr by=20ms").delay_ns, 20000000);
	assert_int_equal(verdict_of("delay wr by=2s").delay_ns, 2000000000);
	assert_int_equal(verdict_of("reorder packet").delay_ns, 1000000);
	assert_int_equal(verdict_of("reorder packet by=3us").delay_ns, 3000);
	assert_int_equal(verdict_of("duplicate packet").action, VB_FAULT_DUPLICATE);
	assert_int_equal(verdict_of("corrupt packet bit=96").corrupt_bit, 96);
	assert_int_equal(verdict_of("fail wr status=rem_access_err").status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(verdict_of("fail wr status=IBV_WC_RETRY_EXC_ERR").status,
			 IBV_WC_RETRY_EXC_ERR);
}

static void every_status_but_success_can_be_had(void **state)
{
	for (int i = IBV_WC_SUCCESS + 1; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++) {
		enum ibv_wc_status status;
		unsigned found = 0;
		static const char *const names[] = {
			"loc_len_err",        "loc_qp_op_err",
			"loc_eec_op_err",     "loc_prot_err",
			"wr_flush_err",       "mw_bind_err",
			"bad_resp_err",       "loc_access_err",
			"rem_inv_req_err",    "rem_access_err",
			"rem_op_err",         "retry_exc_err",
			"rnr_retry_exc_err",  "rem_abort_err",
			"fatal_err",          "resp_timeout_err",
			"general_err",        "loc_rdd_viol_err",
			"rem_inv_rd_req_err", "inv_eecn_err",
			"inv_eec_state_err",  "tm_err",
			"tm_rndv_incomplete",
		};

		for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++)
			found += vb_fault_status(names[n], &status) && (int)status == i;
		if (found != 1)
			fail_msg("status %d has %u names", i, found);
	}
	assert_int_equal(vb_fault_parse("fail wr status=success", &rules, why), -EINVAL);
}

static void the_first_rule_that_applies_decides_and_all_count(void **state)
{
	struct vb_fault_verdict verdict;

	use("drop packet nth=2; duplicate packet nth=2..3");
	assert_int_equal(sent(0), VB_FAULT_NONE);
	vb_fault_judge_packet(&rules, true, QPN, PEER, 0, &verdict);
	assert_int_equal(verdict.action, VB_FAULT_DROP);
	assert_int_equal(verdict.rule, 1);
	vb_fault_judge_packet(&rules, true, QPN, PEER, 0, &verdict);
	assert_int_equal(verdict.action, VB_FAULT_DUPLICATE);
	assert_int_equal(verdict.rule, 2);
	assert_int_equal(rules.rule[0].seen, 3);
	assert_int_equal(rules.rule[0].hits, 1);
	assert_int_equal(rules.rule[1].seen, 3);
	assert_int_equal(rules.rule[1].hits, 1);
}

/* --- chance --- */

static void the_same_seed_decides_the_same(void **state)
{
	char first[256], again[256], other[256];

	use("drop packet p=0.3 seed=7");
	strcpy(first, pattern(200));
	use("drop packet p=0.3 seed=7");
	strcpy(again, pattern(200));
	use("drop packet p=0.3 seed=8");
	strcpy(other, pattern(200));
	assert_string_equal(first, again);
	assert_string_not_equal(first, other);
}

/* A rule's decisions do not depend on what stands before it, but its default seed does. */
static void rules_without_a_seed_are_independent(void **state)
{
	char first[256];
	unsigned both = 0, one = 0;

	use("drop packet p=50%; drop packet p=50%");
	for (unsigned i = 0; i < 2000; i++)
		sent(0);
	one = (unsigned)rules.rule[0].hits;
	both = one + (unsigned)rules.rule[1].hits;
	assert_in_range(one, 900, 1100);
	assert_in_range(both, 1400, 1600); /* a quarter is left; equal seeds would leave a half */
	use("drop packet p=0.3 seed=7");
	strcpy(first, pattern(200));
	use("corrupt packet nth=5 qp=1; drop packet p=0.3 seed=7");
	assert_string_equal(pattern(200), first);
}

static void a_probability_is_met(void **state)
{
	static const struct {
		const char *rule;
		unsigned least, most; /* of a million: four standard deviations */
	} cases[] = {
		{ "drop packet p=0.02 seed=1", 19440, 20560 },
		{ "drop packet p=2% seed=2", 19440, 20560 },
		{ "drop packet p=0.5% seed=3", 4718, 5282 },
		{ "drop packet p=.5 seed=4", 498000, 502000 },
		{ "drop packet p=0.000001 seed=5", 0, 6 },
		{ "drop packet p=99.9% seed=6", 998873, 999127 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		use(cases[i].rule);
		for (unsigned n = 0; n < 1000000; n++)
			sent(0);
		assert_in_range(rules.rule[0].hits, cases[i].least, cases[i].most);
	}
}

static void the_spoilt_bit_is_drawn_anew_for_each_packet(void **state)
{
	uint32_t bits[64];

	use("corrupt packet seed=3");
	for (unsigned i = 0; i < 64; i++) {
		struct vb_fault_verdict verdict;

		vb_fault_judge_packet(&rules, true, QPN, PEER, 0, &verdict);
		bits[i] = verdict.corrupt_bit;
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(bits[i], bits[j]);
	}
}

static void *many_packets(void *arg)
{
	for (unsigned i = 0; i < 100000; i++)
		sent(0);
	return arg;
}

static void threads_together_get_exactly_what_the_rule_allows(void **state)
{
	pthread_t threads[4];

	use("drop packet every=10 times=5000; duplicate packet nth=399999..");
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, many_packets, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(rules.rule[0].seen, 400000);
	assert_int_equal(rules.rule[0].hits, 5000);
	assert_int_equal(rules.rule[1].hits, 2);
}

/* --- text --- */

static void rules_stand_in_lines_or_between_semicolons(void **state)
{
	use("\n# a comment; drop packet\n  drop packet nth=1 ;delay wr by=1us # why\n\n;;\n"
	    "\tfatal device\r\n# the end");
	assert_int_equal(rules.count, 3);
	assert_string_equal(rules.rule[0].text, "drop packet nth=1");
	assert_string_equal(rules.rule[1].text, "delay wr by=1us");
	assert_string_equal(rules.rule[2].text, "fatal device");
	use("");
	assert_int_equal(rules.count, 0);
}

static const struct {
	const char *rule, *says;
} no_rules[] = {
	{ "lose packet", "begins with \"lose\"" },
	{ "drop", "\"drop\" is followed by" },
	{ "drop packt", "\"packt\"" },
	{ "duplicate wr", "\"duplicate\" cannot happen to a wr" },
	{ "fail packet status=rem_op_err", "cannot happen to a packet" },
	{ "drop device", "cannot happen to a device" },
	{ "fatal wr", "cannot happen to a wr" },
	{ "drop packet third", "\"third\" is not of the form" },
	{ "drop packet ntn=3", "no option \"ntn\"" },
	{ "drop packet nth=0", "nth=0" },
	{ "drop packet nth=-1", "nth=-1" },
	{ "drop packet nth=5..3", "nth=5..3" },
	{ "drop packet nth=5.3", "nth=5.3" },
	{ "drop packet nth=", "nth=" },
	{ "drop packet nth=99999999999999999999", "nth=9999" },
	{ "drop packet nth=1 nth=2", "given twice" },
	{ "drop packet nth=1 after=2", "two ways" },
	{ "drop packet every=0", "every=0" },
	{ "drop packet times=0", "times=0" },
	{ "drop packet p=1.5", "p=1.5" },
	{ "drop packet p=101%", "p=101%" },
	{ "drop packet p=0,5", "p=0,5" },
	{ "drop packet p=", "p=" },
	{ "drop packet p=%", "p=%" },
	{ "drop packet p=99999999999999999999999", "p=9999" },
	{ "drop packet qp=0x1000000", "not a QP number" },
	{ "drop packet qp=one", "not a QP number" },
	{ "drop packet opcode=sendd", "\"sendd\" is not an opcode" },
	{ "drop packet opcode=send,", "\"\" is not an opcode" },
	{ "drop packet opcode=0x100", "not an opcode" },
	{ "drop wr opcode=ack", "not an opcode of a work request" },
	{ "drop wr opcode=bind_mw", "\"bind_mw\" never leaves the adapter" },
	{ "drop wr opcode=send,IBV_WR_LOCAL_INV", "\"IBV_WR_LOCAL_INV\" never leaves" },
	{ "drop packet direction=up", "neither in nor out" },
	{ "drop packet path=local", "\"path\" does not go with" },
	{ "drop wr direction=in", "\"direction\" does not go with" },
	{ "drop packet by=1us", "\"by\" does not go with \"drop packet\"" },
	{ "drop packet transport=rd", "rc, uc, ud, xrc" },
	{ "drop packet bit=1", "does not go with" },
	{ "delay packet", "needs by=" },
	{ "delay packet by=5", "by=5" },
	{ "delay packet by=5min", "by=5min" },
	{ "delay packet by=3601s", "by=3601s" },
	{ "fail wr", "needs status=" },
	{ "fail wr status=", "not the name of an error" },
	{ "fail wr status=bad", "not the name of an error" },
	{ "drop packet status=rem_op_err", "does not go with" },
	{ "drop packet; drop packet x", "\"drop packet x\"" },
};

static void what_is_not_a_rule_is_refused_with_a_sentence(void **state)
{
	for (size_t i = 0; i < sizeof(no_rules) / sizeof(*no_rules); i++) {
		memset(&rules, 0, sizeof(rules));
		if (vb_fault_parse(no_rules[i].rule, &rules, why) != -EINVAL)
			fail_msg("\"%s\" is accepted", no_rules[i].rule);
		if (!strstr(why, no_rules[i].says))
			fail_msg("\"%s\": %s", no_rules[i].rule, why);
	}
}

static void there_is_an_end_to_length_and_number(void **state)
{
	char text[4096] = "drop packet ";

	memset(text + 12, 'x', 300);
	memset(&rules, 0, sizeof(rules));
	assert_int_equal(vb_fault_parse(text, &rules, why), -EINVAL);
	assert_non_null(strstr(why, "199 bytes"));
	text[0] = '\0';
	for (int i = 0; i < VB_FAULT_RULES_MAX; i++)
		strcat(text, "drop packet;");
	use(text);
	assert_int_equal(rules.count, VB_FAULT_RULES_MAX);
	assert_int_equal(vb_fault_parse("drop packet", &rules, why), -EINVAL);
	assert_non_null(strstr(why, "64 rules"));
}

/* --- the environment; read once, hence children --- */

static int loads(const void *env)
{
	putenv((char *)env);
	child_check(!vb_fault_any());
	child_check(vb_fault_load() == 0);
	child_check(vb_fault_any());
	child_check(vb_fault_count() == 2);
	child_check(!strcmp(vb_fault_counter(0).rule, "drop packet nth=2"));
	setenv("VERBENA_FAULTS", "bad", 1); /* too late */
	child_check(vb_fault_load() == 0);
	for (int i = 0; i < 3; i++) {
		struct vb_fault_verdict verdict;

		vb_fault_packet(true, QPN, PEER, 0, &verdict);
		child_check(verdict.action == (i == 1 ? VB_FAULT_DROP : VB_FAULT_NONE));
	}
	child_check(vb_fault_counter(0).seen == 3 && vb_fault_counter(0).hits == 1);
	return 0;
}

static void the_environment_brings_rules(void **state)
{
	assert_child_passes(loads, "VERBENA_FAULTS=drop packet nth=2; delay wr by=1ms");
}

static void a_file_brings_rules(void **state)
{
	char path[] = "/tmp/verbena-test-faults.XXXXXX", env[80];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	dprintf(fd, "# two rules\ndrop packet nth=2\n\ndelay wr by=1ms # slow\n");
	close(fd);
	snprintf(env, sizeof(env), "VERBENA_FAULTS_FILE=%s", path);
	assert_child_passes(loads, env);
	unlink(path);
}

static int is_refused(const void *env)
{
	putenv((char *)env);
	child_check(vb_fault_load() == -EINVAL);
	child_check(vb_fault_load() == -EINVAL);
	child_check(!vb_fault_any());
	child_check(vb_fault_count() == 0);
	return 0;
}

static void a_bad_rule_is_said_once_and_nothing_is_in_force(void **state)
{
	static char text[] = "VERBENA_FAULTS=drop packet; drop packt";
	static char file[] = "VERBENA_FAULTS_FILE=/nowhere/rules";
	char said[1024], *rest;

	assert_int_equal(child_run(is_refused, text, said, sizeof(said)), 0);
	assert_memory_equal(said, "verbena[", 8);
	strtol(said + 8, &rest, 10);
	assert_string_equal(rest, "]: VERBENA_FAULTS: \"drop packt\": \"drop\" is followed by "
				  "\"packt\", not by packet, wr or device\n");
	assert_int_equal(child_run(is_refused, file, said, sizeof(said)), 0);
	assert_non_null(strstr(said, "/nowhere/rules: No such file or directory\n"));
}

static int without_any(const void *arg)
{
	unsetenv("VERBENA_FAULTS");
	setenv("VERBENA_FAULTS_FILE", "", 1);
	child_check(vb_fault_load() == 0);
	child_check(!vb_fault_any());
	return 0;
}

static void no_rules_is_no_error(void **state)
{
	assert_child_passes(without_any, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_position_of_a_packet_chooses_it),
		cmocka_unit_test(queue_pair_and_peer_choose),
		cmocka_unit_test(direction_and_transport_choose),
		cmocka_unit_test(a_packet_opcode_is_one_or_a_family_or_a_byte),
		cmocka_unit_test(every_opcode_of_the_wire_has_a_name),
		cmocka_unit_test(a_work_request_is_chosen_by_opcode_and_path),
		cmocka_unit_test(rules_for_packets_do_not_see_work_requests),
		cmocka_unit_test(what_never_leaves_the_adapter_is_not_lost),
		cmocka_unit_test(the_device_fails_once),
		cmocka_unit_test(the_verdict_says_how),
		cmocka_unit_test(every_status_but_success_can_be_had),
		cmocka_unit_test(the_first_rule_that_applies_decides_and_all_count),
		cmocka_unit_test(the_same_seed_decides_the_same),
		cmocka_unit_test(rules_without_a_seed_are_independent),
		cmocka_unit_test(a_probability_is_met),
		cmocka_unit_test(the_spoilt_bit_is_drawn_anew_for_each_packet),
		cmocka_unit_test(threads_together_get_exactly_what_the_rule_allows),
		cmocka_unit_test(rules_stand_in_lines_or_between_semicolons),
		cmocka_unit_test(what_is_not_a_rule_is_refused_with_a_sentence),
		cmocka_unit_test(there_is_an_end_to_length_and_number),
		cmocka_unit_test(the_environment_brings_rules),
		cmocka_unit_test(a_file_brings_rules),
		cmocka_unit_test(a_bad_rule_is_said_once_and_nothing_is_in_force),
		cmocka_unit_test(no_rules_is_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
