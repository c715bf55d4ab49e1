/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slots among several users, in a network of the test's own:
 *
 *	hog (64321)      binds whatever names it likes
 *	honest (64322)   claims slots
 *	root             connects to them
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../child.h"
#include "base/limits.h"
#include "shm/slot.h"
#include "shm/slot_user.h"

enum { HOG = 64321, HONEST = 64322, SUBUID = 165536, LIMIT_MIN = 900, LIMIT_MAX = 1300 };

/* --- weights --- */

static unsigned own_count(uint32_t user)
{
	unsigned count = 0;

	for (uint32_t slot = VB_SLOT_MIN; slot <= VB_SLOT_MAX; slot++)
		count += vb_slot_weight(user, slot) > 0;
	return count;
}

static void each_user_has_some_slots_of_its_own(void **state)
{
	for (uint32_t user = 0; user < 2000; user++)
		assert_in_range(own_count(user), 30, 300);
	assert_in_range(own_count(SUBUID), 30, 120);
}

/* The best slots of a user: how many users win one of them? */
static void few_users_win_the_slot_of_another(void **state)
{
	unsigned lost = 0;

	for (uint32_t user = 1000; user < 1100; user++) {
		uint32_t best = VB_SLOT_OWN_MIN;

		for (uint32_t slot = VB_SLOT_OWN_MIN; slot <= VB_SLOT_MAX; slot++)
			if (vb_slot_weight(user, slot) > vb_slot_weight(user, best))
				best = slot;
		for (uint32_t other = 2000; other < 2100; other++)
			lost += vb_slot_weight(other, best) >= vb_slot_weight(user, best);
	}
	assert_in_range(lost, 0, 40); /* of 10000 */
}

/* One user has thousands of those. */
static void subuids_have_none_of_the_slots_of_accounts_nor_of_root(void **state)
{
	for (uint32_t slot = VB_SLOT_MIN; slot <= VB_SLOT_MAX; slot++) {
		bool account = false;

		for (uint32_t user = 0; user < 200; user++)
			account |= vb_slot_weight(user, slot) > 0;
		for (uint32_t user = SUBUID; account && user < SUBUID + 200; user++)
			assert_int_equal(vb_slot_weight(user, slot), 0);
	}
}

static void uids_are_those_outside_of_the_user_namespace(void **state)
{
	static struct vb_uid_map map = { 2, { { 0, 1000, 1 }, { 1, 100000, 65536 } } };
	uint32_t user;

	assert_true(vb_uid_outside(&map, 0, &user) && user == 1000);
	assert_true(vb_uid_outside(&map, 33, &user) && user == 100032);
	assert_false(vb_uid_outside(&map, 70000, &user));
}

/* --- processes of users --- */

static bool is_apart(void)
{
	const struct rlimit limit = { 16384, 16384 };

	if (geteuid() || setrlimit(RLIMIT_NOFILE, &limit) || unshare(CLONE_NEWNET)) {
		print_message("# SKIPPED: only root can be other users in a network of its own\n");
		return false;
	}
	return true;
}

struct actor {
	pid_t pid;
	int talk; /* it writes what it has to say */
};

/* In a child, where cmocka's assertions are of no use. */
static void require(bool condition, const char *what)
{
	if (condition)
		return;
	dprintf(STDERR_FILENO, "%s\n", what);
	_exit(1);
}

static struct actor act_as(uid_t uid, int (*body)(int talk))
{
	struct actor actor;
	int ends[2];

	require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "a socket pair");
	actor.pid = fork();
	if (!actor.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setresuid(uid, uid, uid) || body(ends[1]))
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	actor.talk = ends[0];
	return actor;
}

static uint32_t hear(const struct actor *actor)
{
	uint32_t word;

	require(read(actor->talk, &word, sizeof(word)) == sizeof(word), "an actor ended");
	return word;
}

static void dismiss(struct actor *actor)
{
	int status;

	close(actor->talk);
	kill(actor->pid, SIGKILL);
	require(waitpid(actor->pid, &status, 0) == actor->pid, "the end of an actor");
}

static int say(int talk, uint32_t word)
{
	return write(talk, &word, sizeof(word)) != sizeof(word);
}

static void bind_name(int type, const char *format, uint32_t slot)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type, 0);
	int length = snprintf(address.sun_path + 1, 64, format, slot);

	if (!bind(fd, (void *)&address,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)))
		listen(fd, 1);
}

/* Each of the names by which a slot could be known. */
static int bind_all(int talk)
{
	for (uint32_t slot = VB_SLOT_MIN; slot <= VB_SLOT_MAX; slot++) {
		bind_name(SOCK_SEQPACKET, "verbena.%u", slot);
		if (slot >= VB_SLOT_OWN_MIN)
			bind_name(SOCK_SEQPACKET, "verbena.%u.00c0ffee00c0ffee", slot);
	}
	return say(talk, 0);
}

static int bind_all_of_cm(int talk)
{
	for (uint32_t slot = VB_SLOT_MIN; slot <= VB_SLOT_MAX; slot++) {
		bind_name(SOCK_DGRAM, slot % 2 ? "verbena.cm.%u" : "verbena.cm.%u.00c0ffee00c0ffee",
			  slot);
		if (slot % 2 == 0)
			bind_name(SOCK_SEQPACKET, "verbena.cm.life.%u", slot);
	}
	return say(talk, 0);
}

static int claim_one(int talk)
{
	static struct vb_slot_claim claim;
	int err = vb_slot_claim(&claim, true);

	return say(talk, err ? 0 : claim.slot);
}

/* As many as it gets. */
static int claim_all(int talk)
{
	static struct vb_slot_claim claim;
	uint32_t count = 0;
	int err;

	while (!(err = vb_slot_claim(&claim, false)))
		count++;
	return err != -EMFILE || say(talk, count);
}

static bool leads_to(uint32_t slot, pid_t pid)
{
	struct ucred cred = { 0 };
	socklen_t size = sizeof(cred);
	int fd;

	while ((fd = vb_slot_connect(slot)) == -EAGAIN)
		sched_yield();
	if (fd >= 0)
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size);
	close(fd);
	return cred.pid == pid;
}

static int body_denies_nobody(const void *arg)
{
	struct actor hog, honest[8];

	if (!is_apart())
		return 0;
	hog = act_as(HOG, (int (*)(int))arg);
	hear(&hog);
	for (int i = 0; i < 8; i++) {
		uint32_t slot;

		honest[i] = act_as(i % 2 ? HONEST : 0, claim_one);
		slot = hear(&honest[i]);
		child_check(slot >= VB_SLOT_OWN_MIN);
		child_check(leads_to(slot, honest[i].pid));
		for (int j = 0; j < i; j++)
			child_check(!leads_to(slot, honest[j].pid));
	}
	for (int i = 0; i < 8; i++)
		dismiss(&honest[i]);
	dismiss(&hog);
	return 0;
}

static void a_user_who_binds_all_slots_denies_nobody(void **state)
{
	assert_child_passes(body_denies_nobody, (const void *)bind_all);
}

static void a_user_who_binds_all_names_of_cm_denies_nobody(void **state)
{
	assert_child_passes(body_denies_nobody, (const void *)bind_all_of_cm);
}

static int body_limit(const void *arg)
{
	struct actor hog, honest;

	if (!is_apart())
		return 0;
	hog = act_as(HOG, claim_all);
	child_check(hear(&hog) >= LIMIT_MIN);
	honest = act_as(HONEST, claim_all);
	child_check(hear(&honest) >= LIMIT_MIN / 2);
	dismiss(&honest);
	dismiss(&hog);
	honest = act_as(HONEST, claim_all);
	child_check(hear(&honest) <= LIMIT_MAX);
	dismiss(&honest);
	return 0;
}

static void one_user_gets_no_more_than_its_part(void **state)
{
	assert_child_passes(body_limit, NULL);
}

static uint32_t target;

static int bind_target(int talk)
{
	bind_name(SOCK_SEQPACKET, "verbena.%u.00c0ffee00c0ffee", target);
	bind_name(SOCK_SEQPACKET, "verbena.%u", target);
	return say(talk, 0);
}

/* The name is there, and the number is not for that user. */
static int body_impostor(const void *arg)
{
	struct actor hog, honest, impostor;

	if (!is_apart())
		return 0;
	hog = act_as(HOG, bind_all);
	hear(&hog);
	honest = act_as(HONEST, claim_one);
	target = hear(&honest);
	child_check(leads_to(target, honest.pid));
	for (uid_t uid = 1; uid < 20; uid++) {
		if (vb_slot_weight(uid, target) >= vb_slot_weight(HONEST, target))
			continue;
		impostor = act_as(uid, bind_target);
		hear(&impostor);
		vb_slot_lost(target);
		child_check(leads_to(target, honest.pid));
		dismiss(&impostor);
	}
	dismiss(&honest);
	vb_slot_lost(target);
	child_check(vb_slot_connect(target) < 0);
	dismiss(&hog);
	return 0;
}

static void nobody_is_led_to_an_impostor(void **state)
{
	assert_child_passes(body_impostor, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_user_has_some_slots_of_its_own),
		cmocka_unit_test(few_users_win_the_slot_of_another),
		cmocka_unit_test(subuids_have_none_of_the_slots_of_accounts_nor_of_root),
		cmocka_unit_test(uids_are_those_outside_of_the_user_namespace),
		cmocka_unit_test(a_user_who_binds_all_slots_denies_nobody),
		cmocka_unit_test(a_user_who_binds_all_names_of_cm_denies_nobody),
		cmocka_unit_test(one_user_gets_no_more_than_its_part),
		cmocka_unit_test(nobody_is_led_to_an_impostor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
