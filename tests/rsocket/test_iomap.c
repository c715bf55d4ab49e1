/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that the peer writes directly. */
#include <sys/mman.h>

#include "pair.h"

static void with_mappings(int fd)
{
	const int count = 4;

	assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &count, sizeof(count)), 0);
}

/* A mapping is known to the peer when data that was sent after riomap has been received. */
static void pass_on(int from, int to)
{
	uint8_t byte;

	assert_int_equal(rsend(from, "m", 1, 0), 1);
	assert_int_equal(rrecv(to, &byte, 1, 0), 1);
}

static void writes_arrive_before_the_data_behind_them(void **state)
{
	static uint8_t memory[200000], bytes[200000];
	struct pair pair;

	pair_open(&pair, with_mappings);
	assert_int_equal(riomap(pair.server, memory, sizeof(memory), PROT_WRITE, 0, 4096), 4096);
	pass_on(pair.server, pair.client);
	fill_pattern(bytes, sizeof(bytes), 0);
	for (int i = 0; i < 20; i++) {
		memset(memory, 0, sizeof(memory));
		assert_int_equal(riowrite(pair.client, bytes, sizeof(bytes), 4096, 0),
				 sizeof(bytes));
		pass_on(pair.client, pair.server);
		assert_pattern(memory, sizeof(memory), 0);
	}
	assert_int_equal(riowrite(pair.client, bytes + 7, 10, 4096 + 7, 0), 10);
	pass_on(pair.client, pair.server);
	assert_pattern(memory, sizeof(memory), 0);
	pair_close(&pair);
}

static void what_is_not_mapped_cannot_be_written(void **state)
{
	static uint8_t memory[1000], bytes[1000];
	struct pair pair;
	off_t offset;

	pair_open(&pair, with_mappings);
	assert_errno(riowrite(pair.client, bytes, 10, 0, 0), EFAULT);
	offset = riomap(pair.server, memory, sizeof(memory), PROT_WRITE, 0, -1);
	assert_int_equal(offset, (off_t)(uintptr_t)memory);
	pass_on(pair.server, pair.client);
	/* The part that is mapped. */
	assert_int_equal(riowrite(pair.client, bytes, 100, offset + 950, 0), 50);
	pass_on(pair.client, pair.server); /* it has arrived before the mapping goes */
	assert_int_equal(riounmap(pair.server, memory, sizeof(memory)), 0);
	assert_errno(riounmap(pair.server, memory, sizeof(memory)), EINVAL);
	pass_on(pair.server, pair.client);
	assert_errno(riowrite(pair.client, bytes, 10, offset, 0), EFAULT);
	send_all(pair.client, 1000); /* nothing happened to the connection */
	receive_all(pair.server, 1000);
	pair_close(&pair);
}

static void the_table_of_mappings_has_an_end_and_is_used_again(void **state)
{
	static uint8_t memory[5][64];
	struct pair pair;

	pair_open(&pair, with_mappings);
	assert_errno(riomap(pair.server, memory, 10, PROT_READ, 0, 0), EINVAL);
	for (int i = 0; i < 4; i++)
		assert_int_equal(riomap(pair.server, memory[i], 64, PROT_WRITE, 0, i * 64), i * 64);
	assert_errno(riomap(pair.server, memory[4], 64, PROT_WRITE, 0, 256), ENOSPC);
	assert_int_equal(riomap(pair.server, memory[4], 64, PROT_NONE, 0, 256), 256); /* local */
	assert_int_equal(riounmap(pair.server, memory[4], 64), 0);
	pass_on(pair.server, pair.client);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(riounmap(pair.server, memory[1], 64), 0);
		pass_on(pair.server, pair.client);
		assert_int_equal(riomap(pair.server, memory[1], 64, PROT_WRITE, 0, 64), 64);
		pass_on(pair.server, pair.client);
	}
	assert_int_equal(riowrite(pair.client, "hello", 5, 64, 0), 5);
	pass_on(pair.client, pair.server);
	assert_memory_equal(memory[1], "hello", 5);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_arrive_before_the_data_behind_them),
		cmocka_unit_test(what_is_not_mapped_cannot_be_written),
		cmocka_unit_test(the_table_of_mappings_has_an_end_and_is_used_again),
	};

	return cmocka_run_group_tests_name("rsocket direct placement", tests, NULL, NULL);
}
