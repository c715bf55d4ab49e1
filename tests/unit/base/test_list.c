/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"

struct item {
	int before; /* so that the node is not the first member */
	struct vb_list node;
	char name;
};

static struct vb_list list;
static struct item items[5];

static int five_items(void **state)
{
	vb_list_init(&list);
	for (int i = 0; i < 5; i++) {
		items[i] = (struct item){ .name = (char)('a' + i) };
		vb_list_append(&list, &items[i].node);
	}
	return 0;
}

static const char *names(void)
{
	static char text[16];
	size_t used = 0;

	vb_list_for(item, &list, struct item, node)
		text[used++] = item->name;
	text[used] = '\0';
	return text;
}

/* The same, along the other links. */
static const char *names_backwards(void)
{
	static char text[16];
	size_t used = 0;

	for (struct vb_list *at = list.prev; at != &list; at = at->prev)
		text[used++] = vb_container(at, struct item, node)->name;
	text[used] = '\0';
	return text;
}

static void elements_come_in_the_order_of_appending(void **state)
{
	assert_string_equal(names(), "abcde");
	assert_string_equal(names_backwards(), "edcba");
}

static void a_new_list_is_empty(void **state)
{
	struct vb_list other = VB_LIST_INIT(other);

	assert_true(vb_list_empty(&other));
	vb_list_init(&list);
	assert_true(vb_list_empty(&list));
	assert_string_equal(names(), "");
}

static void a_removed_element_is_missing_at_both_ends(void **state)
{
	static const struct {
		int item;
		const char *left, *left_backwards;
	} rows[] = {
		{ 2, "abde", "edba" }, { 0, "bde", "edb" }, { 4, "bd", "db" },
		{ 3, "b", "b" },       { 1, "", "" },
	};

	for (size_t i = 0; i < 5; i++) {
		vb_list_remove(&items[rows[i].item].node);
		assert_string_equal(names(), rows[i].left);
		assert_string_equal(names_backwards(), rows[i].left_backwards);
	}
	assert_true(vb_list_empty(&list));
}

static void a_removed_node_is_in_no_list_and_removing_it_again_is_harmless(void **state)
{
	vb_list_remove(&items[2].node);
	assert_true(vb_list_empty(&items[2].node));
	vb_list_remove(&items[2].node);
	assert_string_equal(names(), "abde");
	vb_list_append(&list, &items[2].node);
	assert_string_equal(names(), "abdec");
}

static void elements_may_be_freed_inside_the_loop(void **state)
{
	int seen = 0;

	vb_list_init(&list);
	for (int i = 0; i < 8; i++) {
		struct item *item = calloc(1, sizeof(*item));

		assert_non_null(item);
		vb_list_append(&list, &item->node);
	}
	vb_list_for(item, &list, struct item, node) {
		vb_list_remove(&item->node);
		memset(item, 0xee, sizeof(*item));
		free(item);
		seen++;
	}
	assert_int_equal(seen, 8);
	assert_true(vb_list_empty(&list));
}

static void the_loop_can_be_left_and_continued(void **state)
{
	int seen = 0;

	vb_list_for(item, &list, struct item, node) {
		if (item->name == 'b')
			continue;
		seen++;
		if (item->name == 'd')
			break;
	}
	assert_int_equal(seen, 3);
}

static void the_end_of_the_list_is_no_element(void **state)
{
	assert_null(vb_list_element(&list, &list, struct item, node));
	assert_ptr_equal(vb_list_element(list.next, &list, struct item, node), &items[0]);
}

#define TEST(name) cmocka_unit_test_setup(name, five_items)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(elements_come_in_the_order_of_appending),
		TEST(a_new_list_is_empty),
		TEST(a_removed_element_is_missing_at_both_ends),
		TEST(a_removed_node_is_in_no_list_and_removing_it_again_is_harmless),
		TEST(elements_may_be_freed_inside_the_loop),
		TEST(the_loop_can_be_left_and_continued),
		TEST(the_end_of_the_list_is_no_element),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
