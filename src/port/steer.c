/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions and answers between the processes that share a port (steer.h). */
#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/random.h"
#include "nic/lane.h"
#include "port/impl.h"
#include "port/steer_message.h"
#include "wire/packet.h"

#define INTERVAL_NS_MIN 5000000ull
#define INTERVAL_NS_MAX 10000000000ull
#define QUESTION_NS     300000ull

/* Tries without a new answer, and all tries. */
enum { SETTLE_TRIES = 8, SETTLE_TRIES_MAX = 100, SETTLE_NS = 2000000 };

/* Every member may ask every member: this bounds the rate of all questions together. */
static uint64_t interval_min_ns(const struct vb_steer *steer)
{
	uint64_t all_ns = (uint64_t)steer->members * steer->members * QUESTION_NS;

	return all_ns > INTERVAL_NS_MIN ? all_ns : INTERVAL_NS_MIN;
}

static void send_to(struct vb_endpoint *endpoint, uint32_t position, struct steer_message *message)
{
	const struct vb_address *own = &endpoint->address;
	int index = vb_udp_sender(endpoint, 0);
	union vb_sockaddr to;
	socklen_t size = vb_sockaddr_fill(&to, own->ipv6, own->bytes, own->scope, VB_UDP_PORT_ROCE);

	if (index < 0)
		return;
	message->magic = htonl(STEER_MAGIC);
	message->position = htonl(position);
	message->about = position;
	/* A lost question is repeated with the next packet that reaches the wrong process. */
	(void)vb_sendto(endpoint->senders[index].fd, message, sizeof(*message), MSG_DONTWAIT,
			&to.any, size);
}

static void ask_all(struct vb_endpoint *endpoint, uint32_t kind, uint32_t skip)
{
	const struct vb_steer *steer = &endpoint->steer;

	for (uint32_t i = 0; i < steer->members; i++) {
		struct steer_message message = { .kind = kind,
						 .nonce = steer->nonce,
						 .asker = steer->own_position };

		if (i != skip)
			send_to(endpoint, i, &message);
	}
}

/* A question to a position that does not exist reaches some member: its lowest answer is true. */
static void add_entry(struct vb_steer *steer, uint32_t key, uint32_t position)
{
	const uint32_t slot = key >= VB_STEER_ROW ? (key - VB_STEER_ROW) / VB_QP_ROWS : key;

	for (uint32_t i = 0; i < steer->entry_count; i++) {
		if (steer->entries[i].key != key)
			continue;
		if (position < steer->entries[i].position)
			steer->entries[i].position = position;
		return;
	}
	if (slot >= VB_SLOT_MIN && slot <= VB_SLOT_MAX && steer->entry_count < VB_STEER_ENTRIES)
		steer->entries[steer->entry_count++] = (struct vb_steer_entry){ key, position };
}

/* The slots of this process, or the rows of a further lane. */
static uint32_t own_keys(const struct vb_port *port, uint32_t keys[VB_OWN_SLOTS])
{
	uint32_t count = 0;

	if (port->lane != VB_LANE_FIRST) {
		count = vb_lane_rows(port->nic, port->lane, keys, VB_OWN_SLOTS);
		for (uint32_t i = 0; i < count; i++)
			keys[i] += VB_STEER_ROW;
		return count;
	}
	for (int i = 0; i < VB_OWN_SLOTS; i++) {
		uint32_t slot = atomic_load(&port->nic->seg.head->own_slots[i]);

		if (slot)
			keys[count++] = slot;
	}
	return count;
}

static void add_own(const struct vb_port *port, struct vb_steer *steer)
{
	uint32_t keys[VB_OWN_SLOTS], count = own_keys(port, keys);

	for (uint32_t i = 0; i < count; i++)
		add_entry(steer, keys[i], steer->own_position);
}

static void install_entries(struct vb_endpoint *endpoint)
{
	struct vb_steer *steer = &endpoint->steer;
	size_t size = steer->entry_count * sizeof(*steer->entries);
	bool same = steer->entry_count == steer->installed_count &&
		    !memcmp(steer->entries, steer->installed, size);

	/* Questions that change nothing become rarer (another user's packets cause them, say). */
	steer->interval_ns = same ? steer->interval_ns * 2 : interval_min_ns(steer);
	if (steer->interval_ns > INTERVAL_NS_MAX)
		steer->interval_ns = INTERVAL_NS_MAX;
	steer->next_ns = vb_now_ns() + steer->interval_ns;
	vb_steer_install(endpoint->fd, steer->entries, steer->entry_count, steer->members);
	memcpy(steer->installed, steer->entries, size);
	steer->installed_count = steer->entry_count;
}

static void begin_asking(struct vb_port *port, struct vb_endpoint *endpoint)
{
	struct vb_steer *steer = &endpoint->steer;

	/* Last time our own question did not come back: two processes joined at the same moment,
	 * each took the other for the first, and there is no program yet. */
	if (steer->members > 1 && !steer->entry_count)
		vb_steer_install(endpoint->fd, NULL, 0, steer->members);
	else if (steer->entry_count && steer->answers + 1 < steer->members)
		install_entries(endpoint); /* a member did not answer: install without it */
	steer->members = vb_steer_count_members(endpoint);
	if (steer->members > VB_STEER_MEMBERS)
		steer->members = VB_STEER_MEMBERS;
	steer->nonce = vb_random64();
	steer->answers = steer->entry_count = 0;
	memset(steer->answered, 0, sizeof(steer->answered));
	steer->own_position = 0;
	steer->next_ns = vb_now_ns() + steer->interval_ns;
	if (steer->members > 1) {
		ask_all(endpoint, STEER_FIND, UINT32_MAX);
		return;
	}
	steer->moved = false;
	if (!steer->members)
		return; /* the members are unknown: packets are forwarded instead */
	add_own(port, steer);
	install_entries(endpoint);
}

void vb_steer_missed(struct vb_port *port, struct vb_endpoint *endpoint)
{
	if (endpoint->fd >= 0 && vb_now_ns() >= endpoint->steer.next_ns)
		begin_asking(port, endpoint);
}

void vb_steer_moved(struct vb_port *port, struct vb_endpoint *endpoint)
{
	endpoint->steer.moved = true;
	begin_asking(port, endpoint);
}

/* The former positions of the others are good enough until all have answered. */
static void install_moved(struct vb_endpoint *endpoint)
{
	struct vb_steer *steer = &endpoint->steer;
	const uint32_t own = steer->entry_count;

	steer->moved = false;
	for (uint32_t i = 0; i < steer->installed_count; i++)
		if (steer->installed[i].position != steer->own_position)
			add_entry(steer, steer->installed[i].key, steer->installed[i].position);
	vb_steer_install(endpoint->fd, steer->entries, steer->entry_count, steer->members);
	steer->entry_count = own;
}

/* This process is at another position than its program says. No event need have told it. */
static bool has_moved(const struct vb_steer *steer)
{
	for (uint32_t i = 0; i < steer->installed_count; i++)
		if (steer->installed[i].key == steer->entries[0].key)
			return steer->installed[i].position != steer->own_position;
	return false;
}

/* --- input --- */

static void on_find(struct vb_port *port, struct vb_endpoint *endpoint,
		    const struct steer_message *message)
{
	struct vb_steer *steer = &endpoint->steer;

	if (message->nonce != steer->nonce || steer->entry_count ||
	    message->about >= steer->members)
		return;
	steer->own_position = message->about;
	add_own(port, steer);
	if (steer->moved || has_moved(steer))
		install_moved(endpoint);
	ask_all(endpoint, STEER_ASK, steer->own_position);
}

static void on_ask(struct vb_port *port, struct vb_endpoint *endpoint,
		   const struct steer_message *message)
{
	struct steer_message answer = { .kind = STEER_ANSWER,
					.nonce = message->nonce,
					.asker = message->about };

	answer.slot_count = own_keys(port, answer.slots);
	send_to(endpoint, message->asker, &answer);
}

static void on_answer(struct vb_endpoint *endpoint, const struct steer_message *message)
{
	struct vb_steer *steer = &endpoint->steer;
	uint32_t position = message->asker;

	if (message->nonce != steer->nonce || !steer->entry_count || position >= steer->members ||
	    message->slot_count > VB_OWN_SLOTS ||
	    steer->answered[position / 64] >> position % 64 & 1)
		return;
	steer->answered[position / 64] |= 1ull << position % 64;
	for (uint32_t i = 0; i < message->slot_count; i++)
		add_entry(steer, message->slots[i], position);
	if (++steer->answers + 1 == steer->members)
		install_entries(endpoint);
}

bool vb_steer_input(struct vb_port *port, struct vb_endpoint *endpoint, const uint8_t *bytes,
		    uint32_t length)
{
	struct steer_message message;

	if (length != sizeof(message))
		return false;
	memcpy(&message, bytes, sizeof(message));
	if (message.magic != htonl(STEER_MAGIC))
		return false;
	if (message.kind == STEER_FIND)
		on_find(port, endpoint, &message);
	else if (message.kind == STEER_ASK)
		on_ask(port, endpoint, &message);
	else if (message.kind == STEER_ANSWER)
		on_answer(endpoint, &message);
	return true;
}

/* --- joining --- */

static unsigned ignore_packet(void *arg, const struct vb_arrival *arrival)
{
	(void)arg;
	return arrival->more + 1;
}

/* Packets of others are forwarded. This process has no packets yet, only answers. */
static void listen_for(struct vb_port *port, struct vb_endpoint *endpoint, uint64_t until_ns)
{
	struct pollfd socket = { .fd = endpoint->fd, .events = POLLIN };
	uint64_t now_ns;

	while (!endpoint->steer.installed_count && (now_ns = vb_now_ns()) < until_ns) {
		const struct timespec rest = { .tv_nsec = (long)(until_ns - now_ns) };

		if (vb_ppoll(&socket, 1, rest) > 0)
			vb_udp_receive(port, endpoint, 1);
	}
}

/*
 * Packets that take a detour at first would be overtaken by later ones. So a process that joins
 * waits until the others have answered. They answer at once, unless they are stopped.
 */
static void wait_for_answers(struct vb_port *port, struct vb_endpoint *endpoint)
{
	const struct vb_steer *steer = &endpoint->steer;
	vb_port_input input = port->input;

	if (port->receiving)
		return;
	port->receiving = true;
	port->input = ignore_packet;
	for (int i = 0, idle = 0;
	     i < SETTLE_TRIES_MAX && idle < SETTLE_TRIES && !steer->installed_count; i++) {
		uint32_t answers = steer->answers;

		if (i && !steer->entry_count)
			begin_asking(port, endpoint); /* our own question did not come back */
		listen_for(port, endpoint, vb_now_ns() + SETTLE_NS);
		idle = steer->answers > answers ? 0 : idle + 1;
	}
	if (steer->entry_count && !steer->installed_count)
		install_entries(endpoint); /* without the members that did not answer */
	port->input = input;
	port->receiving = false;
}

void vb_steer_joined(struct vb_port *port, struct vb_endpoint *endpoint)
{
	endpoint->steer = (struct vb_steer){ .interval_ns = INTERVAL_NS_MIN };
	begin_asking(port, endpoint);
	if (endpoint->steer.members < 2)
		return;
	vb_steer_watch(port);
	wait_for_answers(port, endpoint);
}
