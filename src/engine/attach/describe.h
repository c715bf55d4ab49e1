/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process describes its own objects to its own user and to root. The asker connects to a slot
 * socket and sends a request instead of a hello. The answer is one message, with a sealed memfd
 * that holds the records. Nothing is kept for the asker, and no thread waits for it.
 *
 * Both ends are of one host, but may be of two versions: a reader takes the versions that it knows.
 */
#ifndef VB_ENGINE_ATTACH_DESCRIBE_H
#define VB_ENGINE_ATTACH_DESCRIBE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define VB_DESCRIBE_MAGIC 0x3162637365646276ull /* begins the request and the answer */

enum {
	VB_DESCRIBE_VERSION = 6,
	VB_DESCRIBE_RECORDS_MAX = 1 << 16, /* 16 MB; further objects are only counted */
};

enum vb_describe_what {
	VB_DESCRIBE_OBJECTS, /* struct vb_describe_record */
	VB_DESCRIBE_WAITS,   /* struct vb_why_record (why.h) */
	VB_DESCRIBE_PORT,    /* one struct vb_port_counts (port_counts.h) */
	VB_DESCRIBE_WHATS,
};

struct vb_describe_request {
	uint64_t magic;
	uint32_t version;
	uint16_t what;  /* enum vb_describe_what */
	uint16_t clear; /* VB_DESCRIBE_PORT: enum vb_perf_select (mad/agent.h) */
};
static_assert(sizeof(struct vb_describe_request) == 16, "layout of the request");

enum vb_describe_kind {
	VB_DESCRIBE_PD = 1,
	VB_DESCRIBE_CQ,
	VB_DESCRIBE_MR,
	VB_DESCRIBE_MW,
	VB_DESCRIBE_SRQ,
	VB_DESCRIBE_QP,
	VB_DESCRIBE_XRCD,
	VB_DESCRIBE_CM_ID, /* an identifier of librdmacm */
	VB_DESCRIBE_KINDS,
};

/* States of an identifier: the numbers of the kernel's enum rdma_cm_state. */
enum vb_describe_cm_state {
	VB_DESCRIBE_CM_IDLE,
	VB_DESCRIBE_CM_ADDR_QUERY,
	VB_DESCRIBE_CM_ADDR_RESOLVED,
	VB_DESCRIBE_CM_ROUTE_QUERY,
	VB_DESCRIBE_CM_ROUTE_RESOLVED,
	VB_DESCRIBE_CM_CONNECT,
	VB_DESCRIBE_CM_DISCONNECT,
	VB_DESCRIBE_CM_ADDR_BOUND,
	VB_DESCRIBE_CM_LISTEN,
	VB_DESCRIBE_CM_DEVICE_REMOVAL,
	VB_DESCRIBE_CM_STATES,
};

/* The reasons for which an identifier waits. */
enum vb_describe_cm_wait {
	VB_CM_WAITS_NOT,
	VB_CM_WAITS_ADDRESS,   /* rdma_resolve_addr: for the neighbour on the link */
	VB_CM_WAITS_REP,       /* rdma_connect: for the answer of the server */
	VB_CM_WAITS_FETCH,     /* a request: for the program, which has not fetched the event */
	VB_CM_WAITS_ACCEPT,    /* a request: for the program, which has not answered */
	VB_CM_WAITS_RTU,       /* rdma_accept: for the client */
	VB_CM_WAITS_ESTABLISH, /* the answer has come: for the program */
	VB_CM_WAITS_DREP,      /* rdma_disconnect: for the peer */
	VB_CM_WAITS_SIDR,      /* rdma_connect of UD: for the answer of the server */
	VB_CM_WAITS,
};

struct vb_describe_answer {
	uint64_t magic;
	uint32_t version;
	uint32_t error;        /* 0, or an errno: EPERM, EAGAIN (busy), ENOMEM */
	uint32_t record_count; /* records in the memfd */
	uint32_t record_size;
	uint32_t left_out;   /* objects that found no room */
	uint32_t refused;    /* requests so far that were malformed, or of another user */
	uint32_t counts[10]; /* all objects, by kind; [0]: address handles */
	/* Packets of the wire, since the process began. */
	uint64_t packets_out, packets_in, bytes_out, bytes_in, repeated, rnr_naks, dropped;
};

struct vb_describe_record {
	uint32_t kind;
	/* QPN, SRQ number, PD, XRC domain, identifier, index of keys; for a CQ its place in
	 * memory */
	uint32_t id;
	uint32_t pd;
	uint32_t users;        /* PD, CQ, SRQ, XRC domain: objects that use it */
	char device[16];       /* may be without a NUL; empty: the identifier is bound to none */
	uint64_t addr, length; /* MR */
	uint32_t lkey, rkey, access;       /* MR, MW */
	uint32_t send_cq, recv_cq, srq;    /* QP; srq 0: none. XRC SRQ: recv_cq */
	uint32_t dest_qpn;                 /* QP */
	uint32_t send_posted, recv_posted; /* QP: work requests not completed; SRQ: recv only */
	uint32_t depth;                    /* CQ: cqe; SRQ: max_wr */
	uint8_t type;                      /* enum ibv_qp_type, ibv_mw_type, ibv_srq_type */
	uint8_t state;                     /* enum ibv_qp_state, vb_describe_cm_state */
	uint8_t dest_local;                /* QP: the peer is on this host */
	uint8_t on_wire;                   /* QP: packets carry it */
	uint32_t limit;                    /* SRQ */
	uint8_t dest_gid[16];              /* QP; zero: not connected, or by LID */
	uint32_t xrcd;                     /* SRQ, XRC_RECV QP; 0: none */
	uint32_t shared; /* XRC domain: it has a file. XRC_RECV QP: handles besides its creator's */
	uint32_t sq_psn, rq_psn; /* QP: as ibv_query_qp has them */
	uint32_t mig_state;      /* QP: enum ibv_mig_state */
	/* Identifier: enum rdma_port_space, the QP of the connection (0: none yet), and its
	 * addresses, sockaddr_in or sockaddr_in6 (zero: none, or of another family). */
	uint32_t port_space, cm_qpn;
	uint8_t src[28], dst[28];
	/* QP: counts since RESET, which wrap around. Work requests of the send queue that are
	 * completed, those of them whose place no poll has freed, receives that are consumed. */
	uint32_t sent, unpolled, received;
	uint8_t waits;   /* QP: enum vb_pend_why, why the send queue does not go on */
	uint8_t lane;    /* QP on the wire (nic/lane.h) */
	uint8_t cm_wait; /* identifier: enum vb_describe_cm_wait */
	uint8_t mapped;  /* MR: peers may map it (nic/map.h) */
	uint8_t reserved[4];
	uint64_t bytes_out, bytes_read; /* QP: of completed work requests */
	uint64_t lost;                  /* QP: messages to it that found no receive or no right */
	uint64_t since_ns;              /* identifier: it waits since then */
};
static_assert(sizeof(struct vb_describe_record) == 248, "layout of a record");
static_assert(sizeof(struct vb_describe_answer) == 128, "layout of the answer");
static_assert(VB_DESCRIBE_KINDS <= 10, "a count for each kind");

/*
 * librdmacm lists its identifiers: it allocates *records, which the caller frees. 0 or -ENOMEM. The
 * service thread calls it, with no lock held.
 */
typedef int vb_describe_ids_fn(struct vb_describe_record **records, uint32_t *count);
/* One such function; NULL: none. */
void vb_describe_ids_by(vb_describe_ids_fn *list);
/* Calls it. */
int vb_describe_ids(struct vb_describe_record **records, uint32_t *count);

struct vb_nic;

/* The other end of the socket is the same user, or root. */
bool vb_describe_may_ask(int socket);
/* Reads a request from a connected slot socket and answers it. The caller closes the socket. */
void vb_describe_answer_to(struct vb_nic *nic, int socket);

#endif
