/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of a profile. `verbena` is linked with this file, too. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nic/profile.h"

/* A part of the text; its end is that of the line or a comment. */
struct words {
	const char *at;
	size_t length; /* of the rest */
};

struct word {
	const char *text;
	int length;
};

enum {
	WORD_MAX = 64,
	ATOMICS = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
};

static bool word_next(struct words *rest, struct word *word)
{
	static const char blanks[] = " \t\r";
	size_t skip = 0, length = 0;

	while (skip < rest->length && strchr(blanks, rest->at[skip]))
		skip++;
	rest->at += skip;
	rest->length -= skip;
	while (length < rest->length && !strchr(blanks, rest->at[length]))
		length++;
	*word = (struct word){ rest->at, (int)(length < WORD_MAX ? length : WORD_MAX) };
	rest->at += length;
	rest->length -= length;
	return length;
}

static bool word_is(const struct word *word, const char *name)
{
	return strlen(name) == (size_t)word->length &&
	       !strncmp(word->text, name, (size_t)word->length);
}

static int refuse(char why[VB_PROFILE_WHY_MAX], const struct word *word, const char *problem)
{
	snprintf(why, VB_PROFILE_WHY_MAX, "'%.*s' %s", word->length, word->text, problem);
	return -EINVAL;
}

/* --- values --- */

static int parse_number(const struct word *word, uint64_t *value, char why[VB_PROFILE_WHY_MAX])
{
	char digits[WORD_MAX + 1], *end;

	snprintf(digits, sizeof(digits), "%.*s", word->length, word->text);
	errno = 0;
	*value = strtoull(digits, &end, 0);
	if (errno || *end || end == digits || *digits == '-' || *digits == '+')
		return refuse(why, word, "is no number of 64 bits");
	return 0;
}

static const struct vb_fact_word *word_find(const struct vb_fact_word *words,
					    const struct word *word)
{
	for (; words->word; words++)
		if (word_is(word, words->word))
			return words;
	return NULL;
}

static int parse_choice(const struct vb_fact_row *row, const struct word *word, uint64_t *value,
			char why[VB_PROFILE_WHY_MAX])
{
	const struct vb_fact_word *found = word_find(row->words, word);

	if (!found)
		return refuse(why, word, "is no value of this fact");
	*value = found->value;
	return 0;
}

static int parse_set(const struct vb_fact_row *row, struct word *word, struct words *rest,
		     uint64_t *value, char why[VB_PROFILE_WHY_MAX])
{
	if (word_is(word, "none"))
		return 0;
	do {
		const struct vb_fact_word *found = word_find(row->words, word);

		if (!found)
			return refuse(why, word, "is no value of this fact");
		*value |= found->value;
	} while (word_next(rest, word));
	return 0;
}

/* --- lines --- */

static int fact_find(const struct word *name)
{
	for (int i = 0; i < VB_FACT_COUNT; i++)
		if (word_is(name, vb_fact_rows[i].name))
			return i;
	return -ENOENT;
}

static int parse_value(const struct vb_fact_row *row, const struct word *name, struct words *rest,
		       uint64_t *value, char why[VB_PROFILE_WHY_MAX])
{
	struct word word;
	int err;

	if (!word_next(rest, &word))
		return refuse(why, name, "has no value");
	if (!row->words)
		err = parse_number(&word, value, why);
	else if (row->kind == VB_FACT_CHOICE)
		err = parse_choice(row, &word, value, why);
	else
		err = parse_set(row, &word, rest, value, why);
	if (!err && word_next(rest, &word))
		return refuse(why, &word, "is one value too many");
	return err;
}

static bool is_list(const struct vb_fact_row *row)
{
	return row->kind == VB_FACT_SET && row->words;
}

static int parse_line(struct words line, struct vb_profile *profile, char why[VB_PROFILE_WHY_MAX])
{
	struct word name;
	int fact;

	if (!word_next(&line, &name))
		return 0;
	fact = fact_find(&name);
	if (fact < 0)
		return refuse(why, &name, "is no fact of a device");
	/* A set may take several lines. */
	if (profile->named[fact] && !is_list(&vb_fact_rows[fact]))
		return refuse(why, &name, "is there already");
	profile->named[fact] = true;
	return parse_value(&vb_fact_rows[fact], &name, &line, &profile->value[fact], why);
}

int vb_profile_parse(const char *text, struct vb_profile *profile, char why[VB_PROFILE_WHY_MAX])
{
	char problem[VB_PROFILE_WHY_MAX];
	unsigned number = 1, facts = 0;

	*profile = (struct vb_profile){ 0 };
	for (; *text; number++) {
		const size_t length = strcspn(text, "\n");

		if (parse_line((struct words){ text, strcspn(text, "#\n") }, profile, problem)) {
			snprintf(why, VB_PROFILE_WHY_MAX, "line %u: %.120s", number, problem);
			return -EINVAL;
		}
		text += length + (text[length] == '\n');
	}
	for (int i = 0; i < VB_FACT_COUNT; i++)
		facts += profile->named[i];
	if (!facts)
		snprintf(why, VB_PROFILE_WHY_MAX, "there is no fact");
	return facts ? 0 : -EINVAL;
}

/* --- what it comes to here --- */

static uint64_t fact_alone(const struct vb_profile *profile, enum vb_fact fact)
{
	return profile->named[fact] ? vb_fact_within(fact, profile->value[fact])
				    : vb_fact_rows[fact].own;
}

/* One fact may take away from others that a profile does not name. */
static uint64_t taken_away(const struct vb_profile *profile, enum vb_fact fact)
{
	switch (fact) {
	case VB_FACT_SEND_OPS:
		return fact_alone(profile, VB_FACT_ATOMIC_CAP) ? 0 : ATOMICS;
	case VB_FACT_DEVICE_CAP_FLAGS:
		return fact_alone(profile, VB_FACT_QP_TYPES) & VB_QP_TYPES_XRC ? 0 : IBV_DEVICE_XRC;
	case VB_FACT_ODP_RC:
	case VB_FACT_ODP_UC:
	case VB_FACT_ODP_UD:
	case VB_FACT_ODP_XRC:
		return fact_alone(profile, VB_FACT_ODP_GENERAL) ? 0 : UINT64_MAX;
	default:
		return 0;
	}
}

uint64_t vb_profile_fact(const struct vb_profile *profile, enum vb_fact fact)
{
	return fact_alone(profile, fact) & ~taken_away(profile, fact);
}

bool vb_profile_exceeds(const struct vb_profile *profile, enum vb_fact fact)
{
	return profile->named[fact] &&
	       vb_fact_within(fact, profile->value[fact]) != profile->value[fact];
}

static void print_words(const struct vb_fact_row *row, uint64_t value,
			char text[VB_PROFILE_VALUE_MAX])
{
	size_t used = 0;

	*text = '\0';
	for (const struct vb_fact_word *word = row->words; word->word; word++) {
		const bool has =
			row->kind == VB_FACT_SET ? value & word->value : value == word->value;

		if (has && used < VB_PROFILE_VALUE_MAX)
			used += (size_t)snprintf(text + used, VB_PROFILE_VALUE_MAX - used, "%s%s",
						 used ? " " : "", word->word);
	}
	if (!used)
		snprintf(text, VB_PROFILE_VALUE_MAX, "none");
}

void vb_fact_print(enum vb_fact fact, uint64_t value, char text[VB_PROFILE_VALUE_MAX])
{
	const struct vb_fact_row *row = &vb_fact_rows[fact];

	if (row->words)
		print_words(row, value, text);
	else
		snprintf(text, VB_PROFILE_VALUE_MAX,
			 row->kind == VB_FACT_SET ? "0x%" PRIx64 : "%" PRIu64, value);
}

void vb_profile_print_excess(const struct vb_profile *profile, enum vb_fact fact,
			     char text[2 * VB_PROFILE_VALUE_MAX])
{
	const struct vb_fact_row *row = &vb_fact_rows[fact];
	const uint64_t asked = profile->value[fact], here = vb_fact_within(fact, asked);
	char first[VB_PROFILE_VALUE_MAX], second[VB_PROFILE_VALUE_MAX];

	vb_fact_print(fact, row->kind == VB_FACT_SET ? asked & ~here : asked, first);
	vb_fact_print(fact, here, second);
	if (row->kind == VB_FACT_SET)
		snprintf(text, 2 * VB_PROFILE_VALUE_MAX, "%s %s: not here", row->name, first);
	else
		snprintf(text, 2 * VB_PROFILE_VALUE_MAX, "%s %.200s: here %.200s", row->name, first,
			 second);
}
