/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * /dev/infiniband/umad* and issm* in this process.
 *
 * The program's descriptor is one end of a pair of unix sockets that keep message boundaries. So
 * poll, select, O_NONBLOCK, dup and close are the kernel's. The other end, the inner one, is ours.
 *
 *   program --write--> umad_send.c     in the thread that writes; by the service thread for a
 *                                      write that is not seen (a child of fork, writev)
 *   program <--read--- umad_receive.c  answers of agents at once; MADs from processes and hosts,
 *                                      and requests whose time is over, by libibverbs' service
 *                                      thread
 *
 * A file is open until the program has closed its last descriptor: then the inner end breaks.
 */
#ifndef VB_SYSFS_UMAD_H
#define VB_SYSFS_UMAD_H

#include <rdma/ib_user_mad.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "verbs/engine_table.h"

/* The longest message to a program: an answer of the subnet administration. */
enum { VB_UMAD_MAD_MAX = 128 << 10 };

struct vb_umad_agent {
	bool used;
	uint8_t qpn, management_class;
	bool reassembles;    /* the kernel's part of RMPP is asked for */
	uint64_t methods[2]; /* unsolicited MADs that the program wants, by method */
	int server;          /* socket of the class; -1: answers only */
};

/* A request whose answer is due. */
struct vb_umad_sent {
	struct vb_list node;
	uint32_t agent;
	uint32_t timeout_ms, retries_left;
	uint64_t due_ns;
	bool lost; /* no port has that address: there is nothing to send again */
	struct vb_gsi_datagram datagram;
};

/* Under vb_umad_lock, but for the first three members, which never change while it is open. */
struct vb_umad_file {
	struct vb_list node; /* in the list of files */
	pid_t pid;           /* a child of fork leaves the file to its parent */
	ino_t inode;         /* of the program's end */
	int inner;           /* -1: closed */
	int answers;         /* socket with the name of the file; -1: no agent yet */
	int timer;           /* runs while requests are due; -1: no agent yet */
	uint32_t id;
	struct ibv_device *device;
	bool infiniband;
	bool pkeys; /* IB_USER_MAD_ENABLE_PKEY */
	bool begun; /* agents were registered: the interface cannot change any more */
	struct vb_umad_agent agents[VB_MAD_AGENTS];
	struct vb_list sent; /* struct vb_umad_sent */
	unsigned sent_count;
};

/* --- umad_file.c --- */

enum { VB_UMAD_OTHER = -2 };
/* Opens a name below /dev/infiniband. A descriptor, -1 with errno; VB_UMAD_OTHER: another name. */
int vb_umad_open(const char *name, int flags);
/* The file of a descriptor, with vb_umad_lock held; NULL, without it: another kind of file. */
struct vb_umad_file *vb_umad_hold(int fd);
void vb_umad_lock(void);
void vb_umad_unlock(void);
/* The engine of the libibverbs beside this library; not NULL once a file is open. */
const struct vb_engine_table *vb_umad_engine(void);
/* 0 or -errno. Under vb_umad_lock. */
int vb_umad_register(struct vb_umad_file *file, const struct ib_user_mad_reg_req2 *request,
		     uint32_t *id);
int vb_umad_unregister(struct vb_umad_file *file, uint32_t id);

static inline size_t vb_umad_header_size(const struct vb_umad_file *file)
{
	return file->pkeys ? sizeof(struct ib_user_mad_hdr) : sizeof(struct ib_user_mad_hdr_old);
}

/* --- umad_send.c --- */

/* A message of the program. 0 or -errno. Takes vb_umad_lock. */
int vb_umad_send(struct vb_umad_file *file, const uint8_t *bytes, size_t size);
/* The timer of a file: sends again, or tells the program that the time is over. */
void vb_umad_on_timer(int fd, void *file);

/* --- umad_receive.c --- */

/* A MAD for the program; from: its source, as the program names ports. Under vb_umad_lock. */
void vb_umad_deliver(struct vb_umad_file *file, uint32_t agent, uint32_t status,
		     const struct vb_mad_address *from, const uint8_t *mad, size_t length);
/* The socket of a file or a class is readable. */
void vb_umad_on_datagram(int fd, void *file);

/* --- umad_calls.c --- */

/* read(2) of a descriptor that may be of a file; false: it is not. */
bool vb_umad_read(int fd, void *buffer, size_t size, ssize_t *result);

#endif
