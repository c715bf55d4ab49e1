/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles: how their text is read, what this device makes of it, and the profiles that we have. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../child.h"
#include "base/limits.h"
#include "nic/profile.h"
#include "nic/qp_cap.h"

/* --- the text --- */

static const struct {
	const char *text;
	enum vb_fact fact;
	uint64_t value;
	const char *why; /* refused, with these words */
} rows[] = {
	{ "max_sge 30", VB_FACT_MAX_SGE, 30 },
	{ "\n# a comment\n\tmax_sge\t 0x1e # and one more\r\n", VB_FACT_MAX_SGE, 30 },
	{ "max_mr_size 0xffffffffffffffff", VB_FACT_MAX_MR_SIZE, UINT64_MAX },
	{ "page_size_cap 0x40201000", VB_FACT_PAGE_SIZE_CAP, 0x40201000 },
	{ "qp_types RC UD", VB_FACT_QP_TYPES, 1 << IBV_QPT_RC | 1 << IBV_QPT_UD },
	{ "qp_types XRC", VB_FACT_QP_TYPES, 1 << IBV_QPT_XRC_SEND | 1 << IBV_QPT_XRC_RECV },
	{ "qp_types RC\nqp_types UD", VB_FACT_QP_TYPES, 1 << IBV_QPT_RC | 1 << IBV_QPT_UD },
	{ "odp_rc none", VB_FACT_ODP_RC, 0 },
	{ "atomic_cap NONE", VB_FACT_ATOMIC_CAP, IBV_ATOMIC_NONE },
	{ "max_mtu 1024", VB_FACT_MAX_MTU, IBV_MTU_1024 },
	{ "inline_excess lowers", VB_FACT_INLINE_EXCESS, VB_INLINE_EXCESS_LOWERS },
	{ "", .why = "there is no fact" },
	{ "# only a comment\n\n", .why = "there is no fact" },
	{ "max_sge 3\nmax_foo 3", .why = "line 2: 'max_foo' is no fact" },
	{ "\n\nmax_sge", .why = "line 3: 'max_sge' has no value" },
	{ "max_sge # 30", .why = "line 1: 'max_sge' has no value" },
	{ "max_sge 3 4", .why = "line 1: '4' is one value too many" },
	{ "max_sge 3\nmax_sge 3", .why = "line 2: 'max_sge' is there already" },
	{ "max_mtu 256\nmax_mtu 256", .why = "line 2: 'max_mtu' is there already" },
	{ "max_sge thirty", .why = "'thirty' is no number" },
	{ "max_sge 30x", .why = "'30x' is no number" },
	{ "max_sge -1", .why = "'-1' is no number" },
	{ "max_sge 99999999999999999999", .why = "is no number of 64 bits" },
	{ "max_mtu 1500", .why = "'1500' is no value of this fact" },
	{ "qp_types RC RD", .why = "'RD' is no value of this fact" },
	{ "atomic_cap none", .why = "'none' is no value of this fact" },
	{ "odp_rc none SEND", .why = "'SEND' is one value too many" },
	{ "MAX_SGE 3", .why = "'MAX_SGE' is no fact" },
};

static void texts_are_read_or_refused_with_their_line(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char why[VB_PROFILE_WHY_MAX] = "";
		struct vb_profile profile;
		const int err = vb_profile_parse(rows[i].text, &profile, why);

		assert_int_equal(err, rows[i].why ? -EINVAL : 0);
		if (rows[i].why) {
			assert_non_null(strstr(why, rows[i].why));
			continue;
		}
		for (int fact = 0; fact < VB_FACT_COUNT; fact++)
			assert_int_equal(profile.named[fact], fact == (int)rows[i].fact);
		assert_true(profile.value[rows[i].fact] == rows[i].value);
	}
}

static void a_long_word_is_refused_whole(void **state)
{
	char text[512], why[VB_PROFILE_WHY_MAX];
	struct vb_profile profile;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(vb_profile_parse(text, &profile, why), -EINVAL);
	memcpy(text, "max_sge ", 8);
	memset(text + 8, '1', sizeof(text) - 9);
	assert_int_equal(vb_profile_parse(text, &profile, why), -EINVAL);
}

static void every_fact_has_a_name_of_its_own(void **state)
{
	for (int i = 0; i < VB_FACT_COUNT; i++) {
		assert_non_null(vb_fact_rows[i].name);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(vb_fact_rows[i].name, vb_fact_rows[k].name);
		assert_true(vb_fact(i) == vb_fact_rows[i].own);
	}
}

/* --- what this device makes of it --- */

static struct vb_profile parsed(const char *text)
{
	char why[VB_PROFILE_WHY_MAX];
	struct vb_profile profile;

	assert_int_equal(vb_profile_parse(text, &profile, why), 0);
	return profile;
}

static void what_this_device_lacks_is_lowered_and_told(void **state)
{
	static const struct {
		const char *text;
		enum vb_fact fact;
		uint64_t here;
		const char *excess; /* NULL: none */
	} cases[] = {
		{ "max_sge 32", VB_FACT_MAX_SGE, 32 },
		{ "max_sge 33", VB_FACT_MAX_SGE, 32, "max_sge 33: here 32" },
		{ "max_srq 0", VB_FACT_MAX_SRQ, 0 },
		{ "atomic_cap GLOB", VB_FACT_ATOMIC_CAP, IBV_ATOMIC_HCA,
		  "atomic_cap GLOB: here HCA" },
		{ "device_cap_flags XRC CHANGE_PHY_PORT", VB_FACT_DEVICE_CAP_FLAGS, IBV_DEVICE_XRC,
		  "device_cap_flags CHANGE_PHY_PORT: not here" },
		{ "sq_bytes_max 99999999999", VB_FACT_SQ_BYTES_MAX, 99999999999 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct vb_profile profile = parsed(cases[i].text);
		char text[2 * VB_PROFILE_VALUE_MAX];

		assert_true(vb_profile_fact(&profile, cases[i].fact) == cases[i].here);
		assert_int_equal(vb_profile_exceeds(&profile, cases[i].fact),
				 cases[i].excess != NULL);
		vb_profile_print_excess(&profile, cases[i].fact, text);
		if (cases[i].excess)
			assert_string_equal(text, cases[i].excess);
		assert_true(vb_profile_fact(&profile, VB_FACT_MAX_PD) == VB_PD_MAX);
	}
}

static void a_fact_may_take_away_from_others(void **state)
{
	const struct vb_profile atomics = parsed("atomic_cap NONE"), xrc = parsed("qp_types RC UC"),
				odp = parsed("odp_general none");

	assert_false(vb_profile_fact(&atomics, VB_FACT_SEND_OPS) &
		     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	assert_true(vb_profile_fact(&atomics, VB_FACT_SEND_OPS) & IBV_QP_EX_WITH_ATOMIC_WRITE);
	assert_false(vb_profile_fact(&xrc, VB_FACT_DEVICE_CAP_FLAGS) & IBV_DEVICE_XRC);
	assert_int_equal(vb_profile_fact(&odp, VB_FACT_ODP_RC), 0);
	assert_true(vb_profile_fact(&xrc, VB_FACT_ODP_RC) == vb_fact_rows[VB_FACT_ODP_RC].own);
}

static void adopt(const char *text)
{
	const struct vb_profile profile = parsed(text);
	uint64_t values[VB_FACT_COUNT];

	for (int i = 0; i < VB_FACT_COUNT; i++)
		values[i] = vb_profile_fact(&profile, i);
	vb_facts_set(values);
}

/* --- the memory of a send queue, with the figures of libmlx5 --- */

static const char blocks[] = "max_qp_wr 32768\nsq_bytes_max 2097152\nsq_wqe_bytes_max 1024\n"
			     "sq_wqe_bytes_align 64\nsq_wqe_bytes_send 16\nsq_wqe_bytes_rdma 32\n"
			     "sq_wqe_bytes_atomic 48\nsq_wqe_bytes_bind 192\nsq_wqe_bytes_ud 48\n"
			     "sq_wqe_bytes_xrc 16";

static int queues_with_blocks(const void *arg)
{
	static const struct {
		enum ibv_qp_type type;
		uint64_t ops;
		uint32_t wr, sge, inline_data;
		bool fits;
		uint32_t wr_granted, inline_granted;
	} cases[] = {
		/* 192 + 16, in blocks of 64: 256 bytes. */
		{ IBV_QPT_RC, 0, 1, 1, 0, true, 1, 60 },
		{ IBV_QPT_RC, 0, 100, 1, 0, true, 128, 60 },
		{ IBV_QPT_RC, 0, 8192, 1, 0, true, 8192, 60 },
		{ IBV_QPT_RC, 0, 8193, 1, 0, false },
		{ IBV_QPT_RC, 0, 8192, 4, 60, true, 8192, 60 },
		{ IBV_QPT_RC, 0, 8192, 5, 0, false },
		{ IBV_QPT_RC, 0, 8192, 1, 61, false },
		/* 192 + 4 + 828 = 1024. */
		{ IBV_QPT_RC, 0, 1, 1, 828, true, 1, 828 },
		{ IBV_QPT_RC, 0, 1, 1, 829, false },
		{ IBV_QPT_RC, 0, 2048, 1, 828, true, 2048, 828 },
		{ IBV_QPT_RC, 0, 2049, 1, 828, false },
		/* Without binds more fits: 16 + 4 + 1004. */
		{ IBV_QPT_RC, IBV_QP_EX_WITH_SEND, 1, 1, 1004, true, 1, 1004 },
		{ IBV_QPT_RC, IBV_QP_EX_WITH_SEND, 1, 1, 1005, false },
		{ IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE, 16384, 2, 0, true, 16384, 28 },
		{ IBV_QPT_UD, 0, 16384, 4, 0, true, 16384, 60 },
		{ IBV_QPT_UD, 0, 16384, 5, 0, false },
		{ IBV_QPT_XRC_SEND, 0, 8192, 3, 0, true, 8192, 44 },
		{ IBV_QPT_XRC_SEND, 0, 8192, 4, 0, false },
		{ IBV_QPT_RAW_PACKET, 0, 16384, 30, 0, true, 16384, 0 },
		{ IBV_QPT_RC, 0, 0, 1, 0, true, 0, 0 },
	};

	adopt(blocks);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ibv_qp_init_attr attr = {
			.qp_type = cases[i].type,
			.cap = { .max_send_wr = cases[i].wr,
				 .max_send_sge = cases[i].sge,
				 .max_inline_data = cases[i].inline_data },
		};
		const int err = vb_qp_cap_fit(&attr, cases[i].ops);

		child_check(err == (cases[i].fits ? 0 : -EINVAL));
		child_check(err || (attr.cap.max_send_wr == cases[i].wr_granted &&
				    attr.cap.max_inline_data == cases[i].inline_granted));
	}
	return 0;
}

static void a_send_queue_is_as_deep_as_its_memory(void **state)
{
	assert_child_passes(queues_with_blocks, NULL);
}

/* --- the environment --- */

static int without_variable(const void *arg)
{
	child_check(!vb_profile_load() && vb_fact(VB_FACT_MAX_SGE) == VB_SGE_MAX);
	child_check(vb_profile_sends_plainly());
	return 0;
}

static int with_file(const void *text)
{
	char path[] = "/tmp/verbena-test-profile-XXXXXX";
	const int fd = mkstemp(path);
	const size_t length = strlen(text);
	int err;

	child_check(fd >= 0 && write(fd, text, length) == (ssize_t)length);
	close(fd);
	setenv("VERBENA_AS", path, 1);
	err = vb_profile_load();
	unlink(path);
	return -err;
}

static int with_a_profile(const void *arg)
{
	child_check(!with_file("max_sge 3\nsend_ops RDMA_WRITE"));
	child_check(vb_fact(VB_FACT_MAX_SGE) == 3 && vb_fact(VB_FACT_MAX_PD) == VB_PD_MAX);
	child_check(!vb_wr_row_any(IBV_WR_SEND)->posted && !vb_profile_sends_plainly());
	child_check(!vb_profile_sends(vb_wr_row_any(IBV_WR_SEND)));
	return 0;
}

static int with_a_profile_that_leaves_posts_alone(const void *arg)
{
	child_check(!with_file("max_pd 3") && vb_wr_row_any(IBV_WR_SEND)->posted);
	return 0;
}

static int with_a_bad_profile(const void *arg)
{
	child_check(with_file("max_sge 3\nmax_sge 4") == EINVAL);
	child_check(vb_profile_load() == -EINVAL && vb_fact(VB_FACT_MAX_SGE) == VB_SGE_MAX);
	return 0;
}

static int without_the_file(const void *arg)
{
	setenv("VERBENA_AS", "/nonexistent/profile", 1);
	child_check(vb_profile_load() == -EINVAL);
	return 0;
}

static void environment(void **state)
{
	assert_child_passes(without_variable, NULL);
	assert_child_passes(with_a_profile, NULL);
	assert_child_passes(with_a_profile_that_leaves_posts_alone, NULL);
	assert_child_passes(with_a_bad_profile, NULL);
	assert_child_passes(without_the_file, NULL);
}

/* --- the profiles that we have --- */

static void each_profile_is_read(const char *folder, const char *name)
{
	static char text[VB_PROFILE_BYTES_MAX];
	char path[512], why[VB_PROFILE_WHY_MAX] = "";
	struct vb_profile profile;
	FILE *file;
	size_t length;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	assert_non_null(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	if (vb_profile_parse(text, &profile, why))
		fail_msg("%s: %s", path, why);
	/* Facts that contradict each other would not be those of a device. */
	assert_true(profile.named[VB_FACT_QP_TYPES] && profile.named[VB_FACT_VERBS] &&
		    profile.named[VB_FACT_SEND_OPS] && profile.named[VB_FACT_WC_FLAGS]);
	if (!(profile.value[VB_FACT_VERBS] & VB_VERB_CREATE_CQ_EX))
		assert_int_equal(profile.value[VB_FACT_WC_FLAGS], 0);
	if (profile.named[VB_FACT_ATOMIC_CAP] && !profile.value[VB_FACT_ATOMIC_CAP])
		assert_int_equal(profile.value[VB_FACT_SEND_OPS] &
					 (IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
					  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD),
				 0);
}

static void all_profiles_are_read(void **state)
{
	const char *folder = getenv("VERBENA_TEST_PROFILES");
	unsigned count = 0;
	struct dirent *entry;
	DIR *all;

	if (!folder)
		skip();
	all = opendir(folder);
	assert_non_null(all);
	while ((entry = readdir(all))) {
		if (*entry->d_name == '.' || !strcmp(entry->d_name, "meson.build"))
			continue;
		each_profile_is_read(folder, entry->d_name);
		count++;
	}
	closedir(all);
	assert_true(count >= 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_read_or_refused_with_their_line),
		cmocka_unit_test(a_long_word_is_refused_whole),
		cmocka_unit_test(every_fact_has_a_name_of_its_own),
		cmocka_unit_test(what_this_device_lacks_is_lowered_and_told),
		cmocka_unit_test(a_fact_may_take_away_from_others),
		cmocka_unit_test(a_send_queue_is_as_deep_as_its_memory),
		cmocka_unit_test(environment),
		cmocka_unit_test(all_profiles_are_read),
	};

	unsetenv("VERBENA_AS");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
