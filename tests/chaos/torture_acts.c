/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>

#include "rig.h"
#include "torture.h"

enum { PAGE = TORTURE_PAGE, CHUNK = 512, BLOCKS = 16, WAKE_S = 5 };

static int direct = -1; /* BLOCKS pages, each of one byte value */

bool torture_file(const char *folder)
{
	char path[200], block[PAGE];
	int fd;

	snprintf(path, sizeof(path), "%s/torture-XXXXXX", folder);
	fd = mkstemp(path);
	if (fd < 0)
		return false;
	for (int i = 0; i < BLOCKS; i++) {
		memset(block, 'a' + i, PAGE);
		CHECK(pwrite(fd, block, PAGE, i * PAGE) == PAGE, "pwrite: %s", strerror(errno));
	}
	fsync(fd);
	direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	unlink(path);
	close(fd);
	return direct >= 0;
}

static void broke(struct torture *torture, const char *how)
{
	if (!torture->broken)
		torture->broken = how;
}

static bool all_are(const volatile char *at, size_t size, char value)
{
	for (size_t i = 0; i < size; i++)
		if (at[i] != value)
			return false;
	return true;
}

/* The last pages belong to the act alone. */
static char *own_page(const struct torture *torture, unsigned index)
{
	return torture->memory + (size_t)(TORTURE_SHARED + index) * PAGE;
}

static char *bytes_of(const struct torture *torture, unsigned turn)
{
	return torture->memory + (size_t)(turn % TORTURE_SHARED) * PAGE + TORTURE_BYTES_AT;
}

/* --- loads and stores --- */

static void stores(struct torture *torture, unsigned turn)
{
	uint64_t round = turn / TORTURE_SHARED;
	volatile uint64_t *word =
		(void *)(torture->memory + (size_t)(turn % TORTURE_SHARED) * PAGE + TORTURE_ACT_AT);

	if (*word != round)
		broke(torture, "a store was lost");
	*word = round + 1;
}

/* Writers count up in their word of each page. */
static void loads(struct torture *torture, unsigned turn)
{
	static uint64_t seen[TORTURE_SHARED];
	unsigned page = turn % TORTURE_SHARED;
	uint64_t now = *(volatile uint64_t *)(torture->memory + (size_t)page * PAGE);

	if (turn < TORTURE_SHARED)
		seen[page] = 0;
	if (now < seen[page])
		broke(torture, "a page has gone back in time");
	seen[page] = now;
}

/* --- system calls that copy --- */

static void receives(struct torture *torture, unsigned turn)
{
	static int pair[2] = { -1, -1 };
	char bytes[CHUNK], *to = bytes_of(torture, turn);

	if (pair[0] < 0)
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	memset(bytes, (int)turn, CHUNK);
	CHECK(write(pair[0], bytes, CHUNK) == CHUNK, "write");
	if (turn % 2 ? recv(pair[1], to, CHUNK, MSG_WAITALL) != CHUNK
		     : read(pair[1], to, CHUNK) != CHUNK)
		broke(torture, "read failed");
	else if (!all_are(to, CHUNK, (char)turn))
		broke(torture, "bytes of read were lost");
}

static void sends(struct torture *torture, unsigned turn)
{
	static int ends[2] = { -1, -1 };
	char bytes[CHUNK], *from = bytes_of(torture, turn);

	if (ends[0] < 0)
		CHECK(!pipe(ends), "pipe");
	memset(from, (int)turn, CHUNK);
	if (write(ends[1], from, CHUNK) != CHUNK)
		broke(torture, "write failed");
	else if (read(ends[0], bytes, CHUNK) != CHUNK || !all_are(bytes, CHUNK, (char)turn))
		broke(torture, "write has sent other bytes");
}

static void splices(struct torture *torture, unsigned turn)
{
	static int ends[2] = { -1, -1 };
	char bytes[PAGE];
	struct iovec from = { own_page(torture, 0), PAGE };

	if (ends[0] < 0)
		CHECK(!pipe(ends), "pipe");
	memset(from.iov_base, (int)turn, PAGE);
	if (vmsplice(ends[1], &from, 1, 0) != PAGE)
		broke(torture, "vmsplice failed");
	else if (read(ends[0], bytes, PAGE) != PAGE || !all_are(bytes, PAGE, (char)turn))
		broke(torture, "vmsplice has sent other bytes");
}

/* --- system calls that pin --- */

static void reads_direct(struct torture *torture, unsigned turn)
{
	char *to = own_page(torture, turn % 4);
	unsigned block = turn * 7 % BLOCKS;

	if (pread(direct, to, PAGE, block * PAGE) != PAGE)
		broke(torture, "a direct read failed");
	else if (!all_are(to, PAGE, (char)('a' + block)))
		broke(torture, "bytes of a direct read were lost");
}

static aio_context_t context;

static void aio_end(void)
{
	if (context)
		syscall(SYS_io_destroy, context);
	context = 0;
}

static void reads_by_aio(struct torture *torture, unsigned turn)
{
	unsigned block = turn * 7 % BLOCKS;
	char *to = own_page(torture, turn % 4);
	struct iocb one = { .aio_fildes = (uint32_t)direct,
			    .aio_lio_opcode = IOCB_CMD_PREAD,
			    .aio_buf = (uintptr_t)to,
			    .aio_nbytes = PAGE,
			    .aio_offset = block * PAGE },
		    *list = &one;
	struct io_event event;

	if (!context)
		CHECK(!syscall(SYS_io_setup, 1, &context), "io_setup: %s", strerror(errno));
	if (syscall(SYS_io_submit, context, 1, &list) != 1 ||
	    syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1 || event.res != PAGE)
		broke(torture, "a read by aio failed");
	else if (!all_are(to, PAGE, (char)('a' + block)))
		broke(torture, "bytes of a read by aio were lost");
	if (turn % 32 == 31)
		aio_end();
}

struct ring {
	int fd;
	struct io_uring_params params;
	char *queue;
	struct io_uring_sqe *sqe;
};

static bool ring_open(struct ring *ring, struct torture *torture)
{
	struct iovec buffer = { torture->memory, TORTURE_SIZE };

	memset(&ring->params, 0, sizeof(ring->params));
	ring->fd = (int)syscall(SYS_io_uring_setup, 4, &ring->params);
	if (ring->fd < 0)
		return false;
	/* The pages of the ring before count against the limit until the kernel lets go of them. */
	if (syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS, &buffer, 1)) {
		CHECK(errno == ENOMEM, "io_uring_register: %s", strerror(errno));
		close(ring->fd);
		return false;
	}
	ring->queue =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	ring->sqe = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQES);
	return true;
}

static void ring_close(struct ring *ring)
{
	munmap(ring->queue, PAGE);
	munmap(ring->sqe, PAGE);
	close(ring->fd);
}

/* Waits for all reads so far. */
static bool ring_read(struct ring *ring, char *to, unsigned block, bool fixed)
{
	uint32_t *tail = (void *)(ring->queue + ring->params.sq_off.tail);
	uint32_t *array = (void *)(ring->queue + ring->params.sq_off.array);

	*ring->sqe = (struct io_uring_sqe){ .opcode = fixed ? IORING_OP_READ_FIXED : IORING_OP_READ,
					    .fd = direct,
					    .off = block * PAGE,
					    .addr = (uintptr_t)to,
					    .len = PAGE };
	array[*tail & 3] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	return syscall(SYS_io_uring_enter, ring->fd, 1, *tail, IORING_ENTER_GETEVENTS, NULL, 0) ==
	       1;
}

static void reads_by_ring(struct torture *torture, unsigned turn)
{
	char *to = own_page(torture, turn % 4);
	unsigned block = turn * 7 % BLOCKS;
	struct ring ring;

	if (!ring_open(&ring, torture)) /* there is no io_uring here */
		return;
	for (unsigned i = 0; i < 2; i++, block = (block + 1) % BLOCKS) {
		if (!ring_read(&ring, to, block, i))
			broke(torture, "a read by io_uring failed");
		else if (!all_are(to, PAGE, (char)('a' + block)))
			broke(torture, "bytes of a read by io_uring were lost");
	}
	ring_close(&ring);
}

/* --- calls on the memory itself --- */

/* A mapped region keeps the bytes, other memory is empty (docs/DEVIATIONS.md). */
static void discards(struct torture *torture, unsigned turn)
{
	volatile char *at = own_page(torture, turn % 4);
	char now;

	*at = (char)(turn | 1);
	CHECK(!madvise((void *)at, PAGE, MADV_DONTNEED), "madvise: %s", strerror(errno));
	now = *at;
	if (now && now != (char)(turn | 1))
		broke(torture, "discarded memory has bytes of another time");
	*at = 2;
	if (*at != 2)
		broke(torture, "a store to discarded memory was lost");
}

static void moves_address(struct torture *torture, unsigned turn)
{
	static char *there;
	char *at = own_page(torture, 3), *to;

	if (!there)
		there = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*(volatile char *)at = (char)turn;
	to = mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there);
	if (to != there || *(volatile char *)there != (char)turn)
		broke(torture, "a byte was lost when its page got another address");
	*(volatile char *)there = (char)(turn + 1);
	to = mremap(there, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at);
	if (to != at || *(volatile char *)at != (char)(turn + 1))
		broke(torture, "a byte was lost when its page came back");
}

static void replaces(struct torture *torture, unsigned turn)
{
	char *at = own_page(torture, 3);

	if (turn % 2)
		CHECK(!munmap(at, PAGE), "munmap: %s", strerror(errno));
	CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		   0) == at,
	      "mmap: %s", strerror(errno));
	if (*(volatile char *)at)
		broke(torture, "new memory was not empty");
	*(volatile char *)at = (char)(turn | 1);
	for (unsigned i = 0; i < 100; i++)
		if (*(volatile char *)at != (char)(turn | 1))
			broke(torture, "a byte of new memory was lost");
}

static void protects(struct torture *torture, unsigned turn)
{
	char *at = own_page(torture, 3);

	*(volatile char *)at = (char)turn;
	CHECK(!mprotect(at, PAGE, PROT_READ), "mprotect: %s", strerror(errno));
	if (*(volatile char *)at != (char)turn)
		broke(torture, "a byte was lost when its page became read-only");
	CHECK(!mprotect(at, PAGE, PROT_READ | PROT_WRITE), "mprotect: %s", strerror(errno));
	if (*(volatile char *)at != (char)turn)
		broke(torture, "a byte was lost when its page became writable");
}

/* --- sleeping --- */

static long futex(uint32_t *word, int op, uint32_t value)
{
	const struct timespec most = { WAKE_S, 0 };

	return syscall(SYS_futex, word, op, value, op == FUTEX_WAIT ? &most : NULL, NULL, 0);
}

/* Sets the word to 0 when it is 1, and wakes. */
static void *waker(void *arg)
{
	uint32_t *word = arg;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 1)
		sched_yield();
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
	futex(word, FUTEX_WAKE, 1);
	return NULL;
}

/* A futex that processes may share: its name tells the file of its page. */
static void sleeps(struct torture *torture, unsigned turn)
{
	uint32_t *word = (void *)own_page(torture, turn % 4);
	pthread_t thread;

	__atomic_store_n(word, 2, __ATOMIC_RELEASE);
	CHECK(!pthread_create(&thread, NULL, waker, word), "pthread_create");
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 1)
		if (futex(word, FUTEX_WAIT, 1) && errno == ETIMEDOUT)
			broke(torture, "a sleeper was not woken");
	pthread_join(thread, NULL);
}

const struct torture_act torture_acts[] = {
	{ "stores", stores },
	{ "loads", loads },
	{ "read and recv", receives },
	{ "write", sends },
	{ "vmsplice", splices },
	{ "direct reads", reads_direct },
	{ "aio", reads_by_aio, aio_end, .pins = true },
	{ "io_uring", reads_by_ring, .pins = true },
	{ "MADV_DONTNEED", discards },
	{ "mremap", moves_address, .holes = true },
	{ "munmap and mmap", replaces, .holes = true },
	{ "mprotect", protects, .holes = true },
	{ "futex", sleeps },
};
const unsigned torture_act_count = sizeof(torture_acts) / sizeof(torture_acts[0]);

void *torture_main(void *arg)
{
	const struct torture_run *run = arg;
	struct torture *torture = run->torture;

	while (!atomic_load(&torture->over) && !torture->broken)
		run->act->turn(torture, (unsigned)torture->turns++);
	if (run->act->end)
		run->act->end();
	return NULL;
}
