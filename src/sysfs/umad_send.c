/* SPDX-License-Identifier: BSD-2-Clause */
/* MADs that a program writes. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "mad/agent.h"
#include "sysfs/redirect.h"
#include "sysfs/umad.h"
#include "wire/bytes.h"

enum {
	SENT_MAX = 4096,     /* requests of one file that are due */
	MAD_LENGTH_MIN = 36, /* the kernel's: the header and that of RMPP */
	TID_AT = 8,
	LID_PERMISSIVE = 0xffff,
};

#define NS_PER_MS 1000000ull

/* What a program has written. */
struct order {
	struct ib_user_mad_hdr header; /* without P_Key index: 0 */
	struct vb_mad mad;
	struct vb_mad_address to;
	uint8_t bytes[VB_MAD_SIZE];
};

/* --- reading it --- */

static int read_order(const struct vb_umad_file *file, const uint8_t *bytes, size_t size,
		      struct order *order)
{
	const size_t header_size = vb_umad_header_size(file);

	if (size < header_size + MAD_LENGTH_MIN || size > header_size + VB_MAD_SIZE)
		return -EINVAL;
	memset(order, 0, sizeof(*order));
	memcpy(&order->header, bytes, header_size);
	memcpy(order->bytes, bytes + header_size, size - header_size);
	if (order->header.id >= VB_MAD_AGENTS || !file->agents[order->header.id].used)
		return -EINVAL;
	order->to = (struct vb_mad_address){
		.lid = ntohs(order->header.lid),
		.grh = order->header.grh_present,
		.sgid_index = order->header.gid_index,
		.traffic_class = order->header.traffic_class,
	};
	memcpy(order->to.gid.raw, order->header.gid, sizeof(order->to.gid));
	return 0;
}

/* The upper half of the transaction id of a request is ours: it brings the answer here. */
static void mark_order(const struct vb_umad_file *file, struct order *order)
{
	vb_mad_parse(order->bytes, &order->mad);
	if (vb_mad_is_response(&order->mad))
		return;
	vb_put32(order->bytes + TID_AT, file->id << VB_MAD_AGENT_BITS | order->header.id);
	order->mad.transaction_id = vb_get64(order->bytes + TID_AT);
}

static bool is_due_already(const struct vb_umad_file *file, uint64_t transaction_id)
{
	vb_list_for(sent, &file->sent, struct vb_umad_sent, node)
		if (vb_get64(sent->datagram.mad + TID_AT) == transaction_id)
			return true;
	return false;
}

static int check_order(const struct vb_umad_file *file, const struct order *order)
{
	const struct vb_umad_agent *agent = &file->agents[order->header.id];

	if (vb_mad_is_smp(order->mad.management_class) != (agent->qpn == VB_SMI_QPN))
		return -EINVAL;
	if (!file->infiniband && !order->to.grh)
		return -EINVAL; /* as for any address handle on Ethernet */
	if (is_due_already(file, order->mad.transaction_id))
		return -EINVAL;
	return file->sent_count < SENT_MAX ? 0 : -ENOMEM;
}

/* --- requests that are due --- */

static void set_timer(struct vb_umad_file *file)
{
	struct itimerspec spec = { 0 };
	uint64_t due_ns = VB_NEVER_NS;

	vb_list_for(sent, &file->sent, struct vb_umad_sent, node)
		due_ns = sent->due_ns < due_ns ? sent->due_ns : due_ns;
	if (due_ns != VB_NEVER_NS) {
		spec.it_value.tv_sec = (time_t)(due_ns / 1000000000u);
		spec.it_value.tv_nsec = (long)(due_ns % 1000000000u);
	}
	(void)timerfd_settime(file->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

static int remember(struct vb_umad_file *file, const struct order *order,
		    const struct vb_gsi_datagram *datagram, bool lost)
{
	struct vb_umad_sent *sent;

	if (!order->header.timeout_ms || vb_mad_is_response(&order->mad))
		return 0;
	sent = malloc(sizeof(*sent));
	if (!sent)
		return -ENOMEM;
	*sent = (struct vb_umad_sent){
		.agent = order->header.id,
		.timeout_ms = order->header.timeout_ms,
		.retries_left = order->header.retries,
		.due_ns = vb_now_ns() + order->header.timeout_ms * NS_PER_MS,
		.lost = lost,
		.datagram = *datagram,
	};
	vb_list_append(&file->sent, &sent->node);
	file->sent_count++;
	set_timer(file);
	return 0;
}

/* Time is over, and no repetition is left: the program gets the header of its request back. */
static void give_up(struct vb_umad_file *file, struct vb_umad_sent *sent)
{
	const struct vb_mad_address nowhere = { 0 };

	vb_umad_deliver(file, sent->agent, ETIMEDOUT, &nowhere, sent->datagram.mad,
			VB_MAD_HEADER_SIZE);
	vb_list_remove(&sent->node);
	file->sent_count--;
	free(sent);
}

void vb_umad_on_timer(int fd, void *arg)
{
	struct vb_umad_file *file = arg;
	const uint64_t now_ns = vb_now_ns();
	uint64_t count;

	vb_umad_lock();
	if (file->timer == fd && read(fd, &count, sizeof(count)) > 0) {
		vb_list_for(sent, &file->sent, struct vb_umad_sent, node) {
			if (sent->due_ns > now_ns)
				continue;
			if (!sent->retries_left) {
				give_up(file, sent);
				continue;
			}
			sent->retries_left--;
			sent->due_ns = now_ns + sent->timeout_ms * NS_PER_MS;
			if (!sent->lost)
				(void)vb_umad_engine()->gsi_send(&sent->datagram);
		}
		set_timer(file);
	}
	vb_umad_unlock();
}

/* --- sending it --- */

/* The agents of the own port answer at once. Other processes may be asked: without the lock. */
static bool ask_agents(struct vb_umad_file *file, const struct order *order)
{
	struct ibv_device *device = file->device;
	uint8_t *answer = malloc(VB_UMAD_MAD_MAX);
	const int inner = file->inner;
	size_t length;

	if (!answer)
		return false;
	vb_umad_unlock();
	length = vb_umad_engine()->mad_agent(device, order->bytes, answer, VB_UMAD_MAD_MAX);
	vb_umad_lock();
	if (length && file->inner == inner && order->header.timeout_ms)
		vb_umad_deliver(file, order->header.id, 0, &order->to, answer, length);
	free(answer);
	return length != 0;
}

/* SMPs to the own port name it by its LID, the permissive LID, or a path without hops. */
static bool is_for_own_port(const struct order *order, const struct vb_gsi_datagram *datagram,
			    bool reachable)
{
	if (order->mad.management_class == VB_MAD_CLASS_SUBN_DIRECTED &&
	    order->to.lid == LID_PERMISSIVE)
		return vb_smp_hops(order->bytes) == 0;
	if (order->mad.management_class == VB_MAD_CLASS_SUBN && !order->to.lid)
		return true;
	return reachable && vb_umad_engine()->gid_is_local(&datagram->dst);
}

/* On InfiniBand a MAD to a port that does not exist is lost, as in a real fabric. */
static int send_order(struct vb_umad_file *file, const struct order *order)
{
	struct vb_gsi_datagram datagram = { 0 };
	int err = vb_umad_engine()->mad_resolve(file->device, &order->to, &datagram);

	if (err && !file->infiniband)
		return err;
	memcpy(datagram.mad, order->bytes, sizeof(datagram.mad));
	if (is_for_own_port(order, &datagram, !err) && !vb_mad_is_response(&order->mad) &&
	    ask_agents(file, order))
		return 0;
	if (remember(file, order, &datagram, err != 0))
		return -ENOMEM;
	if (!err)
		(void)vb_umad_engine()->gsi_send(&datagram);
	return 0;
}

int vb_umad_send(struct vb_umad_file *file, const uint8_t *bytes, size_t size)
{
	const bool was_inside = vb_redirect_pause(true);
	struct order order;
	int err;

	vb_umad_lock();
	err = read_order(file, bytes, size, &order);
	if (!err) {
		mark_order(file, &order);
		err = check_order(file, &order);
	}
	if (!err)
		err = send_order(file, &order);
	vb_umad_unlock();
	vb_redirect_pause(was_inside);
	return err;
}
