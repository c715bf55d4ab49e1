/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/key_words.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "abi/flush.h"
#include "base/clock.h"
#include "nic/nic.h"

/* --- access flags --- */

#define PREFIX "IBV_ACCESS_"

static const struct {
	unsigned bit;
	const char *name;
} flags[] = {
	{ IBV_ACCESS_LOCAL_WRITE, PREFIX "LOCAL_WRITE" },
	{ IBV_ACCESS_REMOTE_WRITE, PREFIX "REMOTE_WRITE" },
	{ IBV_ACCESS_REMOTE_READ, PREFIX "REMOTE_READ" },
	{ IBV_ACCESS_REMOTE_ATOMIC, PREFIX "REMOTE_ATOMIC" },
	{ IBV_ACCESS_MW_BIND, PREFIX "MW_BIND" },
	{ IBV_ACCESS_FLUSH_GLOBAL, PREFIX "FLUSH_GLOBAL" },
	{ IBV_ACCESS_FLUSH_PERSISTENT, PREFIX "FLUSH_PERSISTENT" },
};

enum { FLAGS = sizeof(flags) / sizeof(*flags) };

const char *vb_access_name(unsigned missing)
{
	for (int i = 0; i < FLAGS; i++)
		if (missing & flags[i].bit)
			return flags[i].name;
	return "an access flag";
}

const char *vb_access_words(unsigned access, char text[VB_ACCESS_WORDS])
{
	size_t used = 0;
	unsigned left = 0;

	snprintf(text, VB_ACCESS_WORDS, "none");
	for (int i = 0; i < FLAGS; i++)
		left += (access & flags[i].bit) != 0;
	for (int i = 0; i < FLAGS && left; i++) {
		const char *name = flags[i].name + strlen(PREFIX);

		if (!(access & flags[i].bit))
			continue;
		left--;
		used += (size_t)snprintf(text + used, VB_ACCESS_WORDS - used, "%s%s", name,
					 left > 1    ? ", "
					 : left == 1 ? " and "
						     : "");
	}
	return text;
}

/* --- keys --- */

enum { NEAR = 1 << 20 }; /* bytes from a region: an offset may be wrong */

static const char *kind_of(const struct vb_key_use *use)
{
	return use->as_rkey ? "rkey" : "lkey";
}

static const char *object_of(const struct vb_key_entry *entry)
{
	return entry->kind == VB_KEY_REGION ? "region" : "window";
}

/*
 * Usual mistakes: a number of 32 bits goes to the peer without htonl, and the program takes its own
 * rkey for the peer's.
 */
static const char *words_mixed_up(const struct vb_key_use *use)
{
	const struct vb_nic *nic = vb_nic_current();

	if (vb_peer_key(use->home, __builtin_bswap32(use->key), use->as_rkey))
		return "in the other byte order it is one (htonl, ntohl)";
	if (!use->home->self && nic && vb_peer_key(nic->self, use->key, use->as_rkey))
		return "it is of a region of the process that sends";
	return "a wrong number, or the region is gone for long";
}

static void words_unknown(const struct vb_key_use *use, char text[VB_KEY_WORDS])
{
	const char *whose = use->home->self ? "this process" : "the peer";
	uint64_t ended_ns = 0;
	const struct vb_key_entry *entry =
		vb_peer_key_gone(use->home, use->key, use->as_rkey, &ended_ns);
	const uint64_t ago_ms = (vb_now_ns() - ended_ns) / 1000000;

	if (entry && entry->kind == VB_KEY_REGION)
		snprintf(text, VB_KEY_WORDS,
			 "the region of %s 0x%08x (%llu bytes at 0x%llx) was deregistered "
			 "%llu.%03llu s ago",
			 kind_of(use), use->key, (unsigned long long)entry->length,
			 (unsigned long long)entry->iova, (unsigned long long)ago_ms / 1000,
			 (unsigned long long)ago_ms % 1000);
	else if (vb_peer_key(use->home, use->key, !use->as_rkey))
		snprintf(text, VB_KEY_WORDS,
			 "0x%08x is the %s of a memory region of %s, not its %s", use->key,
			 use->as_rkey ? "lkey" : "rkey", whose, kind_of(use));
	else
		snprintf(text, VB_KEY_WORDS, "no memory region of %s has %s 0x%08x: %s", whose,
			 kind_of(use), use->key, words_mixed_up(use));
}

static void words_pd(const struct vb_key_use *use, const struct vb_key_entry *entry,
		     char text[VB_KEY_WORDS])
{
	char qp[32] = "the QP";

	if (use->qpn)
		snprintf(qp, sizeof(qp), "QP 0x%06x", use->qpn);
	if (entry->pd != use->pd)
		snprintf(text, VB_KEY_WORDS, "the %s of %s 0x%08x belongs to PD %u, %s to PD %u",
			 object_of(entry), kind_of(use), use->key, entry->pd, qp, use->pd);
	else
		snprintf(text, VB_KEY_WORDS,
			 "the window of rkey 0x%08x is bound to QP 0x%06x, not to %s", use->key,
			 entry->qpn, qp);
}

static void words_right(const struct vb_key_use *use, const struct vb_key_entry *entry,
			char text[VB_KEY_WORDS])
{
	char has[VB_ACCESS_WORDS];

	snprintf(text, VB_KEY_WORDS, "the %s of %s 0x%08x was %s without %s (it has %s)",
		 object_of(entry), kind_of(use), use->key,
		 entry->kind == VB_KEY_REGION ? "registered" : "bound",
		 vb_access_name(use->access & ~entry->access),
		 entry->access ? vb_access_words(entry->access, has) : "no access flags");
}

/* The range has nothing to do with the region: no distance is of use. */
static void words_far_off(const struct vb_key_use *use, const struct vb_key_entry *entry,
			  uint64_t start, char text[VB_KEY_WORDS])
{
	const uint64_t swapped = __builtin_bswap64(use->addr);
	const bool order = swapped - start <= entry->length &&
			   use->length <= entry->length - (swapped - start);

	snprintf(text, VB_KEY_WORDS,
		 "%llu bytes at 0x%llx lie outside of the %s of %s 0x%08x (%llu bytes at 0x%llx)%s",
		 (unsigned long long)use->length, (unsigned long long)use->addr, object_of(entry),
		 kind_of(use), use->key, (unsigned long long)entry->length,
		 (unsigned long long)start,
		 order ? ": in the other byte order the address is inside (htobe64, be64toh)" : "");
}

/* False: the range is inside. */
static bool words_range(const struct vb_key_use *use, const struct vb_key_entry *entry,
			char text[VB_KEY_WORDS])
{
	const uint64_t start = use->by_process ? entry->addr : entry->iova;
	const uint64_t end = start + entry->length, use_end = use->addr + use->length;
	const bool before = use->addr < start;
	const bool touches = use->addr <= end && use_end >= start;

	if (!before && use->addr <= end && use_end >= use->addr && use_end <= end)
		return false;
	if (!touches && (before ? start - use_end : use->addr - end) > NEAR)
		words_far_off(use, entry, start, text);
	else
		snprintf(text, VB_KEY_WORDS,
			 "%llu bytes at 0x%llx %s %llu bytes %s the %s of %s 0x%08x (%llu bytes at "
			 "0x%llx)",
			 (unsigned long long)use->length, (unsigned long long)use->addr,
			 before ? "begin" : "end",
			 (unsigned long long)(before ? start - use->addr : use_end - end),
			 before ? "before" : "behind", object_of(entry), kind_of(use), use->key,
			 (unsigned long long)entry->length, (unsigned long long)start);
	return true;
}

bool vb_key_words(const struct vb_key_use *use, char text[VB_KEY_WORDS])
{
	const struct vb_key_entry *entry = vb_peer_key(use->home, use->key, use->as_rkey);

	if (!entry)
		words_unknown(use, text);
	else if (entry->pd != use->pd || (entry->kind == VB_KEY_WINDOW_2 && use->as_rkey &&
					  use->qpn && entry->qpn != use->qpn))
		words_pd(use, entry, text);
	else if (use->access & ~entry->access)
		words_right(use, entry, text);
	else
		return words_range(use, entry, text);
	return true;
}

/* --- peers --- */

/* The program of a process, as ps shows it. */
static bool program_read(pid_t pid, char name[32])
{
	char path[32];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, name, 31);
	close(fd);
	name[length > 0 ? length : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	return *name;
}

const char *vb_peer_words(const struct vb_peer *peer, char text[VB_PEER_WORDS])
{
	char program[32];

	*text = '\0';
	if (peer && peer->self)
		snprintf(text, VB_PEER_WORDS, " (this process)");
	else if (peer && peer->pid && program_read(peer->pid, program))
		snprintf(text, VB_PEER_WORDS, " (pid %d, %s)", peer->pid, program);
	else if (peer && peer->pid)
		snprintf(text, VB_PEER_WORDS, " (pid %d)", peer->pid);
	return text;
}
