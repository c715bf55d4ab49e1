/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a program with the rights that it has in a container of default settings: root keeps a few
 * capabilities, mounts and namespaces are refused, and so are the system calls that the default
 * seccomp profile of Docker does not allow.
 *
 *   confine COMMAND [ARGUMENT]...
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

enum { EXIT_SKIPPED = 77, EXIT_FAILED = 1, NEW_NAMESPACES = 0x7e020000 };

/* What the engines leave to root. */
static const unsigned kept[] = {
	CAP_AUDIT_WRITE, CAP_CHOWN,      CAP_DAC_OVERRIDE, CAP_FOWNER,
	CAP_FSETID,      CAP_KILL,       CAP_MKNOD,        CAP_NET_RAW,
	CAP_SETFCAP,     CAP_SETGID,     CAP_SETPCAP,      CAP_NET_BIND_SERVICE,
	CAP_SETUID,      CAP_SYS_CHROOT,
};

/*
 * https://github.com/moby/profiles, seccomp/default.json: all calls but those that it allows to
 * these capabilities. Calls that no kernel of these days has are left out.
 */
static const unsigned refused[] = {
	SYS_acct,
	SYS_add_key,
	SYS_bpf,
	SYS_clock_settime,
	SYS_delete_module,
	SYS_fanotify_init,
	SYS_finit_module,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_fsopen,
	SYS_fspick,
	SYS_get_mempolicy,
	SYS_init_module,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_io_uring_setup,
	SYS_kcmp,
	SYS_kexec_file_load,
	SYS_kexec_load,
	SYS_keyctl,
	SYS_mbind,
	SYS_migrate_pages,
	SYS_mount,
	SYS_mount_setattr,
	SYS_move_mount,
	SYS_move_pages,
	SYS_open_by_handle_at,
	SYS_open_tree,
	SYS_perf_event_open,
	SYS_pidfd_getfd,
	SYS_pivot_root,
	SYS_process_madvise,
	SYS_quotactl,
	SYS_quotactl_fd,
	SYS_reboot,
	SYS_request_key,
	SYS_set_mempolicy,
	SYS_setdomainname,
	SYS_sethostname,
	SYS_setns,
	SYS_settimeofday,
	SYS_swapoff,
	SYS_swapon,
	SYS_syslog,
	SYS_umount2,
	SYS_unshare,
	SYS_userfaultfd,
	SYS_vhangup,
#ifdef SYS_set_mempolicy_home_node
	SYS_set_mempolicy_home_node,
#endif
#ifdef __x86_64__
	SYS_ioperm,
	SYS_iopl,
	SYS_sysfs,
	SYS_uselib,
	SYS_ustat,
#endif
};
enum { REFUSED_COUNT = sizeof(refused) / sizeof(refused[0]), FILTER_MAX = REFUSED_COUNT * 2 + 48 };

static const unsigned personalities[] = {
	0, PER_LINUX32, UNAME26, UNAME26 | PER_LINUX32, 0xffffffff,
};

static void add(struct sock_fprog *program, struct sock_filter instruction)
{
	program->filter[program->len++] = instruction;
}

static void load(struct sock_fprog *program, size_t offset)
{
	add(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void answer(struct sock_fprog *program, unsigned value)
{
	add(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value));
}

/* Skips the next instructions unless the loaded word equals the value. */
static void unless_equal(struct sock_fprog *program, unsigned value, unsigned char skip)
{
	add(program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip));
}

/* What follows is for one call, skip instructions long, and sees its first argument. */
static void if_call(struct sock_fprog *program, unsigned call, unsigned char skip)
{
	unless_equal(program, call, skip + 1);
	load(program, offsetof(struct seccomp_data, args[0]));
}

static void refuse_namespaces(struct sock_fprog *program)
{
	if_call(program, SYS_clone, 3);
	add(program,
	    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1));
	answer(program, SECCOMP_RET_ERRNO | EPERM);
	answer(program, SECCOMP_RET_ALLOW);
}

static void refuse_families(struct sock_fprog *program)
{
	if_call(program, SYS_socket, 5);
	unless_equal(program, AF_ALG, 1);
	answer(program, SECCOMP_RET_ERRNO | EPERM);
	unless_equal(program, AF_VSOCK, 1);
	answer(program, SECCOMP_RET_ERRNO | EPERM);
	answer(program, SECCOMP_RET_ALLOW);
}

static void refuse_personalities(struct sock_fprog *program)
{
	const size_t count = sizeof(personalities) / sizeof(personalities[0]);

	if_call(program, SYS_personality, count * 2 + 1);
	for (size_t i = 0; i < count; i++) {
		unless_equal(program, personalities[i], 1);
		answer(program, SECCOMP_RET_ALLOW);
	}
	answer(program, SECCOMP_RET_ERRNO | EPERM);
}

/* clone3 passes its flags by a pointer: the engines say that the kernel has no such call. */
static void fill(struct sock_fprog *program)
{
	const unsigned eperm = SECCOMP_RET_ERRNO | EPERM, enosys = SECCOMP_RET_ERRNO | ENOSYS;

	load(program, offsetof(struct seccomp_data, arch));
	unless_equal(program, THIS_ARCH, 1);
	add(program, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
	answer(program, eperm);
	load(program, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < REFUSED_COUNT; i++) {
		unless_equal(program, refused[i], 1);
		answer(program, eperm);
	}
	unless_equal(program, SYS_clone3, 1);
	answer(program, enosys);
	refuse_namespaces(program);
	refuse_families(program);
	refuse_personalities(program);
	answer(program, SECCOMP_RET_ALLOW);
}

static int install_filter(void)
{
	struct sock_filter instructions[FILTER_MAX];
	struct sock_fprog program = { 0, instructions };

	fill(&program);
	if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 0;
	/* A user without rights may, if nothing that he starts gains any. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static bool is_kept(unsigned capability)
{
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (kept[i] == capability)
			return true;
	return false;
}

/* From the bounding set and from this process, which may be no root at all. */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct sets[2];

	for (unsigned i = 0; i <= CAP_LAST_CAP; i++)
		if (!is_kept(i))
			prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	if (syscall(SYS_capget, &header, sets))
		return -1;
	for (unsigned i = 0; i <= CAP_LAST_CAP; i++)
		if (!is_kept(i)) {
			sets[i / 32].effective &= ~(1U << i % 32);
			sets[i / 32].permitted &= ~(1U << i % 32);
			sets[i / 32].inheritable &= ~(1U << i % 32);
		}
	return syscall(SYS_capset, &header, sets);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: confine COMMAND [ARGUMENT]...\n");
		return 2;
	}
	if (install_filter()) {
		fprintf(stderr, "confine: no filter of system calls here: %s\n", strerror(errno));
		return EXIT_SKIPPED;
	}
	if (drop_capabilities()) {
		perror("confine: capabilities");
		return EXIT_FAILED;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return EXIT_FAILED;
}
