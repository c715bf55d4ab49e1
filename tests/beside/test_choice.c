/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the system's library is not loaded: the arguments are the devices that the list must have,
 * and whether that library must be in the process.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_mapped(const char *file)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];
	bool found = false;

	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, file) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	char names[256] = "";
	bool same;

	for (int i = 0; list && list[i]; i++) {
		strcat(names, *names ? "," : "");
		strcat(names, ibv_get_device_name(list[i]));
	}
	ibv_free_device_list(list);
	same = argc == 3 && !strcmp(names, argv[1]) &&
	       is_mapped("beside/system/libibverbs.so.1") == !strcmp(argv[2], "loaded");
	printf("1..1\n%sok 1 - devices '%s'\n", same ? "" : "not ", names);
	return !same;
}
