/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of a capture: shared memory of one process, which tells what its NIC does while a
 * program captures packets, or traces work requests. Only the owner writes. It reads nothing back
 * and waits for no reader, so a reader that is too slow finds records overwritten, and counts them.
 *
 *	head | data, VB_CAPTURE_RING bytes; both sides map data twice in a row, so that no record
 *	       is cut at the end
 *
 * A position counts all bytes since the beginning; it lies at position % VB_CAPTURE_RING. The owner
 * moves `reserved` before it writes a record, and `written` after it. A reader copies bytes first,
 * and then looks at `reserved`: bytes from reserved - VB_CAPTURE_RING on are sound.
 *
 * A process that dies leaves everything before `written`. Both ends are of one host, but may be of
 * two versions: a reader takes the version that it knows.
 */
#ifndef VB_CAPTURE_RECORD_H
#define VB_CAPTURE_RECORD_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#define VB_CAPTURE_MAGIC 0x3165727574706163ull /* begins the request, the answer and the ring */

enum {
	VB_CAPTURE_VERSION = 2,
	VB_CAPTURE_HEAD = 64 << 10, /* of the file, so that data begins at a page of any size */
	VB_CAPTURE_RING = 16 << 20,
	VB_CAPTURE_PAYLOAD = 256 << 10, /* most bytes behind one record */
	VB_CAPTURE_TEXT = 320,          /* most bytes of a sentence */
	VB_CAPTURE_ALL = 65536,         /* of vb_capture_request.bytes: packets are not cut */
};

/* From a program that captures to the process. The connection stays while the capture runs. */
struct vb_capture_request {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* bytes of payload to keep of each packet */
	uint32_t wants; /* enum vb_capture_want, some of them */
	uint32_t reserved;
};

enum vb_capture_want {
	VB_WANT_PACKETS = 1 << 0,
	VB_WANT_STATIONS = 1 << 1,
};

/* The answer; the descriptor of the ring, for reading only, comes along. */
struct vb_capture_answer {
	uint64_t magic;
	uint32_t version;
	uint32_t error; /* 0, or an errno: EPERM, ENOMEM, EBUSY (too many captures) */
	/* The next record at that moment, and what lies before it: the capture begins there. */
	uint64_t position, number;
	uint32_t station, reserved; /* stations before it, modulo 2^32 */
};

struct vb_capture_ring_head {
	uint64_t magic;
	uint32_t version;
	uint32_t ring; /* VB_CAPTURE_RING */
	_Alignas(64) _Atomic uint64_t reserved;
	_Atomic uint64_t written;
	_Atomic uint64_t packets; /* in all records before `written` */
	_Atomic uint64_t lost;    /* packets that found the ring busy for too long */
	_Atomic uint64_t stations, stations_lost; /* the same of stations */
};
static_assert(sizeof(struct vb_capture_ring_head) == 128, "layout of the ring's head");

enum vb_capture_kind {
	VB_CAPTURE_OUT = 1, /* struct vb_capture_packet: a packet that left, */
	VB_CAPTURE_IN,      /* ... or came in */
	VB_CAPTURE_WORK,    /* struct vb_capture_work: on the local path */
	VB_CAPTURE_PSNS,    /* struct vb_capture_note: a work request of the wire gets its PSNs */
	VB_CAPTURE_FAILED,  /* struct vb_capture_note, and a sentence */
	VB_CAPTURE_MAD,     /* struct vb_capture_packet: a MAD between processes of this host */
	VB_CAPTURE_STATION, /* struct vb_capture_station */
};

/* In front of each record. */
struct vb_capture_head {
	uint64_t position; /* of this record */
	uint64_t number;   /* packets in all records before it */
	uint64_t time_ns;  /* CLOCK_MONOTONIC; 0: now is as good */
	uint32_t size;     /* of the whole record, a multiple of 8 */
	uint32_t packets;  /* that the record stands for */
	uint16_t kind;     /* enum vb_capture_kind */
	uint16_t text;     /* bytes of a sentence, right behind the record's struct */
	uint32_t station;  /* stations in all records before it, modulo 2^32 */
};
static_assert(sizeof(struct vb_capture_head) == 40, "layout of a record's head");

/* `kept` bytes of the packet from the BTH on follow; a MAD has its 256 bytes instead. */
struct vb_capture_packet {
	struct vb_capture_head head;
	uint8_t src[16], dst[16]; /* IPv4: the first four bytes. MAD: GIDs */
	uint32_t length;          /* of the packet, with its ICRC */
	uint32_t kept;
	uint32_t qpn; /* OUT: the QP that sent it; IN: 0 */
	uint16_t src_port, dst_port;
	uint16_t id; /* OUT: IPv4 identification */
	uint8_t ipv6, traffic_class, hop_limit;
	uint8_t by; /* enum vb_capture_by */
	uint8_t reserved[2];
};
static_assert(sizeof(struct vb_capture_packet) == 96, "layout of a packet's record");

/* How a packet goes: enum vb_way_kind, by another name. */
enum vb_capture_by { VB_BY_UDP, VB_BY_SLOT, VB_BY_MEMORY, VB_BY_GROUP, VB_BY_NOWHERE };

/*
 * A work request of the local path. It stands for request packets `first` to `first` + `count`, and
 * for the answer if `answers`. Of each packet with payload, which is the answer's for a READ,
 * min(`bytes`, its payload) bytes follow.
 */
struct vb_capture_work {
	struct vb_capture_head head;
	uint64_t ended_ns; /* when the answer came */
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t operand[2]; /* atomics: compare or add, swap. FLUSH: length, FETH */
	uint64_t original;   /* atomics: the value before */
	uint8_t sgid[16], dgid[16];
	uint32_t qpn, dest_qpn, srqn;
	uint32_t psn, msn; /* of the first packet; of the answer */
	uint32_t length, rkey, imm, qkey;
	uint32_t first, count; /* packets; see above */
	uint32_t mtu, bytes;
	uint16_t pkey;
	uint8_t opcode, type; /* enum ibv_wr_opcode, enum ibv_qp_type */
	uint8_t status;       /* enum ibv_wc_status */
	uint8_t syndrome;     /* of the answer: an ACK, RNR NAK or NAK */
	uint8_t answers;      /* there is an answer, behind the last of these packets */
	uint8_t solicited;
	uint8_t traffic_class, hop_limit, sl, infiniband;
	uint32_t naked; /* a NAK answers this packet; an ACK the last one */
};
static_assert(sizeof(struct vb_capture_work) == 192, "layout of a work request's record");

struct vb_capture_note {
	struct vb_capture_head head;
	uint64_t wr_id;
	uint32_t qpn;
	uint32_t psn, psn_count;
	uint8_t opcode, status;
	uint8_t reserved[2];
};
static_assert(sizeof(struct vb_capture_note) == 64, "layout of a note");

/*
 * A station: something that happens to a work request, a queue or a connection, at head.time_ns.
 * Fields that a station does not name are 0.
 */
enum vb_station {
	/* qpn, index (of the send queue), wr_id, opcode, length, cq */
	VB_STATION_POSTED = 1,
	/* The wire begins to send: qpn, index, peer_qpn, psn (of the last packet) */
	VB_STATION_BEGUN,
	/* All bytes are placed, and the work request is complete: qpn, index, status; on the local
	 * path begun_ns, and if it has consumed a receive peer_qpn and receive */
	VB_STATION_DONE,
	/* The program has polled the completion: as POSTED, and status */
	VB_STATION_POLLED,
	/* Receives are posted: qpn or srq, receive (the first), length (their number) */
	VB_STATION_RECV_POSTED,
	/* The last packet of a message has come by the wire: qpn, peer_qpn, receive, psn */
	VB_STATION_RECV_PLACED,
	/* The program has polled a receive: qpn, srq, peer_qpn, receive, wr_id, length, status */
	VB_STATION_RECV_POLLED,
	/* The send queue waits from now on: qpn, index, why; VB_TRACE_GOES_ON: no more */
	VB_STATION_WAITS,
	/* A message of the connection manager left or came: attribute, comm_ids, out */
	VB_STATION_CM,
};

enum vb_trace_wait {
	VB_TRACE_GOES_ON,
	VB_TRACE_NO_RECEIVE, /* the target has posted none: RNR */
	VB_TRACE_PEER,       /* the peer is not ready, or does not answer */
	VB_TRACE_WINDOW,     /* as many packets are under way as the window allows */
	VB_TRACE_SHARE,      /* the same of the lane's share */
	VB_TRACE_RATE,       /* the rate of the QP, or a pause for congestion */
	VB_TRACE_RULE,       /* a fault rule */
	VB_TRACE_BUSY,       /* the target moves its memory, or a datagram is on its way */
	VB_TRACE_WAIT_COUNT
};

struct vb_capture_station {
	struct vb_capture_head head;
	uint64_t wr_id;
	uint64_t begun_ns;
	uint32_t qpn, srq, peer_qpn;
	uint32_t index, receive;
	uint32_t psn;
	uint32_t length;
	uint32_t cq;
	uint32_t comm_ids[2]; /* the sender's, and the receiver's as the message has it */
	uint16_t attribute;
	uint8_t station; /* enum vb_station */
	uint8_t opcode;  /* enum ibv_wr_opcode */
	uint8_t status;  /* enum ibv_wc_status */
	uint8_t why;     /* enum vb_trace_wait */
	uint8_t out, reserved;
};
static_assert(sizeof(struct vb_capture_station) == 104, "layout of a station");

#endif
