/* SPDX-License-Identifier: BSD-2-Clause */
/* check-cases list | check-cases wrong|right PAIR */
#include <stdio.h>
#include <string.h>

#include "cases.h"

static const struct pair *const tables[] = { buffer_pairs, memory_pairs, queue_pairs,
					     attribute_pairs };

static int run(const struct pair *pair, bool wrong)
{
	struct rig rig = { 0 };

	rig_open(&rig);
	(wrong ? pair->wrong : pair->right)(&rig);
	rig_close(&rig);
	return 0;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct pair *pair = tables[i]; pair->name; pair++) {
			if (argc == 2 && !strcmp(argv[1], "list"))
				puts(pair->name);
			else if (argc == 3 && !strcmp(argv[2], pair->name))
				return run(pair, !strcmp(argv[1], "wrong"));
		}
	return argc == 2 ? 0 : 2;
}
