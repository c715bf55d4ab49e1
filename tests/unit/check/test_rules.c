/* SPDX-License-Identifier: BSD-2-Clause */
/* The value of VERBENA_CHECK, and the names of the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check/rules.h"

static struct vb_check_options options;
static char wrong[32];

static bool reads(const char *text)
{
	return vb_check_options_read(text, &options, wrong, sizeof(wrong));
}

static void each_rule_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (int i = 0; i < VB_RULE_COUNT; i++) {
		assert_true(vb_rules[i].name && vb_rules[i].title);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(vb_rules[i].name, vb_rules[j].name);
	}
}

static void nothing_and_1_ask_for_all(void **state)
{
	static const struct vb_check_options none;

	(void)state;
	assert_true(reads("") && !memcmp(&options, &none, sizeof(none)));
	assert_true(reads("1") && !memcmp(&options, &none, sizeof(none)));
}

static void words_stand_in_any_order(void **state)
{
	(void)state;
	assert_true(reads("/tmp/reports,-leak,warn,-key"));
	assert_string_equal(options.file, "/tmp/reports");
	assert_true(options.warn && options.off[VB_RULE_LEAK] && options.off[VB_RULE_KEY]);
	assert_false(options.off[VB_RULE_OVERLAP]);
	assert_true(reads("warn,,"));
}

static void a_word_without_a_meaning_is_named(void **state)
{
	static const char *const texts[] = { "lea", "-lea", "-leaks", "-", "0", "11", "warning" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		assert_false(reads(texts[i]));
		assert_string_equal(wrong, texts[i]);
	}
	assert_false(reads("warn,what,1"));
	assert_string_equal(wrong, "what");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rule_has_a_name_of_its_own),
		cmocka_unit_test(nothing_and_1_ask_for_all),
		cmocka_unit_test(words_stand_in_any_order),
		cmocka_unit_test(a_word_without_a_meaning_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
