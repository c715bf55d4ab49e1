/* SPDX-License-Identifier: BSD-2-Clause */
/* MADs for a program. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sysfs/umad.h"

/* A call of the kernel itself, as in nl_socket.c. A program that does not read loses MADs. */
void vb_umad_deliver(struct vb_umad_file *file, uint32_t agent, uint32_t status,
		     const struct vb_mad_address *from, const uint8_t *mad, size_t length)
{
	const size_t header_size = vb_umad_header_size(file);
	struct ib_user_mad_hdr header = {
		.id = agent,
		.status = status,
		.length = (uint32_t)(header_size + length),
		.qpn = htonl(file->agents[agent].qpn),
		.lid = htons(from->lid),
		.grh_present = from->grh,
		.traffic_class = from->traffic_class,
	};
	struct iovec parts[2] = { { &header, header_size }, { (void *)mad, length } };
	const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	memcpy(header.gid, from->gid.raw, sizeof(header.gid));
	if (syscall(SYS_sendmsg, file->inner, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		vb_umad_engine()->mad_refused();
}

/* The source of a datagram. A RoCE port has no LID; its MADs have a GRH. */
static struct vb_mad_address source_of(const struct vb_umad_file *file,
				       const struct vb_gsi_datagram *datagram)
{
	return (struct vb_mad_address){
		.lid = vb_umad_engine()->mad_lid(file->device, &datagram->src),
		.grh = !file->infiniband,
		.gid = file->infiniband ? (union ibv_gid){ .raw = { 0 } } : datagram->src,
		.traffic_class = datagram->traffic_class,
	};
}

/* --- answers --- */

/* An answer fits if it comes from the port that was asked, in the class of the request. */
static struct vb_umad_sent *find_sent(struct vb_umad_file *file,
				      const struct vb_gsi_datagram *datagram,
				      const struct vb_mad *mad)
{
	struct vb_mad asked;

	vb_list_for(sent, &file->sent, struct vb_umad_sent, node) {
		vb_mad_parse(sent->datagram.mad, &asked);
		if (asked.transaction_id == mad->transaction_id &&
		    asked.management_class == mad->management_class &&
		    !memcmp(&sent->datagram.dst, &datagram->src, sizeof(datagram->src)))
			return sent;
	}
	return NULL;
}

static bool take_answer(struct vb_umad_file *file, const struct vb_gsi_datagram *datagram,
			const struct vb_mad *mad)
{
	struct vb_umad_sent *sent = find_sent(file, datagram, mad);
	const struct vb_mad_address from = source_of(file, datagram);

	if (!sent)
		return false;
	vb_umad_deliver(file, sent->agent, 0, &from, datagram->mad, VB_MAD_SIZE);
	vb_list_remove(&sent->node);
	file->sent_count--;
	free(sent);
	return true;
}

/* --- MADs of a class --- */

static bool wants(const struct vb_umad_agent *agent, int fd, const struct vb_mad *mad)
{
	return agent->used && agent->server == fd && !(mad->method & VB_MAD_RESPONSE) &&
	       agent->methods[mad->method / 64] >> mad->method % 64 & 1;
}

static bool take_request(struct vb_umad_file *file, int fd, const struct vb_gsi_datagram *datagram,
			 const struct vb_mad *mad)
{
	const struct vb_mad_address from = source_of(file, datagram);

	for (uint32_t i = 0; i < VB_MAD_AGENTS; i++)
		if (wants(&file->agents[i], fd, mad)) {
			vb_umad_deliver(file, i, 0, &from, datagram->mad, VB_MAD_SIZE);
			return true;
		}
	return false;
}

/* Under vb_umad_lock: the descriptor is still one of the file. */
static bool has_socket(const struct vb_umad_file *file, int fd)
{
	if (fd == file->answers)
		return true;
	for (unsigned i = 0; i < VB_MAD_AGENTS; i++)
		if (file->agents[i].used && file->agents[i].server == fd)
			return true;
	return false;
}

static void take_datagram(struct vb_umad_file *file, int fd)
{
	struct vb_gsi_datagram datagram;
	struct vb_mad mad;
	bool taken;
	uid_t uid;

	if (vb_umad_engine()->gsi_receive(fd, &datagram, &uid))
		return;
	vb_mad_parse(datagram.mad, &mad);
	if (fd == file->answers)
		taken = vb_mad_is_response(&mad) && take_answer(file, &datagram, &mad);
	else
		taken = take_request(file, fd, &datagram, &mad);
	if (!taken)
		vb_umad_engine()->mad_refused();
}

void vb_umad_on_datagram(int fd, void *file)
{
	vb_umad_lock();
	if (has_socket(file, fd))
		take_datagram(file, fd);
	vb_umad_unlock();
}
