/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of a capture, owner and reader: records come whole and in order, or are counted. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "capture/reader.h"
#include "capture/ring.h"

enum { THREADS = 3, EACH = 20000 };

/* What a reader has seen. */
struct seen {
	uint64_t records, packets, next[THREADS];
	bool wrong;
};

static void number_put(uint64_t thread, uint64_t number, size_t size)
{
	uint64_t *record =
		vb_capture_begin(VB_CAPTURE_OUT, sizeof(struct vb_capture_head) + 16 + size, 1, 7);
	uint64_t *at;

	if (!record)
		return;
	at = (void *)((char *)record + sizeof(struct vb_capture_head));
	at[0] = thread;
	at[1] = number;
	memset(at + 2, (int)number, size);
	vb_capture_end();
}

static void number_take(void *arg, const struct vb_capture_head *record)
{
	const uint64_t *at = (const void *)(record + 1);
	const uint8_t *bytes = (const void *)(at + 2);
	struct seen *seen = arg;

	seen->records++;
	seen->packets += record->packets;
	seen->wrong |= at[0] >= THREADS || at[1] < seen->next[at[0]] || record->time_ns != 7;
	if (seen->wrong)
		return;
	seen->next[at[0]] = at[1] + 1;
	for (size_t i = 0; i + sizeof(*record) + 24 < record->size; i++)
		seen->wrong |= bytes[i] != (uint8_t)at[1];
}

static void *numbers_write(void *arg)
{
	for (uint64_t i = 0; i < EACH; i++)
		number_put((uintptr_t)arg, i, (size_t)(i * 37 % 900));
	return NULL;
}

static void reader_begin(struct vb_capture_reader *reader)
{
	struct vb_capture_answer answer = { 0 };
	int fd = vb_capture_start(VB_WANT_PACKETS | VB_WANT_STATIONS, 100);

	assert_true(fd >= 0);
	assert_true(vb_captured());
	assert_int_equal(vb_capture_bytes(), 100);
	vb_capture_place(&answer);
	assert_int_equal(vb_capture_open(reader, fd, &answer), 0);
}

static void records_of_several_threads_come_whole_and_in_order(void **state)
{
	struct vb_capture_reader reader;
	pthread_t threads[THREADS];
	struct seen seen = { 0 };

	(void)state;
	reader_begin(&reader);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, numbers_write, (void *)i);
	while (seen.packets + vb_capture_lost(&reader) < THREADS * EACH)
		vb_capture_read(&reader, number_take, &seen);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_false(seen.wrong);
	assert_int_equal(seen.packets + vb_capture_lost(&reader), THREADS * EACH);
	vb_capture_close(&reader);
	vb_capture_stop();
	assert_false(vb_captured());
}

static void a_slow_reader_loses_records_and_counts_them(void **state)
{
	struct vb_capture_reader reader;
	struct seen seen = { 0 };
	const uint64_t count = 3 * (VB_CAPTURE_RING / 1024);

	(void)state;
	reader_begin(&reader);
	number_put(0, 0, 8);
	vb_capture_read(&reader, number_take, &seen);
	for (uint64_t i = 1; i <= count; i++)
		number_put(0, i, 1000);
	vb_capture_read(&reader, number_take, &seen);
	assert_int_equal(seen.packets, 1);
	assert_int_equal(vb_capture_lost(&reader), count);
	number_put(0, count + 1, 8); /* reading goes on behind the hole */
	vb_capture_read(&reader, number_take, &seen);
	assert_int_equal(seen.packets, 2);
	assert_int_equal(vb_capture_lost(&reader), count);
	assert_false(seen.wrong);
	vb_capture_close(&reader);
	vb_capture_stop();
}

/* The reader sees no more than its copy, whatever the owner has written. */
static void a_ring_of_random_bytes_harms_no_reader(void **state)
{
	struct vb_capture_reader reader;
	struct vb_capture_ring_head *head;
	struct seen seen = { 0 };
	uint8_t *data;

	(void)state;
	reader_begin(&reader);
	head = calloc(1, sizeof(*head));
	data = mmap(NULL, 2 * (size_t)VB_CAPTURE_RING, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_non_null(head);
	assert_true(data != MAP_FAILED);
	srandom(1);
	for (unsigned turn = 0; turn < 2000; turn++) {
		struct vb_capture_reader forged = reader;

		for (unsigned i = 0; i < 256; i++)
			data[i] = (uint8_t)random();
		if (turn % 2) /* the position is right, as it would be by chance */
			memset(data, 0, 8);
		forged.head = head;
		forged.data = data;
		forged.position = 0;
		atomic_store(&head->written, turn % 3 ? 256 : (uint64_t)random() << 33);
		atomic_store(&head->reserved, atomic_load(&head->written));
		vb_capture_read(&forged, number_take, &seen);
	}
	free(head);
	munmap(data, 2 * (size_t)VB_CAPTURE_RING);
	vb_capture_close(&reader);
	vb_capture_stop();
}

static void a_file_that_is_no_ring_is_refused(void **state)
{
	struct vb_capture_reader reader;
	const struct vb_capture_answer answer = { 0 };
	int fd = memfd_create("ring", MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(vb_capture_open(&reader, fd, &answer), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_of_several_threads_come_whole_and_in_order),
		cmocka_unit_test(a_slow_reader_loses_records_and_counts_them),
		cmocka_unit_test(a_ring_of_random_bytes_harms_no_reader),
		cmocka_unit_test(a_file_that_is_no_ring_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
