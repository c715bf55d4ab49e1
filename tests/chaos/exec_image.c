/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a party of chaos_exec becomes. Its memory lies where the registered memory of the old image
 * lay; it watches while its parent goes on with the traffic, and a while after its last completion.
 *
 *   exec_image ADDRESS SIZE SOCKET
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pattern.h"

enum { KEY = 0xe4ec, BSS_SIZE = 1 << 20, SETTLE_MS = 20 };

static uint8_t bss[BSS_SIZE];

static int untouched(const uint8_t *memory, size_t size)
{
	return stream_right(memory, 0, size, KEY) && stream_right(bss, 0, BSS_SIZE, KEY);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	void *at = (void *)(uintptr_t)strtoull(argv[1], NULL, 0);
	size_t size = strtoull(argv[2], NULL, 0);
	struct pollfd parent = { .fd = atoi(argv[3]), .events = POLLIN };
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	uint8_t *memory = mmap(at, size, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (memory != at) {
		perror("# exec_image: mmap");
		return 2;
	}
	stream_fill(memory, 0, size, KEY);
	stream_fill(bss, 0, BSS_SIZE, KEY);
	/* The parent hangs up when its last WR has completed. */
	while (poll(&parent, 1, 0) == 0 && untouched(memory, size))
		;
	poll(&(struct pollfd){ .fd = -1 }, 1, SETTLE_MS);
	if (untouched(memory, size))
		return 0;
	fprintf(stderr, "# exec_image: memory of the new image was written\n");
	return 1;
}
