/* SPDX-License-Identifier: BSD-2-Clause */
/* A filter that refuses membarrier, as containers have one: the process must fence by itself. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>

#include <cmocka.h>

#include "base/barrier.h"

/* Refuses one command of membarrier; -1: all of them. */
static bool filter(int command, int error)
{
	const uint32_t refuse = SECCOMP_RET_ERRNO | (uint32_t)error;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)command, 0, command < 0 ? 0 : 1),
		BPF_STMT(BPF_RET | BPF_K, refuse),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static int work_filtered(int command, int error)
{
	if (!filter(command, error))
		return 77;
	return vb_barrier_register() || vb_barrier_others();
}

static void refused(int command, int error)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(work_filtered(command, error));
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static void test_all(void **state)
{
	(void)state;
	refused(-1, EPERM);
	refused(-1, ENOSYS);
}

/* A registration that succeeds is worth nothing if no process can use it. */
static void test_use(void **state)
{
	(void)state;
	refused(MEMBARRIER_CMD_GLOBAL_EXPEDITED, EPERM);
}

static void test_unfiltered(void **state)
{
	(void)state;
	assert_int_equal(vb_barrier_register(), vb_barrier_others());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_use),
		cmocka_unit_test(test_unfiltered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
