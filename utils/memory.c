/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILL_SERVER = 0x7b, FILL_CLIENT = 0x7c };

/* Rounded up to 4: device memory is copied in words of 4 bytes. */
static size_t round_up(size_t bytes)
{
	return (bytes + 3) & ~(size_t)3;
}

static size_t length(const struct pp_end *end)
{
	return (end->sends_apart ? end->sends_apart : end->grh) + end->options.size;
}

static bool query_device(struct pp_end *end, struct ibv_device_attr_ex *attr)
{
	int err = ibv_query_device_ex(end->context, NULL, attr);

	if (err)
		fprintf(stderr, "Couldn't query device for its features: %s\n", strerror(err));
	return !err;
}

static bool can_page(struct pp_end *end, bool implicit)
{
	struct ibv_device_attr_ex attr;

	if (!query_device(end, &attr))
		return false;
	if (!(attr.odp_caps.general_caps & IBV_ODP_SUPPORT)) {
		fprintf(stderr, "The device isn't ODP capable\n");
		return false;
	}
	if (implicit && !(attr.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT)) {
		fprintf(stderr, "The device doesn't support implicit ODP\n");
		return false;
	}
	return true;
}

static struct ibv_mr *register_on_demand(struct pp_end *end)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;

	if (!can_page(end, end->options.implicit_odp))
		return NULL;
	if (end->options.implicit_odp)
		return ibv_reg_mr(end->pd, NULL, SIZE_MAX, access);
	return ibv_reg_mr(end->pd, end->buffer, length(end), access);
}

static void prefetch(struct pp_end *end)
{
	struct ibv_sge sge = { (uintptr_t)end->buffer, (uint32_t)length(end), end->mr->lkey };
	int err = ibv_advise_mr(end->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);

	if (err)
		fprintf(stderr, "Couldn't prefetch MR(%d). Continue anyway\n", err);
}

static size_t dm_length(const struct pp_end *end)
{
	return round_up(length(end));
}

static struct ibv_mr *register_device_memory(struct pp_end *end)
{
	struct ibv_alloc_dm_attr attr = { .length = dm_length(end) };
	struct ibv_device_attr_ex device;

	if (!query_device(end, &device))
		return NULL;
	if (!device.max_dm_size) {
		fprintf(stderr, "Device doesn't support dm allocation\n");
		return NULL;
	}
	if (device.max_dm_size < attr.length) {
		fprintf(stderr, "Device memory is insufficient\n");
		return NULL;
	}
	end->dm = ibv_alloc_dm(end->context, &attr);
	if (!end->dm) {
		fprintf(stderr, "Dev mem allocation failed\n");
		return NULL;
	}
	return ibv_reg_dm_mr(end->pd, end->dm, 0, attr.length,
			     IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
}

bool pp_memory_open(struct pp_end *end)
{
	const struct pp_options *options = &end->options;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (options->check && options->host)
		end->sends_apart = round_up(end->grh + options->size);
	end->buffer = aligned_alloc(page, (length(end) + page) & ~(page - 1));
	if (!end->buffer) {
		fprintf(stderr, "Couldn't allocate work buf.\n");
		return false;
	}
	memset(end->buffer, options->host ? FILL_CLIENT : FILL_SERVER, length(end));
	if (options->device_memory)
		end->mr = register_device_memory(end);
	else if (options->odp)
		end->mr = register_on_demand(end);
	else
		end->mr = ibv_reg_mr(end->pd, end->buffer, length(end), IBV_ACCESS_LOCAL_WRITE);
	if (!end->mr) {
		fprintf(stderr, "Couldn't register MR\n");
		return false;
	}
	if (options->prefetch)
		prefetch(end);
	return true;
}

bool pp_memory_close(struct pp_end *end)
{
	bool ok = true;

	if (end->mr && ibv_dereg_mr(end->mr)) {
		fprintf(stderr, "Couldn't deregister MR\n");
		ok = false;
	}
	if (end->dm && ibv_free_dm(end->dm)) {
		fprintf(stderr, "Couldn't free DM\n");
		ok = false;
	}
	free(end->buffer);
	return ok;
}

/* Device memory is addressed from 0. */
static uint64_t address(const struct pp_end *end, size_t offset)
{
	return end->dm ? offset : (uintptr_t)end->buffer + offset;
}

struct ibv_sge pp_end_receive_sge(const struct pp_end *end)
{
	uint32_t size = (uint32_t)(end->grh + end->options.size);

	return (struct ibv_sge){ address(end, 0), size, end->mr->lkey };
}

struct ibv_sge pp_end_send_sge(const struct pp_end *end)
{
	size_t at = end->sends_apart ? end->sends_apart : end->grh;

	return (struct ibv_sge){ address(end, at), end->options.size, end->mr->lkey };
}

/*
 * The check of --chk. The client sends a pattern in which each page begins with a zero. It lies
 * apart from the bytes that the client receives. The server sends back the bytes that it received.
 * So the client compares all bytes. The server need not know the pattern, and compares beginnings
 * of pages.
 */
static char pattern(size_t at, size_t page)
{
	return at % page ? (char)(at * 167 + at / page * 29 + 13) : 0;
}

bool pp_pattern_write(struct pp_end *end)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t at = 0; at < end->options.size && end->sends_apart; at++)
		end->buffer[end->sends_apart + at] = pattern(at, page);
	if (end->dm && ibv_memcpy_to_dm(end->dm, 0, end->buffer, dm_length(end))) {
		fprintf(stderr, "Copy to dm buffer failed\n");
		return false;
	}
	return true;
}

bool pp_pattern_check(struct pp_end *end)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), step = end->sends_apart ? 1 : page;
	const char *received = end->buffer + end->grh;
	bool ok = true;

	if (end->dm && ibv_memcpy_from_dm(end->buffer, end->dm, 0, dm_length(end))) {
		fprintf(stderr, "Copy from DM buffer failed\n");
		return false;
	}
	for (size_t at = 0; at < end->options.size; at += step)
		if (received[at] != pattern(at, page)) {
			printf("invalid data in page %zu\n", at / page);
			ok = false;
			at -= at % page;
			at += page - step;
		}
	return ok;
}
