/* SPDX-License-Identifier: BSD-2-Clause */
/* Services that programs register at the Subnet Administrator of an InfiniBand port: RAI_SA. */
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <stdlib.h>
#include <string.h>

#include "mad/sa.h"
#include "party.h"
#include "rdmacm/cma.h"
#include "verbs/engine_table.h"
#include "wire/bytes.h"

static union ibv_gid port_gid;

static int find_port(void **state)
{
	int count = 0;
	struct ibv_context **devices = rdma_get_devices(&count);
	struct ibv_port_attr attr;

	for (int i = 0; i < count; i++) {
		assert_int_equal(ibv_query_port(devices[i], 1, &attr), 0);
		if (attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
			assert_int_equal(ibv_query_gid(devices[i], 1, 0, &port_gid), 0);
	}
	rdma_free_devices(devices);
	assert_true(port_gid.global.interface_id);
	(void)state;
	return 0;
}

static const struct sockaddr_ib *sib(const struct sockaddr *addr)
{
	assert_int_equal(addr->sa_family, AF_IB);
	return (const struct sockaddr_ib *)addr;
}

/* What a program does by /dev/infiniband/umad: it registers or withdraws a service of the port. */
static void change_service(uint8_t method, uint64_t id, const char *name)
{
	const struct vb_engine_table *engine = verbena_engine(VB_ENGINE_TABLE_VERSION);
	const struct vb_mad mad = {
		.base_version = VB_MAD_BASE_VERSION,
		.management_class = VB_MAD_CLASS_SUBN_ADM,
		.class_version = VB_SA_CLASS_VERSION,
		.method = method,
		.attribute_id = VB_SA_SERVICE_RECORD,
	};
	const uint64_t components = 1 << 0 | 1 << 1 | 1 << 6; /* id, GID, name */
	static uint8_t request[VB_MAD_SIZE], answer[VB_SA_ANSWER_MAX];
	uint8_t *record = request + VB_SA_DATA_AT;
	struct vb_mad told;

	memset(request, 0, sizeof(request));
	vb_mad_emit(&mad, request);
	vb_put64(request + VB_SA_COMPONENTS_AT, components);
	vb_put64(record, id);
	memcpy(record + 8, port_gid.raw, sizeof(port_gid.raw));
	strcpy((char *)record + 48, name);
	assert_int_equal(engine->mad_agent(engine->ib_device(0), request, answer, sizeof(answer)),
			 VB_MAD_SIZE);
	vb_mad_parse(answer, &told);
	assert_int_equal(told.status, VB_MAD_OK);
}

static void check_service(const struct rdma_addrinfo *info, uint64_t id)
{
	assert_int_equal(info->ai_flags, RAI_SA);
	assert_int_equal(info->ai_family, AF_IB);
	assert_int_equal(info->ai_port_space, RDMA_PS_IB);
	assert_int_equal(info->ai_src_len, 0);
	assert_int_equal(info->ai_dst_len, sizeof(struct sockaddr_ib));
	assert_memory_equal(&sib(info->ai_dst_addr)->sib_addr, &port_gid, 16);
	assert_int_equal(be16toh(sib(info->ai_dst_addr)->sib_pkey), 0xffff);
	assert_true(be64toh(sib(info->ai_dst_addr)->sib_sid) == id);
	assert_true(sib(info->ai_dst_addr)->sib_sid_mask == UINT64_MAX);
}

static void expect_service(const char *word, uint64_t id)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_SA }, *info;

	assert_int_equal(rdma_getaddrinfo(NULL, word, &hints, &info), 0);
	check_service(info, id);
	assert_null(info->ai_next);
	rdma_freeaddrinfo(info);
}

static void expect_no_service(const char *word)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_SA }, *info;

	assert_int_equal(rdma_getaddrinfo(NULL, word, &hints, &info), -1);
	assert_int_equal(errno, ENOENT);
}

static void services_have_names_and_ids(void **state)
{
	const uint64_t id = UINT64_C(0x1000000000000001);
	char long_name[80] = "";

	expect_no_service("copy");
	change_service(VB_MAD_SET, id, "copy");
	change_service(VB_MAD_SET, id + 1, "paste");
	expect_service("copy", id);
	expect_service("paste", id + 1);
	expect_service("0x1000000000000002", id + 1);
	expect_service("1152921504606846977", id);
	expect_no_service("cop");
	expect_no_service("0x1000000000000003");
	expect_no_service("");
	memset(long_name, 'c', sizeof(long_name) - 1);
	expect_no_service(long_name);
	change_service(VB_MAD_DELETE, id, "copy");
	expect_no_service("copy");
	change_service(VB_MAD_DELETE, id + 1, "paste");
	(void)state;
}

static void all_services_of_a_name_are_an_event(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_SA }, *info;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_ib own = { .sib_family = AF_IB };
	struct rdma_cm_id *id;

	memcpy(&own.sib_addr, &port_gid, sizeof(own.sib_addr));
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&own), 0);
	assert_int_equal(rdma_resolve_addrinfo(id, NULL, "both", &hints), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_ERROR), -ENOENT);
	change_service(VB_MAD_SET, 7, "both");
	change_service(VB_MAD_SET, 8, "both");
	assert_int_equal(rdma_resolve_addrinfo(id, NULL, "both", &hints), 0);
	assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDRINFO_RESOLVED), 0);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	check_service(info, 7);
	assert_non_null(info->ai_next);
	check_service(info->ai_next, 8);
	assert_null(info->ai_next->ai_next);
	rdma_freeaddrinfo(info);
	change_service(VB_MAD_DELETE, 7, "both");
	change_service(VB_MAD_DELETE, 8, "both");
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services_have_names_and_ids),
		cmocka_unit_test(all_services_of_a_name_are_an_event),
	};

	return cmocka_run_group_tests(tests, find_port, NULL);
}
