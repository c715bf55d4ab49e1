/* SPDX-License-Identifier: BSD-2-Clause */
/* An option or a command that does not exist: the nearest one that does. */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "verbena.h"

enum { WORD_MAX = 32 };

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* The letters that have to be added, removed or changed to get from one word to the other. */
static unsigned distance(const char *from, const char *to)
{
	unsigned row[WORD_MAX + 1];
	const size_t columns = strlen(to);

	if (columns > WORD_MAX)
		return WORD_MAX;
	for (unsigned j = 0; j <= columns; j++)
		row[j] = j;
	for (unsigned i = 1; from[i - 1]; i++) {
		unsigned corner = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= columns; j++) {
			unsigned changed = corner + (from[i - 1] != to[j - 1]);

			corner = row[j];
			row[j] = least(changed, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[columns];
}

void nearest_begin(struct nearest *nearest, const char *given)
{
	*nearest = (struct nearest){ 0 };
	snprintf(nearest->given, sizeof(nearest->given), "%.*s", (int)strcspn(given, "="), given);
	/* A third of the letters may be wrong. */
	nearest->distance = (unsigned)strlen(nearest->given) / 3 + 1;
}

void nearest_offer(struct nearest *nearest, const char *word)
{
	const bool begins = strlen(nearest->given) > 3 &&
			    !strncmp(word, nearest->given, strlen(nearest->given));
	unsigned far = begins ? 0 : distance(nearest->given, word);

	if (far >= nearest->distance)
		return;
	nearest->distance = far;
	snprintf(nearest->word, sizeof(nearest->word), "%s", word);
}

int option_unknown(const char *command, const char *given, const char *usage)
{
	struct nearest nearest;
	char word[WORD_MAX];

	nearest_begin(&nearest, given);
	for (const char *at = usage; (at = strstr(at, "--")); at += 2) {
		size_t length = 2;

		while (isalnum((unsigned char)at[length]) || at[length] == '-')
			length++;
		if (length > 2 && length < sizeof(word)) {
			snprintf(word, sizeof(word), "%.*s", (int)length, at);
			nearest_offer(&nearest, word);
		}
	}
	if (*nearest.word)
		complain("%s: there is no option '%s'; the nearest is '%s'", command, given,
			 nearest.word);
	else
		complain("%s: there is no option '%s'; 'verbena %s --help' lists them", command,
			 given, command);
	return EXIT_USAGE;
}

void option_refused(const char *command, int letter, char **argv, const char *usage)
{
	const char *given = argv[optind - 1];

	if (letter == ':')
		complain("%s: '%s' needs a value", command, given);
	else if (!strncmp(given, "--", 2))
		option_unknown(command, given, usage);
	else
		complain("%s: there is no option '-%c'; 'verbena %s --help' lists them", command,
			 optopt, command);
}
