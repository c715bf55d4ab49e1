/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scribble.h"

enum { FILES = 8, NOBODY = 65534, DEADLINE_US = 30000000, LINE = 64, BURST = 48 };
#define SEGMENT "/memfd:verbena "

/* Files of segments that this process has open. */
struct files {
	int fd[FILES];
	ino_t inode[FILES];
	unsigned count;
};

static void files_find(struct files *files)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;

	CHECK(folder, "no /proc");
	files->count = 0;
	while ((entry = readdir(folder)) && files->count < FILES) {
		char to[64] = "";
		struct stat st;
		int fd = atoi(entry->d_name);

		if (readlinkat(dirfd(folder), entry->d_name, to, sizeof(to) - 1) < 0 ||
		    strncmp(to, SEGMENT, strlen(SEGMENT)) || fstat(fd, &st))
			continue;
		files->fd[files->count] = fd;
		files->inode[files->count++] = st.st_ino;
	}
	closedir(folder);
}

static bool has(const struct files *files, ino_t inode)
{
	for (unsigned i = 0; i < files->count; i++)
		if (files->inode[i] == inode)
			return true;
	return false;
}

/* Another way in: the same file, opened anew. */
static void *map_anew(int fd, size_t size)
{
	char path[40];
	void *map = MAP_FAILED;
	int again;

	(void)fchmod(fd, 0666);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again >= 0) {
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
		close(again);
	}
	return map;
}

struct prey {
	int fd;
	uint64_t *words;
	size_t size;
};

/* The owner's file may have grown. */
static bool prey_map(struct prey *prey, bool anew)
{
	struct stat st;
	void *map;

	CHECK(!fstat(prey->fd, &st), "fstat");
	if (prey->words && prey->size == (size_t)st.st_size)
		return true;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, prey->fd, 0);
	if (map == MAP_FAILED && anew)
		map = map_anew(prey->fd, (size_t)st.st_size);
	if (map == MAP_FAILED)
		return false;
	if (prey->words)
		munmap(prey->words, prey->size);
	prey->words = map;
	prey->size = (size_t)st.st_size;
	return true;
}

/* Random, or so that it looks like something: most words are zero, and most others small. */
static uint64_t word(struct rng *rng, const struct prey *prey, uint64_t before)
{
	switch (rng_below(rng, 8)) {
	case 0:
		return rng_next(rng);
	case 1:
		return 0;
	case 2:
		return UINT64_MAX;
	case 3: /* the state of a cell */
		return (before & ~0xffull) | rng_below(rng, 7);
	case 4: /* its index, or a length */
		return before + (1ull << rng_below(rng, 64));
	case 5:
		return prey->words[rng_below(rng, prey->size / 8)];
	case 6:
		return rng_next(rng) >> rng_below(rng, 64);
	}
	return before ^ 1ull << rng_below(rng, 64);
}

/* Most of a file is holes and rings that nobody uses: where something is, more is done. */
static void scribble(struct rng *rng, struct prey *prey)
{
	size_t lines = prey->size / LINE, at = rng_below(rng, lines);

	for (unsigned tries = 0; tries < 64 && !prey->words[at * LINE / 8]; tries++)
		at = rng_below(rng, lines);
	for (unsigned i = 0; i < LINE / 8; i++)
		if (rng_chance(rng, 3)) {
			uint64_t *to = &prey->words[at * LINE / 8 + i];

			__atomic_store_n(to, word(rng, prey, __atomic_load_n(to, __ATOMIC_RELAXED)),
					 __ATOMIC_RELAXED);
		}
}

static void attach(struct rig *rig, uint32_t qpn, const struct files *own, struct files *all)
{
	struct ibv_cq *cq = ibv_create_cq(rig->ctx, 64, NULL, NULL, 0);
	struct ibv_qp *qp = cq ? end_make(rig, cq, NULL, IBV_QPT_RC) : NULL;
	uint64_t start = clock_us();

	CHECK(qp && end_connect(rig, qp, qpn, false), "no connection to the owner");
	do {
		CHECK(clock_us() - start < DEADLINE_US, "not attached");
		usleep(1000);
		files_find(all);
	} while (all->count < own->count + 2);
}

static void drop_privileges(void)
{
	if (geteuid())
		return;
	CHECK(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY),
	      "cannot become nobody");
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with the user */
}

_Noreturn void scribbler(struct duo *duo, uint64_t seed)
{
	const bool was_root = !geteuid();
	struct rng rng = rng_fork(seed, 77);
	struct prey prey[FILES] = { 0 };
	struct files own, all;
	struct card card;
	struct rig rig;
	unsigned count = 0, refused = 0;

	rig_name("scribbler", "");
	rig_open(&rig);
	CHECK(recv(duo->socket, &card, sizeof(card), 0) == sizeof(card), "the owner ended");
	files_find(&own);
	attach(&rig, card.qpn, &own, &all);
	drop_privileges();
	for (unsigned i = 0; i < all.count; i++) {
		prey[count].fd = all.fd[i];
		if (has(&own, all.inode[i]))
			continue;
		if (prey_map(&prey[count], was_root))
			count++;
		else
			refused++;
	}
	CHECK(count == 1 && refused == 1, "%u files can be written, %u cannot", count, refused);
	duo_tell(duo, 'a');
	for (uint64_t turn = 0;; turn++) {
		scribble(&rng, &prey[0]);
		if (turn % BURST == 0)
			sched_yield();
		if (turn % 4096 == 0)
			prey_map(&prey[0], false);
	}
}
