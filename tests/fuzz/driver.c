/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Feeds a target with the files of a folder, without libFuzzer: the corpus as an ordinary test, and
 * a way to look at one input under a debugger.
 *
 *   fuzz-TARGET FOLDER|FILE
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

enum { PATH_LENGTH = 4096 };

/* 0 or -errno. The block ends where the input ends, for the sanitizer to see. */
static int feed(const char *path)
{
	FILE *file = fopen(path, "rbe");
	struct stat status;
	uint8_t *bytes;
	size_t length;

	if (!file)
		return -errno;
	if (fstat(fileno(file), &status)) {
		fclose(file);
		return -errno;
	}
	length = (size_t)status.st_size;
	bytes = malloc(length ? length : 1);
	if (!bytes || fread(bytes, 1, length, file) != length) {
		free(bytes);
		fclose(file);
		return -EIO;
	}
	fclose(file);
	LLVMFuzzerTestOneInput(bytes, length);
	free(bytes);
	return 0;
}

static int is_input(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Files that could not be read; -1: there is none. */
static int feed_folder(const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_input, alphasort), failed = 0;

	if (count <= 0)
		return -1;
	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		char path[PATH_LENGTH];
		int error;

		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		error = feed(path);
		printf("%sok %d - %s\n", error ? "not " : "", i + 1, entries[i]->d_name);
		fflush(stdout);
		failed += error != 0;
		free(entries[i]);
	}
	free(entries);
	return failed;
}

int main(int argc, char **argv)
{
	struct stat status;

	if (argc != 2 || stat(argv[1], &status)) {
		fprintf(stderr, "usage: %s FOLDER|FILE\n", argv[0]);
		return 2;
	}
	return (S_ISDIR(status.st_mode) ? feed_folder(argv[1]) : feed(argv[1])) ? 1 : 0;
}
