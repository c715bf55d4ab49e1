/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The answers of NETLINK_RDMA, without sockets: two devices and processes that are made up. Random
 * requests must get well-formed answers.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "abi/rdmacm.h"
#include "engine/attach/ask.h"
#include "nl_check.h"
#include "sysfs/nl_answer.h"

enum { PORTID = 77, RECORDS = 1000, ROUNDS = 20000 };

/* --- the world --- */

int vb_adapter_each(int (*each)(const struct vb_adapter *adapter, void *arg), void *arg)
{
	int result = 0;

	for (unsigned i = 0; i < 2 && !result; i++) {
		struct vb_adapter adapter = { .index = i, .netdev = "lo" };

		snprintf(adapter.name, sizeof(adapter.name), "verbena%u", i);
		snprintf(adapter.uverbs, sizeof(adapter.uverbs), "uverbs%u", i);
		snprintf(adapter.attr.fw_ver, sizeof(adapter.attr.fw_ver), "1.2.3");
		adapter.attr.phys_port_cnt = 1;
		adapter.port.link_layer = i ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
		adapter.port.state = IBV_PORT_ACTIVE;
		result = each(&adapter, arg);
	}
	return result;
}

void vb_adapter_gid(const struct vb_adapter *adapter, unsigned index, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
}

void vb_adapter_counters_each(void (*each)(void *arg, const char *name, uint64_t value), void *arg)
{
	each(arg, "sent_pkts", 5);
	each(arg, "rcvd_pkts", UINT64_MAX);
}

static unsigned mrs = 2;
static const struct sockaddr_in source = { .sin_family = AF_INET, .sin_port = 0x1234 };

bool vb_adapter_in_use(void)
{
	return false;
}

int vb_ask_processes(struct vb_asked_processes *all, const struct vb_ask_filter *filter)
{
	struct vb_describe_record *records = calloc(RECORDS, sizeof(*records));

	*all = (struct vb_asked_processes){ .count = 1 };
	all->list = calloc(1, sizeof(*all->list));
	all->list[0] = (struct vb_asked_process){ .pid = 42, .slot = 9, .records = records };
	for (unsigned i = 0; i < mrs; i++)
		records[i] = (struct vb_describe_record){ .kind = VB_DESCRIBE_MR, .id = i };
	records[mrs] = (struct vb_describe_record){ .kind = VB_DESCRIBE_QP,
						    .id = 0x1001,
						    .type = IBV_QPT_RC,
						    .state = IBV_QPS_RTS,
						    .sq_psn = 5,
						    .dest_qpn = 0x2002,
						    .srq = 3 };
	records[mrs + 1] = (struct vb_describe_record){ .kind = VB_DESCRIBE_SRQ, .id = 3 };
	records[mrs + 2] = (struct vb_describe_record){ .kind = VB_DESCRIBE_CM_ID,
							.id = 7,
							.state = VB_DESCRIBE_CM_CONNECT,
							.port_space = RDMA_PS_TCP,
							.cm_qpn = 0x1001 };
	memcpy(records[mrs + 2].src, &source, sizeof(source));
	all->list[0].answer.record_count = mrs + 4;
	for (unsigned i = 0; i < mrs + 3; i++)
		memcpy(records[i].device, "verbena0", 9);
	records[mrs + 3] = (struct vb_describe_record){ .kind = VB_DESCRIBE_CM_ID,
							.id = 8,
							.state = VB_DESCRIBE_CM_LISTEN,
							.port_space = RDMA_PS_TCP };
	return 0;
}

void vb_ask_free(struct vb_asked_processes *all)
{
	free(all->list[0].records);
	free(all->list);
}

/* --- asking --- */

/* The messages of an answer, in order. */
struct answer {
	struct vb_nl_out out;
	const struct nlmsghdr *messages[256];
	unsigned count, datagrams;
};

static void split_datagram(struct answer *answer, const unsigned char *at, size_t size)
{
	while (size) {
		const struct nlmsghdr *header = (const void *)at;

		assert_true(size >= NLMSG_HDRLEN);
		assert_true(header->nlmsg_len >= NLMSG_HDRLEN && header->nlmsg_len <= size);
		assert_int_equal(header->nlmsg_len % NLMSG_ALIGNTO, 0);
		assert_int_equal(header->nlmsg_pid, PORTID);
		assert_true(answer->count < 256);
		answer->messages[answer->count++] = header;
		at += header->nlmsg_len;
		size -= header->nlmsg_len;
	}
}

static void ask_bytes(struct answer *answer, const void *bytes, size_t size, bool extended)
{
	const struct vb_nl_options options = { .extended_ack = extended };
	size_t at = 0;

	*answer = (struct answer){ .out = { .portid = PORTID } };
	vb_nl_answer(bytes, size, &options, &answer->out);
	assert_false(answer->out.failed);
	while (at < answer->out.length) {
		uint32_t length;

		memcpy(&length, answer->out.bytes + at, sizeof(length));
		assert_true(length && length <= answer->out.length - at - sizeof(length));
		split_datagram(answer, answer->out.bytes + at + sizeof(length), length);
		at += sizeof(length) + length;
		answer->datagrams++;
	}
	assert_int_equal(at, answer->out.length);
}

static void ask(struct answer *answer, const struct nl_request_bytes *request)
{
	ask_bytes(answer, request, request->header.nlmsg_len, true);
}

static int error_in(const struct nlmsghdr *header)
{
	int error;

	assert_true(header->nlmsg_len >= NLMSG_HDRLEN + sizeof(error));
	memcpy(&error, (const char *)header + NLMSG_HDRLEN, sizeof(error));
	return error;
}

/* The last message is an acknowledgement, or the end of a dump, with this error. */
static void expect_end(const struct answer *answer, unsigned count, unsigned type, int error)
{
	assert_int_equal(answer->count, count);
	assert_int_equal(answer->messages[count - 1]->nlmsg_type, type);
	assert_int_equal(answer->messages[count - 1]->nlmsg_seq, 4711);
	assert_int_equal(error_in(answer->messages[count - 1]), error);
}

/* --- devices --- */

static void a_dump_has_all_devices(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_GET, NLM_F_DUMP | NLM_F_ACK);
	ask(&answer, &request);
	expect_end(&answer, 3, NLMSG_DONE, 0);
	for (unsigned i = 0; i < 2; i++) {
		const struct nlmsghdr *header = answer.messages[i];

		assert_int_equal(header->nlmsg_flags, NLM_F_MULTI);
		assert_int_equal(nl_u32(nl_attribute(header, RDMA_NLDEV_ATTR_DEV_INDEX)), i);
		assert_string_equal(nl_payload(nl_attribute(header, RDMA_NLDEV_ATTR_DEV_PROTOCOL)),
				    i ? "ib" : "roce");
	}
	vb_nl_free(&answer.out);
}

static void a_reply_is_followed_by_its_acknowledgement(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_GET, NLM_F_ACK);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	ask(&answer, &request);
	expect_end(&answer, 2, NLMSG_ERROR, 0);
	assert_int_equal(answer.datagrams, 2);
	assert_int_equal(answer.messages[0]->nlmsg_flags, 0);
	assert_string_equal(nl_payload(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_DEV_NAME)),
			    "verbena1");
	assert_int_equal(answer.messages[1]->nlmsg_flags, NLM_F_CAPPED);
	vb_nl_free(&answer.out);
	request.header.nlmsg_flags = NLM_F_REQUEST;
	ask(&answer, &request);
	assert_int_equal(answer.count, 1);
	vb_nl_free(&answer.out);
}

static void ports(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	ask(&answer, &request);
	expect_end(&answer, 2, NLMSG_DONE, 0);
	assert_string_equal(nl_payload(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_NDEV_NAME)),
			    "lo");
	assert_null(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_LID));
	vb_nl_free(&answer.out);
	nl_start(&request, RDMA_NLDEV_CMD_PORT_GET, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	ask(&answer, &request);
	assert_int_equal(answer.count, 1);
	assert_non_null(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_LID));
	assert_null(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_NDEV_NAME));
	vb_nl_free(&answer.out);
}

static void character_devices(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_GET_CHARDEV, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	nl_add(&request, RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs", 7);
	ask(&answer, &request);
	assert_int_equal(answer.count, 1);
	assert_string_equal(
		nl_payload(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_CHARDEV_NAME)),
		"uverbs1");
	assert_int_equal(nl_u32(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_CHARDEV)),
			 231 << 8 | 193);
	vb_nl_free(&answer.out);
	nl_start(&request, RDMA_NLDEV_CMD_GET_CHARDEV, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	nl_add(&request, RDMA_NLDEV_ATTR_CHARDEV_TYPE, "umad", 5);
	ask(&answer, &request);
	expect_end(&answer, 1, NLMSG_ERROR, -EOPNOTSUPP);
	vb_nl_free(&answer.out);
}

/* --- objects and counters --- */

static void a_long_table_is_split(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;
	unsigned entries = 0;

	mrs = RECORDS - 4;
	nl_start(&request, RDMA_NLDEV_CMD_RES_MR_GET, NLM_F_DUMP);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	ask(&answer, &request);
	mrs = 2;
	assert_true(answer.datagrams > 4);
	expect_end(&answer, answer.count, NLMSG_DONE, 0);
	for (unsigned i = 0; i + 1 < answer.count; i++) {
		assert_true(answer.messages[i]->nlmsg_len <= VB_NL_DATAGRAM_MAX);
		entries += nl_entries(nl_attribute(answer.messages[i], RDMA_NLDEV_ATTR_RES_MR));
	}
	assert_int_equal(entries, RECORDS - 4);
	vb_nl_free(&answer.out);
}

static void a_table_without_entries_is_left_out(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
	ask(&answer, &request);
	expect_end(&answer, 1, NLMSG_DONE, 0);
	vb_nl_free(&answer.out);
}

static void one_object_by_its_number(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_RES_QP_GET, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_RES_LQPN, 0x1001);
	ask(&answer, &request);
	assert_int_equal(answer.count, 1);
	assert_int_equal(nl_u32(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_RES_RQPN)),
			 0x2002);
	assert_int_equal(nl_u32(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_RES_PID)), 42);
	vb_nl_free(&answer.out);
	nl_start(&request, RDMA_NLDEV_CMD_RES_QP_GET, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_RES_LQPN, 0x1002);
	ask(&answer, &request);
	expect_end(&answer, 1, NLMSG_ERROR, -ENOENT);
	vb_nl_free(&answer.out);
}

/* Of an identifier the addresses that it has; a listener without a device is on each of them. */
static void identifiers_of_librdmacm(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;
	const struct nlattr *at;

	nl_start(&request, RDMA_NLDEV_CMD_RES_CM_ID_GET, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_RES_CM_IDN, 7);
	ask(&answer, &request);
	assert_int_equal(answer.count, 1);
	assert_int_equal(nl_u32(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_RES_PS)),
			 RDMA_PS_TCP);
	assert_int_equal(nl_u32(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_RES_LQPN)),
			 0x1001);
	at = nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_RES_SRC_ADDR);
	assert_int_equal(at->nla_len, NLA_HDRLEN + sizeof(struct sockaddr_storage));
	assert_memory_equal(at + 1, &source, sizeof(source));
	assert_null(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_RES_DST_ADDR));
	vb_nl_free(&answer.out);
	for (uint32_t device = 0; device < 2; device++) {
		nl_start(&request, RDMA_NLDEV_CMD_RES_CM_ID_GET, NLM_F_DUMP);
		nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, device);
		ask(&answer, &request);
		expect_end(&answer, 2, NLMSG_DONE, 0);
		at = nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_RES_CM_ID);
		assert_int_equal(nl_entries(at), device ? 1 : 2);
		vb_nl_free(&answer.out);
	}
}

static void the_summary_counts(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_RES_GET, NLM_F_DUMP);
	ask(&answer, &request);
	expect_end(&answer, 3, NLMSG_DONE, 0);
	assert_int_equal(nl_entries(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_RES_SUMMARY)),
			 7);
	vb_nl_free(&answer.out);
}

static void counters(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_STAT_GET, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	ask(&answer, &request);
	assert_int_equal(answer.count, 1);
	assert_int_equal(
		nl_entries(nl_attribute(answer.messages[0], RDMA_NLDEV_ATTR_STAT_HWCOUNTERS)), 2);
	vb_nl_free(&answer.out);
}

/* --- refusals --- */

static void refused(unsigned command, unsigned flags, int device, int port, int error)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, command, flags);
	if (device >= 0)
		nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, (uint32_t)device);
	if (port >= 0)
		nl_add_u32(&request, RDMA_NLDEV_ATTR_PORT_INDEX, (uint32_t)port);
	ask(&answer, &request);
	expect_end(&answer, 1, flags & NLM_F_DUMP && command != 99 ? NLMSG_DONE : NLMSG_ERROR,
		   error);
	vb_nl_free(&answer.out);
}

static void requests_without_sense(void **state)
{
	refused(RDMA_NLDEV_CMD_GET, 0, -1, -1, -EINVAL);
	refused(RDMA_NLDEV_CMD_GET, 0, 2, -1, -EINVAL);
	refused(RDMA_NLDEV_CMD_PORT_GET, 0, 0, -1, -EINVAL);
	refused(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 0, -EINVAL);
	refused(RDMA_NLDEV_CMD_PORT_GET, 0, 0, 2, -EINVAL);
	refused(RDMA_NLDEV_CMD_PORT_GET, NLM_F_DUMP, -1, -1, -EINVAL);
	refused(RDMA_NLDEV_CMD_STAT_GET, NLM_F_DUMP, 0, -1, -EINVAL);
	refused(RDMA_NLDEV_CMD_RES_QP_GET, 0, 0, -1, -EINVAL);
	refused(RDMA_NLDEV_CMD_RES_CM_ID_GET, 0, 0, -1, -EINVAL);
	refused(RDMA_NLDEV_CMD_UNSPEC, 0, 0, -1, -EINVAL);
	refused(99, NLM_F_DUMP, 0, -1, -EINVAL);
	refused(99, 0, 0, -1, -EINVAL);
}

/* EPERM or EOPNOTSUPP, by the rights of the test. The sentence comes if the program wants it. */
static void changes_are_refused(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;
	int error;

	nl_start(&request, RDMA_NLDEV_CMD_SET, 0);
	nl_add_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
	nl_add(&request, RDMA_NLDEV_ATTR_DEV_NAME, "other", 6);
	ask(&answer, &request);
	assert_int_equal(answer.count, 1);
	error = error_in(answer.messages[0]);
	assert_true(error == -EPERM || error == -EOPNOTSUPP);
	if (error == -EOPNOTSUPP) {
		const size_t fixed = sizeof(error) + request.header.nlmsg_len;
		const char *row = (const char *)answer.messages[0] + NLMSG_HDRLEN + fixed;

		assert_true(answer.messages[0]->nlmsg_flags & NLM_F_ACK_TLVS);
		assert_non_null(nl_find(row, answer.messages[0]->nlmsg_len - NLMSG_HDRLEN - fixed,
					NLMSGERR_ATTR_MSG));
	}
	vb_nl_free(&answer.out);
	ask_bytes(&answer, &request, request.header.nlmsg_len, false);
	assert_int_equal(answer.messages[0]->nlmsg_flags, 0);
	vb_nl_free(&answer.out);
}

static void wrong_attributes(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_GET, 0);
	nl_add(&request, RDMA_NLDEV_ATTR_DEV_INDEX, "\0", 2); /* too short */
	ask(&answer, &request);
	expect_end(&answer, 1, NLMSG_ERROR, -EINVAL);
	vb_nl_free(&answer.out);
	nl_start(&request, RDMA_NLDEV_CMD_GET_CHARDEV, 0);
	nl_add(&request, RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs", 6); /* no NUL */
	ask(&answer, &request);
	expect_end(&answer, 1, NLMSG_ERROR, -EINVAL);
	vb_nl_free(&answer.out);
}

static void messages_that_are_none(void **state)
{
	struct nl_request_bytes request;
	struct answer answer;

	nl_start(&request, RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	for (size_t size = 0; size < NLMSG_HDRLEN; size++) {
		ask_bytes(&answer, &request, size, true);
		assert_int_equal(answer.count, 0);
		vb_nl_free(&answer.out);
	}
	request.header.nlmsg_len = 100;
	ask_bytes(&answer, &request, NLMSG_HDRLEN, true);
	assert_int_equal(answer.count, 0);
	vb_nl_free(&answer.out);
	request.header.nlmsg_len = NLMSG_HDRLEN;
	request.header.nlmsg_flags = NLM_F_ACK; /* not a request */
	ask_bytes(&answer, &request, NLMSG_HDRLEN, true);
	expect_end(&answer, 1, NLMSG_ERROR, 0);
	vb_nl_free(&answer.out);
}

/* --- random requests --- */

static size_t random_request(unsigned *seed, struct nl_request_bytes *request)
{
	const unsigned attributes = (unsigned)rand_r(seed) % 4;
	unsigned char *bytes = (unsigned char *)request;
	size_t length;

	nl_start(request, (unsigned)rand_r(seed) % 32,
		 rand_r(seed) % 2 ? NLM_F_DUMP : (unsigned)rand_r(seed) % 2 * NLM_F_ACK);
	for (unsigned i = 0; i < attributes; i++)
		nl_add_u32(request,
			   rand_r(seed) % 2 ? 1 + 2 * ((unsigned)rand_r(seed) % 2)
					    : (unsigned)rand_r(seed) % VB_NLDEV_ATTR_END,
			   (uint32_t)rand_r(seed) % 3);
	length = request->header.nlmsg_len;
	for (int i = rand_r(seed) % 4; i > 0; i--)
		bytes[(size_t)rand_r(seed) % length] = (unsigned char)rand_r(seed);
	return rand_r(seed) % 4 ? length : (size_t)rand_r(seed) % sizeof(*request);
}

static void random_requests_get_well_formed_answers(void **state)
{
	unsigned seed = 1;

	for (int i = 0; i < ROUNDS; i++) {
		struct nl_request_bytes request;
		size_t size = random_request(&seed, &request);
		unsigned char *copy = malloc(size + 1); /* the sanitizers see its end */
		struct answer answer;

		memcpy(copy, &request, size);
		ask_bytes(&answer, copy, size, rand_r(&seed) % 2);
		vb_nl_free(&answer.out);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dump_has_all_devices),
		cmocka_unit_test(a_reply_is_followed_by_its_acknowledgement),
		cmocka_unit_test(ports),
		cmocka_unit_test(character_devices),
		cmocka_unit_test(a_long_table_is_split),
		cmocka_unit_test(a_table_without_entries_is_left_out),
		cmocka_unit_test(one_object_by_its_number),
		cmocka_unit_test(identifiers_of_librdmacm),
		cmocka_unit_test(the_summary_counts),
		cmocka_unit_test(counters),
		cmocka_unit_test(requests_without_sense),
		cmocka_unit_test(changes_are_refused),
		cmocka_unit_test(wrong_attributes),
		cmocka_unit_test(messages_that_are_none),
		cmocka_unit_test(random_requests_get_well_formed_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
