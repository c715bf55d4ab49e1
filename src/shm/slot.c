/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/slot.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "shm/slot_own.h"

enum {
	BACKLOG = 1024,
	LOOKS = 64,
	APART = 769, /* distance of the slots of consecutive process ids; prime */
};

/* --- names --- */

struct vb_slot_name vb_slot_name_of(uint32_t slot, uint64_t random, enum vb_slot_use use)
{
	static const char *const before[] = { "", "cm.", "cm.life." };
	static const char *const behind[] = { "", ".cm", ".life" };
	struct vb_slot_name name = { .address.sun_family = AF_UNIX };
	char *text = name.address.sun_path + 1;
	const size_t size = sizeof(name.address.sun_path) - 1;
	int length;

	if (random == VB_SLOT_SHARED_NAME)
		length = snprintf(text, size, "verbena.%s%u", before[use], slot);
	else
		length = snprintf(text, size, "verbena.%u.%016llx%s", slot,
				  (unsigned long long)random, behind[use]);
	name.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	return name;
}

static int find_holder(uint32_t slot, struct vb_slot_holder *holder)
{
	if (slot < VB_SLOT_MIN || slot > VB_SLOT_MAX)
		return -ECONNREFUSED;
	*holder = (struct vb_slot_holder){ .random = VB_SLOT_SHARED_NAME };
	return slot < VB_SLOT_OWN_MIN ? 0 : vb_slot_own_find(slot, holder);
}

int vb_slot_find(uint32_t slot, enum vb_slot_use use, struct vb_slot_name *name)
{
	struct vb_slot_holder holder;
	int err = find_holder(slot, &holder);

	if (!err)
		*name = vb_slot_name_of(slot, holder.random, use);
	return err;
}

/* --- claiming --- */

static int socket_open(int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : vb_fd_high(fd);
}

static int socket_bound(int type, const struct vb_slot_name *name)
{
	int fd = socket_open(type), err;

	if (fd < 0 || !bind(fd, (const void *)&name->address, name->length))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* The socket is connected to itself, so the kernel refuses the datagrams of all others. */
static int cm_bound(const struct vb_slot_name *name)
{
	int fd = socket_bound(SOCK_DGRAM, name), on = 1, err;

	if (fd < 0)
		return fd;
	/* The receiver checks the sender's uid. */
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	if (!connect(fd, (const void *)&name->address, name->length))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int vb_slot_open_cm(int cm)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	return connect(cm, &nobody, sizeof(nobody)) ? -errno : 0;
}

void vb_slot_release(struct vb_slot_claim *claim)
{
	vb_fd_close(&claim->listener);
	vb_fd_close(&claim->cm);
	vb_fd_close(&claim->life);
}

static int bind_cm(struct vb_slot_claim *claim, uint64_t random)
{
	struct vb_slot_name name = vb_slot_name_of(claim->slot, random, VB_SLOT_CM);

	claim->cm = cm_bound(&name);
	if (claim->cm < 0)
		return claim->cm;
	name = vb_slot_name_of(claim->slot, random, VB_SLOT_LIFE);
	claim->life = socket_bound(SOCK_SEQPACKET, &name);
	return claim->life < 0 ? claim->life : 0;
}

int vb_slot_bind(struct vb_slot_claim *claim, uint64_t random, bool first)
{
	const struct vb_slot_name name = vb_slot_name_of(claim->slot, random, VB_SLOT_ATTACH);
	int err;

	if (claim->listener < 0)
		claim->listener = socket_open(SOCK_SEQPACKET);
	if (claim->listener < 0)
		return claim->listener;
	/* After a failed bind the socket can be used again: a claim may try many names. */
	if (bind(claim->listener, (const void *)&name.address, name.length))
		return -errno;
	err = first ? bind_cm(claim, random) : 0;
	if (!err && listen(claim->listener, BACKLOG))
		err = -errno;
	if (err)
		vb_slot_release(claim);
	return err;
}

/*
 * The slot follows the process id, which the kernel does not use again soon. Peers may still know a
 * process that has just ended by its slot.
 */
static int claim_shared(struct vb_slot_claim *claim, uint32_t user, bool first)
{
	uint16_t slots[VB_SLOT_OWN_MIN - VB_SLOT_MIN];
	uint32_t count = 0;
	int err = -EADDRINUSE;

	for (uint32_t slot = VB_SLOT_MIN; slot < VB_SLOT_OWN_MIN; slot++)
		if (vb_slot_shared_is_for(user, slot))
			slots[count++] = (uint16_t)slot;
	for (uint32_t i = 0; i < count && err == -EADDRINUSE; i++) {
		claim->slot = slots[((uint32_t)getpid() * APART + i) % count];
		err = vb_slot_bind(claim, VB_SLOT_SHARED_NAME, first);
	}
	return err;
}

/* Looks at the holders of some slots, and names the user that holds most of them. */
static void explain_taken(void)
{
	uid_t uid = 0;
	unsigned same = 0, looked = 0;

	for (uint32_t slot = VB_SLOT_MIN; slot < VB_SLOT_OWN_MIN && looked < LOOKS; slot++) {
		struct ucred cred;
		socklen_t size = sizeof(cred);
		int fd = vb_slot_connect(slot);

		if (fd < 0)
			continue;
		if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size)) {
			looked++;
			uid = same ? uid : cred.uid;
			same += uid == cred.uid ? 1 : -1u;
		}
		close(fd);
	}
	if (same)
		vb_explain_note(
			"all shared slots that user %u may take are taken, most of them by user "
			"%u: "
			"an own slot of user %u is tried",
			geteuid(), uid, geteuid());
	else
		vb_explain_note(
			"all shared slots that user %u may take, or names that belong to them, are "
			"taken: an own slot of user %u is tried",
			geteuid(), geteuid());
}

int vb_slot_claim(struct vb_slot_claim *claim, bool first)
{
	struct vb_uid_map map;
	uint32_t user = geteuid();
	int err;

	vb_uid_map_read(&map);
	(void)vb_uid_outside(&map, user, &user);
	*claim = (struct vb_slot_claim){ .listener = -1, .cm = -1, .life = -1 };
	err = claim_shared(claim, user, first);
	if (err == -EADDRINUSE) {
		explain_taken();
		err = vb_slot_claim_own(claim, user, first);
	}
	if (err)
		vb_slot_release(claim);
	return err;
}

/* --- connecting --- */

/* Another user may have bound the name since the kernel told its holder. */
static bool is_holder(int fd, const struct vb_slot_holder *holder)
{
	struct vb_uid_map map;
	struct ucred cred;
	socklen_t size = sizeof(cred);
	uint32_t user;

	if (!holder->known)
		return true;
	vb_uid_map_read(&map);
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) &&
	       vb_uid_outside(&map, cred.uid, &user) && user == holder->user;
}

static int connect_to(uint32_t slot, const struct vb_slot_holder *holder, enum vb_slot_use use)
{
	const struct vb_slot_name name = vb_slot_name_of(slot, holder->random, use);
	int fd = socket_open(SOCK_SEQPACKET), err = -ECONNREFUSED;

	if (fd < 0)
		return fd;
	if (connect(fd, (const void *)&name.address, name.length))
		err = -errno;
	else if (is_holder(fd, holder))
		return fd;
	close(fd);
	return err;
}

int vb_slot_connect_for(uint32_t slot, enum vb_slot_use use)
{
	struct vb_slot_holder holder;
	int fd = find_holder(slot, &holder);

	if (fd)
		return fd;
	fd = connect_to(slot, &holder, use);
	if (fd != -ECONNREFUSED || slot < VB_SLOT_OWN_MIN || use != VB_SLOT_ATTACH)
		return fd;
	/* Another process may hold the slot now, under another name. */
	vb_slot_lost(slot);
	fd = find_holder(slot, &holder);
	return fd ? fd : connect_to(slot, &holder, use);
}

int vb_slot_connect(uint32_t slot)
{
	return vb_slot_connect_for(slot, VB_SLOT_ATTACH);
}
