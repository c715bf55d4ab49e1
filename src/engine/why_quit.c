/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Under VERBENA_EXPLAIN or the adversary, SIGQUIT asks a program why it does not go on, unless the
 * program has a handler of its own. The handler only rings. A thread of its own asks: it has to
 * wait for the service threads of this process and of others.
 */
#include "engine/why_quit.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/adversary.h"
#include "base/config.h"
#include "base/log.h"
#include "engine/attach/why_words.h"

enum { GAP_MS = 200 };

static struct vb_nic *_Atomic rung_nic;
static _Atomic pid_t rung_pid;
static _Atomic bool asked;

/* A child of fork has no service thread, and its parent's descriptors are closed: it ends. */
static void on_quit(int number)
{
	if (atomic_load(&rung_pid) != getpid()) {
		signal(number, SIG_DFL);
		raise(number);
		return;
	}
	atomic_store(&asked, true);
	vb_nic_ring(atomic_load(&rung_nic));
}

static void print_line(void *arg, const char *line)
{
	(void)arg;
	vb_explain_each("%s", line);
}

static void *answer(void *arg)
{
	const struct vb_why_question question = { .pid = getpid(), .say = print_line };
	struct vb_why_verdict verdict;
	struct vb_why why;

	if (vb_adversary_on())
		vb_adversary_report("SIGQUIT");
	if (vb_why_look(&why, &question, GAP_MS))
		return NULL;
	verdict = vb_why_tell(&why, &question);
	vb_why_free(&why);
	if (!verdict.stuck)
		vb_explain_each("SIGQUIT: nothing is stuck: %u QPs got on in the last %d ms",
				verdict.moved, GAP_MS);
	return arg;
}

void vb_why_quit_watch(struct vb_nic *nic)
{
	const struct sigaction ours = { .sa_handler = on_quit, .sa_flags = SA_RESTART };
	struct sigaction before;

	atomic_store(&rung_nic, nic);
	atomic_store(&rung_pid, getpid());
	if ((vb_config_explain() || vb_adversary_on()) && !sigaction(SIGQUIT, NULL, &before) &&
	    before.sa_handler == SIG_DFL)
		sigaction(SIGQUIT, &ours, NULL);
}

void vb_why_quit_look(void)
{
	if (atomic_load_explicit(&asked, memory_order_relaxed) && atomic_exchange(&asked, false))
		vb_engine_start_thread(answer, NULL);
}
