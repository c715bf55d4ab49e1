/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The name of a claim is `verbena.cm.<port space>.<port>.<address>`. The address is one of
 *
 *   4  6  46               wildcards: IPv4, IPv6 without IPv4, both
 *   4-<hex>  6-<hex>%<n>   one address (and the interface of a link-local address)
 *
 * A claim with reuse adds `+<n>`. A claim that has to share a port adds `+<random>`.
 */
#include "gsi/cm_name.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/random.h"
#include "net/gid.h"
#include "net/netif.h"
#include "shm/slot.h"

enum {
	SHARERS = 8, /* claims with reuse of one address and port */
	ADDRESS_TEXT = 64,
	EPHEMERAL_FIRST = 32768, /* if the kernel does not tell its range */
	EPHEMERAL_LAST = 60999,
	RANDOM_TRIES = 32, /* of random ports, before all ports in turn */
};

/* --- names --- */

static void finish_name(struct vb_cm_target *target, int length)
{
	target->address.sun_family = AF_UNIX;
	target->address.sun_path[0] = '\0';
	target->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

#define PATH(target) (target)->address.sun_path + 1, sizeof((target)->address.sun_path) - 1

int vb_cm_target_slot(uint32_t slot, struct vb_cm_target *target)
{
	struct vb_slot_name name;
	int err = vb_slot_find(slot, VB_SLOT_CM, &name);

	if (!err)
		*target = (struct vb_cm_target){ name.address, name.length };
	return err;
}

static struct vb_cm_target name_claim(uint16_t port_space, uint16_t port, const char *address,
				      int sharer)
{
	struct vb_cm_target target = { 0 };
	char suffix[16] = "";

	if (sharer >= 0)
		snprintf(suffix, sizeof(suffix), "+%d", sharer);
	finish_name(&target, snprintf(PATH(&target), "verbena.cm.%x.%u.%s%s", port_space, port,
				      address, suffix));
	return target;
}

/* Each claim makes dozens of names: printf would be too slow. */
static size_t print_hex(const uint8_t *bytes, size_t size, char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 0xf];
	}
	text[2 * size] = '\0';
	return 2 * size;
}

static void print_address(const union ibv_gid *gid, uint32_t scope, char text[ADDRESS_TEXT])
{
	const bool ipv4 = vb_gid_is_ipv4(gid), loopback = vb_gid_is_loopback(gid);
	size_t used;

	/* All addresses of 127.0.0.0/8 share one name. */
	if (ipv4 && loopback) {
		snprintf(text, ADDRESS_TEXT, "4-7f000001");
		return;
	}
	text[0] = ipv4 ? '4' : '6';
	text[1] = '-';
	used = 2 + print_hex(gid->raw + (ipv4 ? 12 : 0), ipv4 ? 4 : 16, text + 2);
	if (vb_gid_is_link_local(gid))
		snprintf(text + used, ADDRESS_TEXT - used, "%%%u", scope);
}

static const char *wildcard(enum vb_cm_family family)
{
	static const char *const names[] = {
		[VB_CM_IPV4] = "4", [VB_CM_IPV6] = "6", [VB_CM_DUAL] = "46"
	};

	return names[family];
}

/* Changes the sharer of a name that has one: its last digit. */
static void set_sharer(struct vb_cm_target *target, int sharer)
{
	static_assert(SHARERS <= 10, "one digit");
	((char *)&target->address)[target->length - 1] = (char)('0' + sharer);
}

static void print_claim(const struct vb_cm_claim *claim, char text[ADDRESS_TEXT])
{
	if (vb_gid_is_zero(&claim->address))
		snprintf(text, ADDRESS_TEXT, "%s", wildcard(claim->family));
	else
		print_address(&claim->address, claim->scope, text);
}

unsigned vb_cm_targets(uint16_t port_space, uint16_t port, const union ibv_gid *address,
		       uint32_t scope, struct vb_cm_target targets[VB_CM_TARGETS_MAX])
{
	const bool ipv4 = vb_gid_is_ipv4(address);
	char text[ADDRESS_TEXT];

	print_address(address, scope, text);
	targets[0] = name_claim(port_space, port, text, -1);
	targets[1] = name_claim(port_space, port, wildcard(ipv4 ? VB_CM_IPV4 : VB_CM_IPV6), -1);
	targets[2] = name_claim(port_space, port, wildcard(VB_CM_DUAL), -1);
	return VB_CM_TARGETS_MAX;
}

/* --- sockets --- */

static int open_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : vb_fd_high(fd);
}

int vb_cm_bind(const struct vb_cm_target *target)
{
	int fd = open_socket(), on = 1, err;

	/* The receiver checks the sender's uid. */
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	if (fd < 0 || !bind(fd, (const void *)&target->address, target->length))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static bool is_held_by(int probe, const struct vb_cm_target *target)
{
	return !connect(probe, (const void *)&target->address, target->length) ||
	       errno != ECONNREFUSED;
}

bool vb_cm_is_held(const struct vb_cm_target *target)
{
	int probe = open_socket();
	bool held = probe >= 0 && is_held_by(probe, target);

	vb_fd_close(&probe);
	return held;
}

/* --- claiming --- */

struct attempt {
	const struct vb_cm_claim *claim;
	int fd;                       /* the socket with the claim's name */
	struct vb_cm_target replaced; /* an own claim that is no conflict; length 0: none */
};

static bool is_same_name(const struct vb_cm_target *a, const struct vb_cm_target *b)
{
	return a->length == b->length &&
	       !memcmp(a->address.sun_path, b->address.sun_path,
		       a->length - offsetof(struct sockaddr_un, sun_path));
}

static bool is_held_by_another(const struct attempt *attempt, const struct vb_cm_target *name)
{
	return !is_same_name(name, &attempt->replaced) && is_held_by(attempt->fd, name);
}

/* Claims with reuse have the address, and this claim is without. */
static bool is_shared(const struct attempt *attempt, const char *address)
{
	const struct vb_cm_claim *claim = attempt->claim;

	struct vb_cm_target name;

	if (claim->reuse)
		return false;
	name = name_claim(claim->port_space, claim->port, address, 0);
	for (int i = 0; i < SHARERS; i++) {
		set_sharer(&name, i);
		if (is_held_by_another(attempt, &name))
			return true;
	}
	return false;
}

static bool is_taken(const struct attempt *attempt, const char *address)
{
	const struct vb_cm_claim *claim = attempt->claim;
	const struct vb_cm_target name = name_claim(claim->port_space, claim->port, address, -1);

	return is_held_by_another(attempt, &name) || is_shared(attempt, address);
}

static bool is_address_taken(const struct attempt *attempt, const union ibv_gid *gid,
			     uint32_t scope)
{
	const bool ipv4 = vb_gid_is_ipv4(gid);
	char text[ADDRESS_TEXT];

	if (attempt->claim->family == (ipv4 ? VB_CM_IPV6 : VB_CM_IPV4))
		return false;
	print_address(gid, scope, text);
	return is_taken(attempt, text);
}

/* A wildcard conflicts with a claim of any address of its family. */
static bool is_any_address_taken(const struct attempt *attempt)
{
	static const union ibv_gid localhost = { .raw = { [15] = 1 } };
	static const uint8_t localhost4[4] = { 127, 0, 0, 1 };
	const union ibv_gid mapped = vb_gid_ipv4(localhost4);
	const struct vb_netif_snapshot *all = vb_netif_snapshot_get();
	bool taken =
		is_address_taken(attempt, &localhost, 0) || is_address_taken(attempt, &mapped, 0);

	for (size_t i = 0; i < all->addr_count && !taken; i++)
		if (!vb_gid_is_loopback(&all->addrs[i].gid))
			taken = is_address_taken(attempt, &all->addrs[i].gid,
						 (uint32_t)all->addrs[i].ifindex);
	vb_netif_snapshot_put(all);
	return taken;
}

static bool is_wildcard_taken(const struct attempt *attempt, enum vb_cm_family family)
{
	const struct vb_cm_claim *claim = attempt->claim;

	/* The claim has bound its own name already: only sharers of that name can be in the way. */
	if (vb_gid_is_zero(&claim->address) && claim->family == family && !claim->reuse)
		return is_shared(attempt, wildcard(family));
	return is_taken(attempt, wildcard(family));
}

static bool claim_conflicts(const struct attempt *attempt)
{
	const struct vb_cm_claim *claim = attempt->claim;
	char own[ADDRESS_TEXT];

	if (is_wildcard_taken(attempt, VB_CM_DUAL))
		return true;
	if (claim->family != VB_CM_IPV6 && is_wildcard_taken(attempt, VB_CM_IPV4))
		return true;
	if (claim->family != VB_CM_IPV4 && is_wildcard_taken(attempt, VB_CM_IPV6))
		return true;
	if (vb_gid_is_zero(&claim->address))
		return is_any_address_taken(attempt);
	print_claim(claim, own);
	return claim->reuse ? is_taken(attempt, own) : is_shared(attempt, own);
}

static int bind_names(const struct vb_cm_claim *claim)
{
	struct vb_cm_target name;
	char text[ADDRESS_TEXT];
	int fd = -EADDRINUSE;

	print_claim(claim, text);
	if (!claim->reuse) {
		name = name_claim(claim->port_space, claim->port, text, -1);
		return vb_cm_bind(&name);
	}
	for (int i = 0; i < SHARERS && fd == -EADDRINUSE; i++) {
		name = name_claim(claim->port_space, claim->port, text, i);
		fd = vb_cm_bind(&name);
	}
	return fd;
}

/*
 * Binds, then looks. Of two processes at the same moment at most one wins, never both. The bound
 * socket itself looks, by connect(): a conflict connects it, and the claim has failed anyway.
 */
static int claim_port(struct attempt *attempt)
{
	attempt->fd = bind_names(attempt->claim);
	if (attempt->fd >= 0 && claim_conflicts(attempt)) {
		close(attempt->fd);
		attempt->fd = -EADDRINUSE;
	}
	return attempt->fd;
}

static struct {
	pthread_once_t once;
	unsigned first, count;
} ephemeral = { .once = PTHREAD_ONCE_INIT };

static void read_ephemeral(void)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned first, last;

	if (!file || fscanf(file, "%u %u", &first, &last) != 2 || !first || last < first ||
	    last > UINT16_MAX) {
		first = EPHEMERAL_FIRST;
		last = EPHEMERAL_LAST;
	}
	ephemeral.first = first;
	ephemeral.count = last - first + 1;
	if (file)
		fclose(file);
}

/*
 * All ephemeral ports are taken, perhaps by one user. A connection needs no port of its own, as
 * with TCP: this claim shares one, under a name that nobody can take in advance.
 */
static int share_any_port(struct vb_cm_claim *claim)
{
	const uint64_t random = vb_random64();
	struct vb_cm_target name = { 0 };
	char text[ADDRESS_TEXT];
	int fd;

	claim->port = (uint16_t)(ephemeral.first + vb_random64() % ephemeral.count);
	print_claim(claim, text);
	finish_name(&name, snprintf(PATH(&name), "verbena.cm.%x.%u.%s+%016llx", claim->port_space,
				    claim->port, text, (unsigned long long)random));
	fd = vb_cm_bind(&name);
	claim->reuse = fd >= 0;
	return fd;
}

/* Random, so that no other process can claim the port of a connection in advance. */
static int claim_any_port(struct attempt *attempt, struct vb_cm_claim *claim)
{
	unsigned at = 0, count;
	int fd = -EADDRINUSE;

	pthread_once(&ephemeral.once, read_ephemeral);
	count = ephemeral.count;
	for (unsigned i = 0; i < RANDOM_TRIES + count && fd == -EADDRINUSE; i++) {
		at = i < RANDOM_TRIES ? (unsigned)(vb_random64() % count) : (at + 1) % count;
		claim->port = (uint16_t)(ephemeral.first + at);
		fd = claim_port(attempt);
	}
	if (fd == -EADDRINUSE && !claim->reuse)
		fd = share_any_port(claim);
	if (fd < 0)
		claim->port = 0;
	return fd;
}

static bool is_claim_legal(const struct vb_cm_claim *claim)
{
	if (vb_gid_is_zero(&claim->address))
		return claim->family <= VB_CM_DUAL;
	return claim->family == (vb_gid_is_ipv4(&claim->address) ? VB_CM_IPV4 : VB_CM_IPV6);
}

int vb_cm_claim(struct vb_cm_claim *claim)
{
	struct attempt attempt = { .claim = claim };
	socklen_t size = sizeof(attempt.replaced.address);

	if (!is_claim_legal(claim))
		return -EINVAL;
	if (claim->replaces >= 0 &&
	    !getsockname(claim->replaces, (void *)&attempt.replaced.address, &size))
		attempt.replaced.length = size;
	return claim->port ? claim_port(&attempt) : claim_any_port(&attempt, claim);
}
