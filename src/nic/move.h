/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moving pages: private anonymous memory of the program goes into a file, at the same addresses,
 * and back. A move must not lose a byte, so nothing may write the pages meanwhile:
 *
 *   1. Pages are whole, private, anonymous, writable and not executable. They are no stack.
 *   2. Peers are frozen (freeze.h), and signals wait. The calling thread is the only one of the
 *      program, and the service thread waits for its turn (vb_service_turn). Or the pages are held
 *      (hold.h): every access waits. No thread sleeps on a futex there, whose name would change.
 *   3. No device, ring or asynchronous I/O may have the pages pinned: every descriptor of the
 *      process is of a kind that pins none, and there is no context of aio or io_uring.
 *
 * Where one of these cannot be said, no page moves. The files move_*.c ask, move.c moves.
 *
 * Back: beside other threads writes are held. A system call that writes to pinned pages must not be
 * under way (vb_move_calls_forbid): the kernel is not asked about pins there.
 *
 * Where there is no userfaultfd, nobody can ask for one kind of writer: a process that is no peer,
 * and writes this memory by process_vm_writev or as a debugger (docs/DEVIATIONS.md).
 */
#ifndef VB_NIC_MOVE_H
#define VB_NIC_MOVE_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vb_nic;

/* The service thread holds it whenever it does not sleep. It lies in memory that is no region. */
extern pthread_mutex_t vb_service_turn;

struct vb_range {
	uint64_t start, length;
};

/* --- move_rules.c --- */

enum vb_move_rule { /* bits of vb_move_rules_off */
		    VB_RULE_PAGES = 1 << 0,
		    VB_RULE_THREADS = 1 << 1,
		    VB_RULE_PINS = 1 << 2,
		    VB_RULE_FORK = 1 << 3,
		    VB_RULE_HOLD = 1 << 4,
		    VB_RULE_CALLS = 1 << 5,
		    /* Nothing moves beside other threads, although pages can be held there: calls
		     * that change the mapping while the region ends are not all noticed. */
		    VB_RULE_ALONE = 1 << 6,
};

/* For tests, which show that each rule is needed. Only a library of the tests exports it. */
extern unsigned vb_move_rules_off;

/* The whole pages inside a range; length 0: there are none. */
struct vb_range vb_move_pages(uint64_t addr, uint64_t length);
/* Each: the reason why nothing may move, or NULL. */
const char *vb_move_threads_forbid(pid_t service);
const char *vb_move_pages_forbid(const struct vb_range *range);
/* The caller runs on a stack there. */
bool vb_move_is_stack(const struct vb_range *range);

/* --- move_pins.c; nothing there allocates --- */

/* The reason why nothing may move, or NULL. */
const char *vb_move_pins_forbid(void);
/* The process has a filter of system calls. */
bool vb_move_has_filter(void);

/* --- move_calls.c --- */

/* Calls visit for the entries of a folder, until it returns false. False: there is no folder. */
bool vb_move_list(const char *path, bool (*visit)(int folder, const char *name, void *arg),
		  void *arg);

/*
 * Looks at the system calls in which other threads sleep; allocates nothing. The reason why pages
 * of the range, or of any range with NULL, may not move, or NULL. pins: also calls that may have
 * pages pinned, which the kernel has not been asked about.
 */
const char *vb_move_calls_forbid(const struct vb_range *range, bool pins);

/* --- move.c --- */

struct vb_move {
	struct vb_nic *nic;
	sigset_t signals; /* blocked signals of the program */
	bool alone;       /* nothing of this process but the caller runs until the end */
};

/* Returns NULL, or the reason why there is no move in this direction now; then there is no end. One
 * thread at a time. */
const char *vb_move_begin(struct vb_nic *nic, struct vb_move *move, bool out);
void vb_move_end(struct vb_move *move);

/* An empty sealed file, longer than any mapping can grow; -errno. */
int vb_move_file(void);
/* Moves the range, whole pages, into the file. 0 or -errno: nothing has moved. */
int vb_move_out(struct vb_move *move, const struct vb_range *range, int file);
/* Makes all that this process has mapped of the file private memory again. 0 or -errno: some of it
 * may not have moved. */
int vb_move_back(struct vb_move *move, int file);
/* The same in a child of fork, which is alone. */
int vb_move_back_in_child(int file);

/* Calls visit for each mapping of the file in this process; stops at an error, and returns it. */
struct vb_mapping {
	uint64_t start, length, offset;
	int prot;
};
int vb_mappings_of(int file, int (*visit)(const struct vb_mapping *at, void *arg), void *arg);

#endif
