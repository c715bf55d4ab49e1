/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive buffers that the program uses while they are posted. Debug registers of the CPU watch
 * eight bytes near the begin and near the end of one posted receive at a time. An access by the
 * kernel, as peers make, does not count, nor does one by the libraries of RDMA.
 *
 * A thread that touches the bytes gets SIGTRAP behind the access. The handler keeps the stack, and
 * the next call of the check looks at it. Moving a watch takes some microseconds for each thread,
 * and while a CPU watches, it copies long buffers byte by byte. So the time without a watch is a
 * multiple of the time with it, but for the first few.
 *
 * Some functions of the C library read whole vectors in which their bytes lie, and so do compilers.
 * So the aligned neighbourhood of a watched byte lies in the buffer.
 */
#include "check/watch.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "base/clock.h"
#include "check/report.h"

enum { SPOTS = 2, SPOT_SIZE = 8, THREADS_MAX = 64, HITS = 8 };
enum { VECTOR = 64, VECTORS = 256 }; /* what compilers, and what the C library may read at once */
enum { FIRST_RECEIVES = 256, LOOK_ONE_IN = 64, FIRST_MOVES = 4, PAUSE_FACTOR = 1000 };
enum { STALE_NS = 100000000 };
enum { PERF_TRAP = 6, PERF_ASYNC = 1, COOKIE = 0x76657262 };

/* The kernel's words with SIGTRAP; older headers of the C library lack them. */
struct perf_signal {
	void *addr;
	unsigned long data;
	uint32_t type, flags;
};

enum { HIT_NONE, HIT_TAKEN, HIT_FULL };

/* Under the lock of the shadow. */
static struct {
	bool tried, works;
	int fds[THREADS_MAX][SPOTS];
	int threads;
	struct vb_object *owner; /* NULL: nothing is watched */
	uint64_t spot[SPOTS];
	bool by_libc[SPOTS]; /* an access by the C library counts */
	uint64_t begun_ns, next_ns;
	uint32_t receives, moves;
} watch;

/* The handler writes them, those of the libraries, too. The next call of the check takes them. */
static struct hit {
	_Atomic int state;
	void *pc[VB_STACK_DEPTH];
	uint32_t depth;
	uint64_t addr;
} hits[HITS];

static _Atomic bool any_hit;

static uint64_t nowhere; /* for events that are switched off */

/* --- the signal --- */

static void *place_of(const void *context)
{
#if defined(__x86_64__)
	return (void *)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
	(void)context;
	return NULL;
#endif
}

/* One of each place: a loop would fill the table. */
static void keep_hit(uint64_t addr, void *pc)
{
	for (struct hit *hit = hits; hit < hits + HITS; hit++) {
		int none = HIT_NONE;

		if (atomic_load(&hit->state) == HIT_FULL && hit->addr == addr && hit->pc[0] == pc)
			return;
		if (!atomic_compare_exchange_strong(&hit->state, &none, HIT_TAKEN))
			continue;
		hit->addr = addr;
		hit->depth = vb_stack_walk(pc, hit->pc);
		atomic_store(&hit->state, HIT_FULL);
		atomic_store(&any_hit, true);
		return;
	}
}

static void trapped(int number, siginfo_t *info, void *context)
{
	const int error = errno;
	struct perf_signal perf;

	memcpy(&perf, (const char *)info + offsetof(siginfo_t, si_addr), sizeof(perf));
	if (info->si_code != PERF_TRAP || (uint32_t)perf.data != COOKIE) {
		signal(number, SIG_DFL); /* as without the check */
		raise(number);
		return;
	}
	if (!(perf.flags & PERF_ASYNC) && !vb_check_inside)
		keep_hit((uint64_t)(uintptr_t)perf.addr, place_of(context));
	errno = error;
}

/* --- the kernel --- */

/* 0: switched off. */
static struct perf_event_attr attr_of(uint64_t addr)
{
	return (struct perf_event_attr){ .size = sizeof(struct perf_event_attr),
					 .type = PERF_TYPE_BREAKPOINT,
					 .bp_type = HW_BREAKPOINT_RW,
					 .bp_addr = addr ? addr : (uintptr_t)&nowhere,
					 .disabled = !addr,
					 .bp_len = SPOT_SIZE,
					 .sample_period = 1,
					 .exclude_kernel = 1,
					 .exclude_hv = 1,
					 .sigtrap = 1,
					 .remove_on_exec = 1,
					 .inherit = 1,
					 .inherit_thread = 1,
					 .sig_data = COOKIE };
}

/* Threads that begin later inherit it. */
static bool watch_thread(pid_t thread)
{
	struct perf_event_attr attr = attr_of(0);
	int *fds = watch.fds[watch.threads];

	for (int i = 0; i < SPOTS; i++) {
		fds[i] = (int)syscall(SYS_perf_event_open, &attr, thread, -1, -1,
				      PERF_FLAG_FD_CLOEXEC);
		if (fds[i] < 0) {
			while (i--)
				close(fds[i]);
			return false;
		}
	}
	watch.threads++;
	return true;
}

static bool watch_threads(void)
{
	DIR *threads = opendir("/proc/self/task");
	bool all = threads;

	for (struct dirent *entry; all && (entry = readdir(threads));)
		if (*entry->d_name != '.')
			all = watch.threads < THREADS_MAX && watch_thread(atoi(entry->d_name));
	if (threads)
		closedir(threads);
	return all && watch.threads;
}

/* Before 5.19 a thread that blocks the signal would be ended by it. */
static bool kernel_is_new(void)
{
	struct utsname name;
	int major = 0, minor = 0;

	uname(&name);
	sscanf(name.release, "%d.%d", &major, &minor);
	return major > 5 || (major == 5 && minor >= 19);
}

/* A debugger takes the signal for its own. */
static bool is_traced(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[128];
	int tracer = 0;

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "TracerPid: %d", &tracer) == 1)
			break;
	if (status)
		fclose(status);
	return tracer;
}

static void give_up(void)
{
	for (int i = 0; i < watch.threads * SPOTS; i++)
		close(watch.fds[i / SPOTS][i % SPOTS]);
	watch.threads = 0;
	watch.works = false;
}

void vb_watch_begin(void)
{
	struct sigaction action = { .sa_sigaction = trapped,
				    .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
	struct sigaction before;

	if (watch.tried)
		return;
	watch.tried = true;
#if defined(__x86_64__) /* other CPUs stop before the access */
	watch.works = vb_report_wants(VB_RULE_RECV_USED) && kernel_is_new() && !is_traced() &&
		      !sigaction(SIGTRAP, NULL, &before) && before.sa_handler == SIG_DFL &&
		      watch_threads() && !sigaction(SIGTRAP, &action, NULL);
#endif
	if (!watch.works)
		give_up();
}

/* The program has a handler of its own by now. */
static bool signal_is_ours(void)
{
	struct sigaction now;

	return !sigaction(SIGTRAP, NULL, &now) && now.sa_sigaction == trapped;
}

/* NULL: nowhere. A thread may be gone. */
static void move_to(const uint64_t *spots)
{
	for (int i = 0; i < watch.threads * SPOTS; i++) {
		struct perf_event_attr attr = attr_of(spots ? spots[i % SPOTS] : 0);

		ioctl(watch.fds[i / SPOTS][i % SPOTS], PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &attr);
	}
}

/* --- hits --- */

static bool comes_from(void *pc, const char *library)
{
	Dl_info info;

	return dladdr((char *)pc - 1, &info) && info.dli_fname && strstr(info.dli_fname, library);
}

/* A watch may have been elsewhere when the signal was on its way. */
static bool by_the_program(const struct hit *hit)
{
	const int spot = hit->addr == watch.spot[1];

	if (hit->addr != watch.spot[spot])
		return false;
	if (comes_from(hit->pc[0], "/libc.so") && (hit->depth == 1 || !watch.by_libc[spot]))
		return false;
	for (uint32_t i = 0; i < hit->depth; i++)
		if (comes_from(hit->pc[i], "/libibverbs.so") ||
		    comes_from(hit->pc[i], "/librdmacm.so") ||
		    comes_from(hit->pc[i], "/libverbena-") || comes_from(hit->pc[i], "/ld-linux"))
			return false;
	return true;
}

/* In other states the device does not write. Only the real one counts: it may have failed. */
static bool owner_receives(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (watch.owner->kind != VB_KIND_QP)
		return true;
	return !VB_CHECK_REAL(ibv_query_qp)(watch.owner->handle, &attr, IBV_QP_STATE, &init) &&
	       (attr.qp_state == IBV_QPS_RTR || attr.qp_state == IBV_QPS_RTS);
}

static struct vb_work *watched_work(void)
{
	struct vb_queue *queue = &watch.owner->receives;

	for (uint32_t i = queue->head; !queue->lost && i != queue->tail; i++)
		if (vb_queue_at(queue, i)->watched)
			return vb_queue_at(queue, i);
	return NULL;
}

/* The caller of memset is the one to mend. */
static const struct vb_stack *stack_of(const struct hit *hit)
{
	uint32_t from = 0;

	while (from + 1 < hit->depth && comes_from(hit->pc[from], "/libc.so"))
		from++;
	return vb_stack_intern(hit->pc + from, hit->depth - from);
}

static void tell_of(struct vb_work *work, const struct hit *hit)
{
	if (by_the_program(hit) && vb_work_alone(work) && !vb_work_open_to_peers(work) &&
	    owner_receives())
		vb_report(
			VB_RULE_RECV_USED,
			VB_CALLS({ "used by", stack_of(hit) }, { "posted by", work->stack }),
			"Receive wr_id %" PRIu64 " of %s 0x%06x has not completed, and the program "
			"read or wrote the bytes at 0x%" PRIx64 ". The NIC may be writing them, "
			"in any order, until the completion is polled.",
			work->wr_id, vb_kind_name(watch.owner->kind), watch.owner->qpn, hit->addr);
}

/* NULL: the receive is not known any more. */
static void tell(struct vb_work *work)
{
	atomic_store(&any_hit, false);
	for (struct hit *hit = hits; hit < hits + HITS; hit++) {
		if (atomic_load(&hit->state) != HIT_FULL)
			continue;
		if (work)
			tell_of(work, hit);
		atomic_store(&hit->state, HIT_NONE);
	}
}

void vb_watch_tell(void)
{
	if (__builtin_expect(atomic_load_explicit(&any_hit, memory_order_relaxed), 0))
		tell(watch.owner ? watched_work() : NULL);
}

/* --- receives --- */

/* The first spot from the begin, or the last before the end. False: the buffer is too small. */
static bool find_spot(int spot, uint64_t addr, uint64_t length)
{
	const uint64_t end = addr + length;
	const uint64_t block =
		spot ? (end & -(uint64_t)VECTOR) - VECTOR : (addr + VECTOR - 1) & -(uint64_t)VECTOR;
	const uint64_t wide = block & -(uint64_t)VECTORS;

	watch.spot[spot] = spot ? block + VECTOR - SPOT_SIZE : block;
	watch.by_libc[spot] = wide >= addr && wide + VECTORS <= end;
	return length >= VECTOR && block >= addr && block + VECTOR <= end;
}

static bool is_time(void)
{
	uint64_t now;

	if (++watch.receives > FIRST_RECEIVES && watch.receives % LOOK_ONE_IN)
		return false;
	now = vb_now_ns();
	return (watch.moves < FIRST_MOVES || now >= watch.next_ns) &&
	       (!watch.owner || now > watch.begun_ns + STALE_NS);
}

void vb_watch_receive(struct vb_object *owner, struct vb_work *work)
{
	const struct vb_piece *pieces = vb_work_pieces(work);

	if (!watch.works || !work->piece_count || !is_time())
		return;
	if (!signal_is_ours()) {
		give_up();
		return;
	}
	vb_watch_forget(NULL);
	if (!find_spot(0, pieces[0].range->addr, pieces[0].range->length) ||
	    !find_spot(1, pieces[work->piece_count - 1].range->addr,
		       pieces[work->piece_count - 1].range->length))
		return;
	work->watched = true;
	watch.owner = owner;
	watch.moves++;
	watch.begun_ns = vb_now_ns();
	move_to(watch.spot);
}

void vb_watch_ends(struct vb_work *work)
{
	uint64_t now;

	if (atomic_load(&any_hit))
		tell(work);
	work->watched = false;
	move_to(NULL);
	watch.owner = NULL;
	now = vb_now_ns();
	watch.next_ns = now + PAUSE_FACTOR * (now - watch.begun_ns);
}

void vb_watch_forget(const struct vb_object *owner)
{
	struct vb_work *work = watch.owner ? watched_work() : NULL;

	if (work && (!owner || owner == watch.owner))
		vb_watch_ends(work);
}

void vb_watch_forget_memory(uint64_t addr, uint64_t length)
{
	if (watch.owner && ((watch.spot[0] >= addr && watch.spot[0] < addr + length) ||
			    (watch.spot[1] >= addr && watch.spot[1] < addr + length)))
		vb_watch_forget(NULL);
}

void vb_watch_forked(void)
{
	memset(&watch, 0, sizeof(watch));
	watch.tried = true;
	memset(hits, 0, sizeof(hits));
	atomic_store(&any_hit, false);
}
