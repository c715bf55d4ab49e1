/* SPDX-License-Identifier: BSD-2-Clause */
/* The table "Who goes where" of ARCHITECTURE.md, row by row, and that nothing is left undecided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../child.h"
#include "nic/choice.h"

enum { CONFIGURED = 4 };

/* Processes of this host, as they are when nothing forbids the local path. */
#define SELF  .local = true, .process = VB_PROCESS_SELF, .touchable = true
#define OTHER .local = true, .process = VB_PROCESS_OTHER, .touchable = true

struct row {
	const char *peer;
	struct vb_choice_facts facts;
	enum vb_choice choice[CONFIGURED]; /* by enum vb_path_choice: auto, wire, slot, sim */
};

/* clang-format off */
#define CHOICES(a, w, s, m) { VB_CHOICE_##a, VB_CHOICE_##w, VB_CHOICE_##s, VB_CHOICE_##m }
/* clang-format on */

static const struct row rows[] = {
	{ "attached, memory can be read both ways", { OTHER }, CHOICES(LOCAL, UDP, SLOT, MEMORY) },
	{ "this process", { SELF }, CHOICES(LOCAL, UDP, MEMORY, MEMORY) },
	{ "attached, memory cannot be read",
	  { .local = true, .process = VB_PROCESS_OTHER },
	  CHOICES(SLOT, UDP, SLOT, MEMORY) },
	{ "this process, which may not read its own memory through the kernel",
	  { .local = true, .process = VB_PROCESS_SELF },
	  CHOICES(MEMORY, UDP, MEMORY, MEMORY) },
	{ "a QP of another process that wants packets",
	  { OTHER, .by_packets = true },
	  CHOICES(SLOT, UDP, SLOT, MEMORY) },
	{ "a QP of this process that wants packets",
	  { SELF, .by_packets = true },
	  CHOICES(MEMORY, UDP, MEMORY, MEMORY) },
	{ "a process that was not asked yet",
	  { .local = true, .process = VB_PROCESS_UNASKED },
	  CHOICES(ATTACH, UDP, ATTACH, MEMORY) },
	{ "this host, but none of its processes",
	  { .local = true, .process = VB_PROCESS_NONE },
	  CHOICES(UDP, UDP, MEMORY, MEMORY) },
	{ "another host", { .process = VB_PROCESS_NONE }, CHOICES(UDP, UDP, UDP, UDP) },
	{ "another host, by a number that is a slot here",
	  { .process = VB_PROCESS_OTHER, .touchable = true },
	  CHOICES(UDP, UDP, UDP, UDP) },
	{ "a multicast group on a link", { .multicast = true }, CHOICES(UDP, UDP, UDP, UDP) },
	{ "a multicast group within this host",
	  { .multicast = true, .within_host = true },
	  CHOICES(GROUP, GROUP, GROUP, GROUP) },
};

static void each_row_of_the_table_goes_its_way(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		for (int path = 0; path < CONFIGURED; path++) {
			const enum vb_choice choice =
				vb_choice_of((enum vb_path_choice)path, &rows[i].facts);

			if (choice != rows[i].choice[path])
				fail_msg("%s, VERBENA_PATH %d: %d", rows[i].peer, path, choice);
		}
	}
}

/* The facts that a number stands for: six bits and a process. */
static struct vb_choice_facts facts_of(unsigned number)
{
	return (struct vb_choice_facts){
		.local = number & 1,
		.multicast = number & 2,
		.within_host = number & 4,
		.touchable = number & 8,
		.by_packets = number & 16,
		.process = (enum vb_choice_process)(number >> 5 & 3),
	};
}

/* Memory is touched only where that is possible, wanted and not overruled. */
static void memory_is_touched_only_where_both_ends_can_and_nobody_wants_packets(void **state)
{
	(void)state;
	for (unsigned number = 0; number < 128; number++) {
		const struct vb_choice_facts facts = facts_of(number);
		const bool attached =
			facts.process == VB_PROCESS_SELF || facts.process == VB_PROCESS_OTHER;
		const bool possible = facts.local && !facts.multicast && attached &&
				      facts.touchable && !facts.by_packets;

		for (int path = 0; path < CONFIGURED; path++)
			assert_int_equal(vb_choice_of((enum vb_path_choice)path, &facts) ==
						 VB_CHOICE_LOCAL,
					 possible && path == VB_PATH_AUTO);
	}
}

/* --- facts --- */

static void facts_follow_the_state_of_the_peer(void **state)
{
	static const struct {
		enum vb_peer_state state;
		bool denied, self;
		enum vb_choice_process process;
		bool touchable;
	} peers[] = {
		{ VB_PEER_CONNECTING, false, false, VB_PROCESS_UNASKED, false },
		{ VB_PEER_READY, false, false, VB_PROCESS_OTHER, true },
		{ VB_PEER_READY, true, false, VB_PROCESS_OTHER, false },
		{ VB_PEER_READY, false, true, VB_PROCESS_SELF, true },
		{ VB_PEER_READY, true, true, VB_PROCESS_SELF, false },
		{ VB_PEER_NO_PATH, false, false, VB_PROCESS_OTHER, false },
		{ VB_PEER_GONE, false, false, VB_PROCESS_UNASKED, false },
	};
	const struct vb_av av = { .local = true };
	struct vb_choice_facts facts = vb_choice_facts(&av, NULL);

	(void)state;
	assert_int_equal(facts.process, VB_PROCESS_UNASKED);
	assert_true(facts.local && !facts.touchable && !facts.multicast && !facts.by_packets);
	for (size_t i = 0; i < sizeof(peers) / sizeof(*peers); i++) {
		struct vb_peer peer = { .self = peers[i].self };

		atomic_store(&peer.state, peers[i].state);
		atomic_store(&peer.denied, peers[i].denied);
		facts = vb_choice_facts(&av, &peer);
		assert_int_equal(facts.process, peers[i].process);
		assert_int_equal(facts.touchable, peers[i].touchable);
	}
}

/* --- the host as a whole: VERBENA_PATH is read once, so each case is a process of its own --- */

struct host {
	const char *path;
	bool udp_to_self, never_udp_to_self, may_touch, memory_leads_on;
};

static int is_as_configured(const void *arg)
{
	const struct host *host = arg;
	const struct vb_choice_facts self = { SELF };
	static const enum vb_choice to_self[] = { VB_CHOICE_LOCAL, VB_CHOICE_UDP, VB_CHOICE_MEMORY,
						  VB_CHOICE_MEMORY };

	setenv("VERBENA_PATH", host->path, 1);
	child_check(vb_choice_udp_to_self() == host->udp_to_self);
	child_check(vb_choice_never_udp_to_self() == host->never_udp_to_self);
	child_check(vb_choice_may_touch() == host->may_touch);
	child_check(vb_choice_memory_leads_on() == host->memory_leads_on);
	child_check(vb_choose(&self) == to_self[vb_config_path()]);
	return 0;
}

static void the_variable_decides_for_the_host(void **state)
{
	static const struct host hosts[] = {
		{ "auto", false, false, true, false },
		{ "wire", true, false, true, false },
		{ "slot", false, true, false, false },
		{ "sim", false, true, true, true },
	};
	char said[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++)
		assert_int_equal(child_run(is_as_configured, &hosts[i], said, sizeof(said)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_of_the_table_goes_its_way),
		cmocka_unit_test(
			memory_is_touched_only_where_both_ends_can_and_nobody_wants_packets),
		cmocka_unit_test(facts_follow_the_state_of_the_peer),
		cmocka_unit_test(the_variable_decides_for_the_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
