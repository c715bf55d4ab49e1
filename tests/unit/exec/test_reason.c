/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of reasons: what a failure means for both sides, and its sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../child.h"
#include "exec/reason.h"

static const struct vb_reason_row *row(int reason)
{
	return vb_reason_row((enum vb_reason)reason);
}

/* What programs may rely on: the statuses of both sides, the fate of the target, its event. */
static const struct {
	enum vb_reason reason;
	enum ibv_wc_status status, recv_status;
	bool target_fails;
	enum ibv_event_type event; /* 0: none */
} promises[] = {
	{ VB_OK, IBV_WC_SUCCESS, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_LOCAL_KEY, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_LOCAL_MEMORY, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_LENGTH_MAX, IBV_WC_LOC_LEN_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_ATOMIC_SGE, IBV_WC_LOC_LEN_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_UD_LENGTH, IBV_WC_LOC_LEN_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_UD_ADDRESS, IBV_WC_LOC_QP_OP_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_OPCODE_TRANSPORT, IBV_WC_LOC_QP_OP_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_RECV_SHORT, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR, true, 0 },
	{ VB_WHY_RECV_KEY, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, true, 0 },
	{ VB_WHY_RECV_MEMORY, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, true, 0 },
	{ VB_WHY_RECV_INVALIDATE, IBV_WC_SUCCESS, IBV_WC_REM_INV_REQ_ERR, true, 0 },
	{ VB_WHY_RKEY_UNKNOWN, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, true,
	  IBV_EVENT_QP_ACCESS_ERR },
	{ VB_WHY_RKEY_IS_LKEY, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, true,
	  IBV_EVENT_QP_ACCESS_ERR },
	{ VB_WHY_RKEY_PD, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, true,
	  IBV_EVENT_QP_ACCESS_ERR },
	{ VB_WHY_RKEY_RANGE, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, true,
	  IBV_EVENT_QP_ACCESS_ERR },
	{ VB_WHY_RKEY_RIGHT, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, true,
	  IBV_EVENT_QP_ACCESS_ERR },
	{ VB_WHY_REMOTE_MEMORY, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, true,
	  IBV_EVENT_QP_ACCESS_ERR },
	{ VB_WHY_QP_RIGHT, IBV_WC_REM_INV_REQ_ERR, IBV_WC_SUCCESS, true, IBV_EVENT_QP_REQ_ERR },
	{ VB_WHY_READ_DEPTH, IBV_WC_REM_INV_REQ_ERR, IBV_WC_SUCCESS, true, IBV_EVENT_QP_REQ_ERR },
	{ VB_WHY_ATOMIC_ALIGN, IBV_WC_REM_INV_REQ_ERR, IBV_WC_SUCCESS, true, IBV_EVENT_QP_REQ_ERR },
	{ VB_WHY_TARGET_CQ_OVERRUN, IBV_WC_REM_OP_ERR, IBV_WC_SUCCESS, true, IBV_EVENT_QP_FATAL },
	{ VB_WHY_OUT_OF_SEQUENCE, IBV_WC_REM_INV_REQ_ERR, IBV_WC_SUCCESS, true,
	  IBV_EVENT_QP_REQ_ERR },
	{ VB_WHY_PACKET_LENGTH, IBV_WC_REM_INV_REQ_ERR, IBV_WC_SUCCESS, true,
	  IBV_EVENT_QP_REQ_ERR },
	{ VB_WHY_NAKED_INVALID, IBV_WC_REM_INV_REQ_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_NAKED_ACCESS, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_NAKED_OPERATIONAL, IBV_WC_REM_OP_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_BAD_RESPONSE, IBV_WC_BAD_RESP_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_PEER_SILENT, IBV_WC_RETRY_EXC_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_PEER_MISSES, IBV_WC_RETRY_EXC_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_NO_RECEIVE, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_PEER_ENDED, IBV_WC_RETRY_EXC_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_PEER_NO_QP, IBV_WC_RETRY_EXC_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_PEER_NOT_READY, IBV_WC_RETRY_EXC_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_PEER_IN_ERROR, IBV_WC_RETRY_EXC_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_PEER_OTHER_PSN, IBV_WC_RETRY_EXC_ERR, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_DROP_QKEY, IBV_WC_SUCCESS, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_DROP_NO_RECEIVE, IBV_WC_SUCCESS, IBV_WC_SUCCESS, false, 0 },
	{ VB_WHY_DROP_SHORT, IBV_WC_SUCCESS, IBV_WC_SUCCESS, false, 0 },
};

static void both_sides_get_the_status_that_is_promised(void **state)
{
	for (size_t i = 0; i < sizeof(promises) / sizeof(*promises); i++) {
		const struct vb_reason_row *got = row(promises[i].reason);

		if (got->status != promises[i].status ||
		    got->recv_status != promises[i].recv_status ||
		    got->target_fails != promises[i].target_fails ||
		    got->event != promises[i].event)
			fail_msg("reason %d (%s) is not as promised", promises[i].reason,
				 got->sentence);
	}
}

static void whoever_gets_no_answer_retried(void **state)
{
	for (int reason = VB_WHY_PEER_ENDED; reason <= VB_WHY_NOT_THIS_HOST; reason++)
		assert_int_equal(row(reason)->status, IBV_WC_RETRY_EXC_ERR);
}

static void the_target_fails_exactly_when_it_says_so_on_the_wire(void **state)
{
	for (int reason = 0; reason < VB_REASON_COUNT; reason++) {
		const struct vb_reason_row *it = row(reason);

		if (reason == VB_WHY_RECV_INVALIDATE) /* the one that fails behind an ACK */
			continue;
		assert_int_equal(it->target_fails, it->syndrome != 0);
		if (it->event || it->recv_status != IBV_WC_SUCCESS)
			assert_true(it->target_fails);
		if (it->status == IBV_WC_SUCCESS)
			assert_false(it->target_fails);
	}
}

static void the_syndrome_makes_the_initiators_status(void **state)
{
	static const struct {
		uint8_t syndrome;
		enum ibv_wc_status status;
	} naks[] = {
		{ 0x61, IBV_WC_REM_INV_REQ_ERR },
		{ 0x62, IBV_WC_REM_ACCESS_ERR },
		{ 0x63, IBV_WC_REM_OP_ERR },
	};

	for (int reason = 0; reason < VB_REASON_COUNT; reason++) {
		/* Told by a NAK: it is not said again. */
		if (reason >= VB_WHY_NAKED_INVALID && reason <= VB_WHY_NAKED_OPERATIONAL)
			continue;
		for (int i = 0; i < 3; i++)
			assert_int_equal(row(reason)->syndrome == naks[i].syndrome,
					 row(reason)->status == naks[i].status);
	}
}

static bool is_token(const char *at)
{
	if (!strchr("kalhwp", at[1]))
		return false;
	return at[2] == '}' || !memcmp(at + 2, ":x}", 3) || !memcmp(at + 2, ":q}", 3);
}

static void every_reason_has_a_sentence_of_its_own_with_known_tokens(void **state)
{
	for (int reason = 0; reason < VB_REASON_COUNT; reason++) {
		const char *sentence = row(reason)->sentence;

		assert_non_null(sentence);
		assert_true(strlen(sentence) > 10);
		assert_null(strchr(sentence, '\n'));
		assert_int_not_equal(sentence[strlen(sentence) - 1], '.');
		for (const char *at = strchr(sentence, '{'); at; at = strchr(at + 1, '{'))
			assert_true(is_token(at));
		for (int other = 0; other < reason; other++)
			assert_string_not_equal(sentence, row(other)->sentence);
	}
}

static void a_number_that_is_no_reason_is_no_failure(void **state)
{
	assert_ptr_equal(row(VB_REASON_COUNT), row(VB_OK));
	assert_ptr_equal(row(255), row(VB_OK));
}

/* --- in words; the setting is read once, hence children --- */

static int explain(const void *report)
{
	setenv("VERBENA_EXPLAIN", "1", 1);
	vb_report_explain(report, NULL);
	return 0;
}

/* What follows "verbena[pid]: ", without the newline. */
static const char *explained(const struct vb_report *report)
{
	static char said[1024];
	char *text, *end;

	assert_int_equal(child_run(explain, report, said, sizeof(said)), 0);
	text = strstr(said, "]: ");
	assert_non_null(text);
	end = strchr(text, '\n');
	assert_non_null(end);
	assert_int_equal(end[1], '\0');
	*end = '\0';
	return text + 3;
}

static void every_sentence_is_one_line_with_its_tokens_filled_in(void **state)
{
	for (int reason = 0; reason < VB_REASON_COUNT; reason++) {
		/* The longest numbers that there are. */
		struct vb_report report = { (enum vb_reason)reason,
					    0xffffff,
					    0xffffff,
					    UINT64_MAX,
					    IBV_WR_ATOMIC_FETCH_AND_ADD,
					    UINT32_MAX,
					    UINT64_MAX,
					    UINT64_MAX,
					    UINT64_MAX,
					    UINT64_MAX };
		const char *text = explained(&report), *sentence = row(reason)->sentence;
		const char *rest = strrchr(sentence, '}') ? strrchr(sentence, '}') + 1 : sentence;

		assert_null(strpbrk(text, "{}"));
		/* Nothing is cut off. */
		assert_true(strlen(text) > strlen(rest));
		assert_string_equal(text + strlen(text) - strlen(rest), rest);
	}
}

static const struct {
	struct vb_report report;
	const char *text;
} sentences[] = {
	{ { .reason = VB_WHY_RKEY_RANGE,
	    .qpn = 0x123,
	    .peer_qpn = 0x456,
	    .wr_id = 7,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .key = 0xabc,
	    .addr = 0x1000,
	    .length = 64 },
	  "QP 0x000123, RDMA_WRITE wr_id 7: 64 bytes at remote address 0x1000 are not "
	  "inside the region of rkey 0x00000abc" },
	{ { .reason = VB_WHY_RECV_SHORT,
	    .qpn = 1,
	    .peer_qpn = 0xfff001,
	    .wr_id = UINT64_MAX,
	    .opcode = IBV_WR_SEND,
	    .length = 100,
	    .have = 64 },
	  "QP 0x000001, SEND wr_id 18446744073709551615: the message has 100 bytes, the "
	  "receive posted at QP 0xfff001 has room for 64" },
	{ { .reason = VB_WHY_PEER_OTHER_DEST,
	    .qpn = 1,
	    .peer_qpn = 2,
	    .wr_id = 3,
	    .opcode = IBV_WR_RDMA_READ,
	    .have = 0xabcd },
	  "QP 0x000001, RDMA_READ wr_id 3: QP 0x000002 is connected to QP 0x00abcd, not to "
	  "this one" },
	{ { .reason = VB_WHY_DROP_QKEY,
	    .qpn = 1,
	    .peer_qpn = 2,
	    .wr_id = 3,
	    .opcode = IBV_WR_SEND_WITH_IMM,
	    .have = 0x22,
	    .want = 0x11111111 },
	  "QP 0x000001, SEND_WITH_IMM wr_id 3: dropped: Q_Key 0x11111111 is not that of "
	  "QP 0x000002, which has 0x22" },
	{ { .reason = VB_WHY_RKEY_IS_LKEY,
	    .qpn = 1,
	    .peer_qpn = 2,
	    .wr_id = 3,
	    .opcode = IBV_WR_RDMA_READ,
	    .key = 0x1234 },
	  "QP 0x000001, RDMA_READ wr_id 3: 0x00001234 is the lkey of a memory region of "
	  "the peer, not its rkey" },
	{ { .reason = VB_WHY_RECV_KEY, .qpn = 1, .peer_qpn = 2, .wr_id = 3, .opcode = -1 },
	  "QP 0x000001, receive wr_id 3: the receive posted at QP 0x000002 names an lkey "
	  "that is not valid for its buffer, or belongs to another PD than the queue (QP "
	  "or SRQ)" },
	{ { .reason = VB_WHY_LENGTH_MAX,
	    .qpn = 1,
	    .wr_id = 3,
	    .opcode = IBV_WR_TSO,
	    .length = 8,
	    .want = 4 },
	  "QP 0x000001, TSO wr_id 3: the message has 8 bytes, max_msg_sz is 4" },
	{ { .reason = VB_WHY_OPCODE_TRANSPORT, .qpn = 1, .wr_id = 3, .opcode = 99 },
	  "QP 0x000001, operation wr_id 3: this operation does not exist on the QP's "
	  "transport" },
};

static void sentences_name_the_numbers(void **state)
{
	for (size_t i = 0; i < sizeof(sentences) / sizeof(*sentences); i++)
		assert_string_equal(explained(&sentences[i].report), sentences[i].text);
}

static int explain_unasked(const void *report)
{
	unsetenv("VERBENA_EXPLAIN");
	vb_report_explain(report, NULL);
	return 0;
}

static void nothing_is_said_unless_asked_for(void **state)
{
	struct vb_report report = { .reason = VB_WHY_NO_RECEIVE };
	char said[256];

	assert_int_equal(child_run(explain_unasked, &report, said, sizeof(said)), 0);
	assert_string_equal(said, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_get_the_status_that_is_promised),
		cmocka_unit_test(whoever_gets_no_answer_retried),
		cmocka_unit_test(the_target_fails_exactly_when_it_says_so_on_the_wire),
		cmocka_unit_test(the_syndrome_makes_the_initiators_status),
		cmocka_unit_test(every_reason_has_a_sentence_of_its_own_with_known_tokens),
		cmocka_unit_test(a_number_that_is_no_reason_is_no_failure),
		cmocka_unit_test(every_sentence_is_one_line_with_its_tokens_filled_in),
		cmocka_unit_test(sentences_name_the_numbers),
		cmocka_unit_test(nothing_is_said_unless_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
