/* SPDX-License-Identifier: BSD-2-Clause */
#include "system/find.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"

struct search {
	const char *name;
	bool (*each)(void *arg, const char *path);
	void *arg;
};

static bool try_directory(const struct search *search, const char *directory, size_t length)
{
	char path[PATH_MAX];
	const int size =
		snprintf(path, sizeof(path), "%.*s/%s", (int)length, directory, search->name);

	return size > 0 && (size_t)size < sizeof(path) && !access(path, R_OK) &&
	       search->each(search->arg, path);
}

/* --- the cache of ldconfig, as glibc 2.2 and later write it --- */

#define CACHE_FILE  "/etc/ld.so.cache"
#define CACHE_MAGIC "glibc-ld.so.cache1.1"

struct cache_head {
	char magic[sizeof(CACHE_MAGIC) - 1];
	uint32_t entry_count, text_size;
	uint32_t unused[5];
};

/* Places of texts count from the beginning of the file. */
struct cache_entry {
	int32_t flags;
	uint32_t name, path;
	uint32_t os_version;
	uint64_t capabilities;
};
_Static_assert(sizeof(struct cache_head) == 48 && sizeof(struct cache_entry) == 24,
	       "the file's own layout");

struct cache {
	const char *bytes;
	size_t size;
};

/* NULL: the text does not end within the file. */
static const char *cache_text(const struct cache *cache, uint32_t place)
{
	if (place >= cache->size || !memchr(cache->bytes + place, 0, cache->size - place))
		return NULL;
	return cache->bytes + place;
}

/* Libraries of other architectures do not load, and the search goes on. */
static bool search_entries(const struct search *search, const struct cache *cache)
{
	const struct cache_head *head = (const struct cache_head *)cache->bytes;
	const struct cache_entry *entries = (const struct cache_entry *)(head + 1);

	if (cache->size < sizeof(*head) || memcmp(head->magic, CACHE_MAGIC, sizeof(head->magic)) ||
	    head->entry_count > (cache->size - sizeof(*head)) / sizeof(*entries))
		return false;
	for (uint32_t i = 0; i < head->entry_count; i++) {
		const char *name = cache_text(cache, entries[i].name);
		const char *path = cache_text(cache, entries[i].path);

		if (name && path && !strcmp(name, search->name) && search->each(search->arg, path))
			return true;
	}
	return false;
}

static bool search_cache(const struct search *search)
{
	const int fd = open(CACHE_FILE, O_RDONLY | O_CLOEXEC);
	struct cache cache = { 0 };
	bool found = false;
	struct stat file;
	void *bytes;

	if (fd < 0)
		return false;
	if (!fstat(fd, &file) && file.st_size > 0) {
		cache.size = (size_t)file.st_size;
		bytes = mmap(NULL, cache.size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (bytes != MAP_FAILED) {
			cache.bytes = bytes;
			found = search_entries(search, &cache);
			munmap(bytes, cache.size);
		}
	}
	close(fd);
	return found;
}

/* --- directories --- */

/* Distributions put libraries beside the C library, or below /usr at the same place. */
static bool search_beside_libc(const struct search *search)
{
	char below[PATH_MAX];
	const char *slash;
	Dl_info libc;

	if (!dladdr((void *)(uintptr_t)gnu_get_libc_version, &libc) || !libc.dli_fname ||
	    !(slash = strrchr(libc.dli_fname, '/')))
		return false;
	if (try_directory(search, libc.dli_fname, (size_t)(slash - libc.dli_fname)))
		return true;
	snprintf(below, sizeof(below), "/usr%.*s", (int)(slash - libc.dli_fname), libc.dli_fname);
	return try_directory(search, below, strlen(below));
}

bool vb_system_find(const char *name, bool (*each)(void *arg, const char *path), void *arg)
{
	const struct search search = { name, each, arg };
	const char *directory = vb_environment_text(VB_ENV_SYSTEM_LIBDIR);

	if (directory)
		return try_directory(&search, directory, strlen(directory));
	return search_cache(&search) || search_beside_libc(&search);
}
