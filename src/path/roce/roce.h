/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol core of the wire path: requester, responder and completer of RC, XRC, UC and UD. The
 * core does no I/O and reads no clock: packets come in through vb_roce_input and leave through the
 * sink, and the caller sets the time. The same code runs over UDP, over slot sockets, over a
 * simulated network and under a fuzzer.
 *
 * The way of a message: verbs/post.c -> engine/wire/wire.c -> requester.c -> tx.c -> port, and at
 * the other end port -> demux.c -> responder.c -> exec/recv.c -> reply.c -> tx.c, and back through
 * demux.c -> completer.c -> path/complete.c.
 *
 * There is one core per lane. All functions are called under the lock of the lane
 * (engine/wire/wire.h). For adopted QPs this lock takes the place of the executor's token.
 */
#ifndef VB_PATH_ROCE_ROCE_H
#define VB_PATH_ROCE_ROCE_H

#include "base/timer.h"
#include "nic/masked.h"
#include "nic/rate.h"
#include "path/complete.h"
#include "path/roce/answers.h"
#include "path/roce/congestion.h"
#include "path/roce/ident.h"
#include "path/roce/known.h"
#include "path/roce/lateness.h"
#include "path/roce/reorder.h"
#include "path/roce/repair.h"
#include "path/roce/tolerance.h"
#include "path/roce/tx.h"
#include "wire/mad.h"
#include "wire/packet.h"

enum {
	VB_REPLIES = 256,     /* answers that wait to be sent; a request beyond is dropped */
	VB_TURN_PACKETS = 64, /* packets of one QP before the next QP has its turn */
	VB_TURN_QPS = 64,     /* QPs that have a turn before the sockets are read again */
};

/* A READ or ATOMIC request that is under way: PSNs of its answer. */
struct vb_read_request {
	uint32_t psn, count;
};

/*
 * A READ request as it was first sent. Responders repeat parts of one request, never parts of two.
 * Some repeat only parts that begin no earlier than the last repetition did.
 */
struct vb_read_asked {
	uint32_t psn, end_psn;
	uint32_t cut_psn; /* end of the part that was asked for last */
	/* End of the part that was lost and asked for alone, and the time; 0: none. */
	uint32_t part_end_psn;
	uint64_t part_ns;
};

/* The sending half of a connected QP. */
struct vb_requester {
	bool started; /* the QP has been in RTS, which sets the first PSN */
	bool tried;   /* the WQE at begun is to be tried again, or the local path had begun it: SQD
			      lets it finish */
	uint32_t una_psn;    /* oldest PSN that is not acknowledged, or whose answer is missing */
	uint32_t acked_psn;  /* one past the newest PSN that the peer is known to have executed */
	uint32_t next_psn;   /* next PSN to send; behind sent_psn while going back */
	uint32_t sent_psn;   /* one past the newest PSN that was ever sent */
	uint32_t tail_psn;   /* first PSN that no WQE has yet */
	uint32_t cursor;     /* index of the WQE that next_psn is in */
	uint32_t begun;      /* WQEs before this index have PSNs */
	enum vb_reason stop; /* the WQE at begun cannot be sent: it fails once it is the oldest */
	struct vb_report stop_report;
	uint64_t delayed;        /* 1 + index of the WQE that a fault rule holds back ... */
	uint64_t delayed_ns;     /* ... until this time */
	uint64_t waited;         /* 1 + index of the WQE that waits for completions of a CQ ... */
	uint64_t waited_ns;      /* ... since then */
	uint64_t lost_waited_ns; /* sum of the waits, if rules have lost each try of that WQE */
	bool suspect; /* the last WQE begun cannot take its answer in: no WQE goes out behind it */
	struct vb_read_request reads[VB_RD_ATOMIC_MAX]; /* ring */
	uint32_t reads_head, reads_tail;
	struct vb_read_asked asked[VB_RD_ATOMIC_MAX]; /* ring: requests without a whole answer */
	uint32_t asked_head, asked_tail;
	uint32_t unasked; /* packets since the last one that asked for an ACK */
	/* waiting */
	uint64_t stalled_ns;   /* time of the last progress */
	uint32_t put_off;      /* times that giving up was put off since then */
	uint64_t resend_ns;    /* time to send again; VB_NEVER_NS: no packet is under way */
	uint64_t backoff_ns;   /* the wait that ends at resend_ns */
	uint64_t rnr_ns;       /* end of an RNR wait; 0: not waiting */
	uint64_t rnr_since_ns; /* with rnr_cautious: time of the first RNR NAK */
	uint32_t overdue;      /* repetitions after silence, while una_psn is ... */
	uint32_t overdue_psn;  /* ... this */
	uint64_t told_ns;      /* the wait since then has been explained; 0: none */
	uint64_t pace_ns; /* time at which a rate, or a fault rule, lets more go; 0: none waits */
	struct vb_rate_paid paid;
	uint64_t gap_end_ns; /* time before which congestion lets no packet go */
	uint32_t rnr_tries, nak_retries;
	bool rnr_cautious;    /* after an RNR wait: one packet only, until the peer takes it */
	uint8_t traced;       /* enum vb_trace_wait: the last wait that a program was told of */
	uint32_t nak_psn;     /* of the last sequence NAK that was acted upon */
	uint32_t msn;         /* of the peer's last answer */
	uint8_t doubted;      /* syndrome of a NAK that may be forged (completer.c); 0: none ... */
	uint32_t doubted_psn; /* ... and the PSN that it refuses */
	bool asked_host;      /* whether it takes packets, for a sentence */
	bool strange_nak;     /* a NAK for a PSN that is not under way, as strange_psn */
	uint32_t strange_psn;
	bool recovering;    /* the requester went back, and una_psn has not moved since */
	bool probing;       /* after a timeout: one packet only, until the peer answers */
	bool loss_open;     /* ... whose answer tells whether the silence was a loss */
	uint32_t probe_psn; /* sent_psn at that timeout */
	uint64_t back_ns;   /* time at which the requester went back last */
	/* round trips: one PSN at a time, never a PSN that was sent twice */
	bool timing;
	uint32_t timed_psn;
	uint64_t timed_ns;
	struct vb_congestion congestion;
	struct vb_repair repair;
	struct vb_answers answers;     /* early ones */
	struct vb_tolerance tolerance; /* of missing answers */
	bool parts_due;                /* answers are missing, and are to be asked for again ... */
	bool parts_silent;             /* ... because none came for a while */
	struct vb_gap part;            /* the last part that was asked for alone */
};

/* An answer that has to be sent, in order. */
struct vb_reply {
	uint32_t psn;
	uint32_t count; /* READ: packets of the answer */
	uint32_t sent;  /* READ: packets of it that have left */
	bool atomic;
	bool repeated; /* answered before: the answer takes no resource, and is not worth a NAK */
	uint32_t rkey;
	uint32_t srqn; /* XRC */
	uint64_t va;
	uint32_t length;
	uint32_t msn;
	bool counts;           /* READ: completion counters count it once it has left ... */
	uint32_t counts_bytes; /* ... as so many bytes, those of the first request */
	uint64_t original;     /* ATOMIC */
	uint8_t width;         /* extended ATOMIC: bytes in answer, which a READ response brings */
	uint8_t answer[VB_MASKED_BYTES_MAX];
};

/* An ATOMIC that was executed: a duplicate gets the same answer. */
struct vb_saved_atomic {
	uint32_t psn;
	uint8_t opcode;
	bool used;
	uint64_t original;
	uint8_t width; /* extended ATOMIC: bytes in answer */
	uint8_t answer[VB_MASKED_BYTES_MAX];
};

struct vb_claim;
struct vb_tag;

/* The message under way at a QP whose SRQ matches tags. */
struct vb_tm_arrival {
	struct vb_tag *tag; /* the tag that the message goes into; NULL: an ordinary receive */
	bool unexpected;    /* the message counts as unexpected, and has not completed */
	uint8_t opcode;     /* enum ibv_tmh_op */
	uint64_t value;
	uint32_t app_ctx;
};

/* The receiving half. */
struct vb_responder {
	struct vb_remote own;     /* this QP's receive queue, seen as a local sender sees it */
	struct vb_remote answers; /* XRC: the SRQ that the READ or ATOMIC at hand is for */
	bool bound;
	uint32_t expected_psn;
	uint32_t msn;       /* messages completed */
	bool nak_sent;      /* a sequence NAK for expected_psn is out */
	uint32_t behind;    /* packets that came behind a gap since expected_psn moved */
	uint64_t behind_ns; /* time of the last of them */
	uint64_t gap_ns;    /* time since which expected_psn is known to be missing */
	struct vb_lateness lateness;
	bool asked; /* the requester takes reports of gaps */
	bool report_due;
	uint64_t report_ns; /* time of the next report, at the earliest */
	struct vb_reorder reorder;
	bool rnr_sent;         /* an RNR NAK for expected_psn is out: later packets are dropped */
	uint8_t family;        /* enum vb_family of the message under way; UNKNOWN: none */
	bool skipping;         /* UC: packets are dropped up to the next First or Only */
	uint32_t offset;       /* bytes of the message that are placed */
	uint32_t rkey, length; /* WRITE */
	uint64_t va;
	struct vb_reply replies[VB_REPLIES]; /* ring */
	uint32_t reply_head, reply_tail;
	struct vb_saved_atomic saved[VB_RD_ATOMIC_MAX];
	uint32_t saved_next;
	bool ack_due;
	uint64_t ack_ns; /* time since which the ACK is due */
	uint32_t ack_psn,
		ack_msn; /* of the newest SEND or WRITE; READs have answers of their own */
	uint8_t nak_due; /* syndrome; 0: none. The NAK leaves behind the answers before it */
	uint32_t nak_psn;
	enum vb_reason fatal; /* once the NAK (or ACK) is out the QP fails for this reason */
	bool fatal_spoils;    /* the receive fails, too, and has the status of the reason */
	bool fatal_told;      /* the NAK (or ACK) went out, and the QP has failed */
	struct vb_tm_arrival tm;
	bool heard, told; /* the first message has arrived; the program has been told */
	bool psn_told;    /* that the first packet had another PSN has been explained */
	bool drops_told[VB_REASON_COUNT]; /* UC, UD: reasons that have been explained */
};

/* The counters of one QP. All are uint64_t, so that counters of QPs can be added up. */
struct vb_wired_counters {
	/* requester */
	uint64_t retransmits, timeouts, nak_sequence, rnr_naks, implied_nak, late_answers;
	uint64_t retry_exceeded, rnr_exceeded, cnp_handled, naks_doubted;
	/* responder */
	uint64_t duplicates, out_of_sequence, rnr_sent, cnp_sent;
};

/* The list of struct vb_roce that a QP is in. */
enum vb_queued {
	VB_QUEUED_NOT,
	VB_QUEUED_TODO,
	VB_QUEUED_ACK,
	VB_QUEUED_GATHER,
	VB_QUEUED_STARVED,
};

/* A QP that the wire carries. */
struct vb_wired {
	struct vb_qp *qp;
	struct vb_roce *roce;
	struct vb_list node; /* in the bucket of its QPN */
	struct vb_list todo; /* in the list that queued names */
	struct vb_timer timer;
	struct vb_timer gap_timer; /* a gap has lasted longer than overtaken packets explain */
	struct vb_way way;         /* RC, UC; of path_number */
	uint32_t path_number;
	bool by_slot; /* packets go through the slot socket of a process of this host */
	uint32_t mtu;
	enum vb_queued queued;
	uint64_t share_bytes; /* this QP's part of roce->share */
	bool holds_token;     /* RC, UC: true as long as the QP is adopted */
	uint64_t heard_ns;    /* RC, UC: time of the peer's last packet */
	uint64_t cnp_ns;      /* time of the last CNP that was sent */
	bool cnp_due;
	uint32_t datagram_psn; /* UD: a running number */
	uint32_t gathered;     /* posts since the last turn */
	struct vb_notice notice;
	struct vb_requester req;
	struct vb_responder resp;
	struct vb_wired_counters counters;
};

/* Packets that were dropped, by reason. */
enum vb_packet_drop {
	VB_PACKET_DROP_MALFORMED, /* enum vb_packet_flaw has the details */
	VB_PACKET_DROP_ICRC,
	VB_PACKET_DROP_UNKNOWN_QP,
	VB_PACKET_DROP_TRANSPORT, /* an opcode of another transport than the QP's */
	VB_PACKET_DROP_STATE,     /* the QP cannot receive now */
	VB_PACKET_DROP_PKEY,
	VB_PACKET_DROP_ADDRESS, /* not from the connected peer */
	VB_PACKET_DROP_QKEY,
	VB_PACKET_DROP_SEQUENCE, /* RC: behind a gap or an RNR NAK. UC: part of a broken message */
	VB_PACKET_DROP_LENGTH,
	VB_PACKET_DROP_RECEIVE,  /* UC, UD: no receive, or one that is too short */
	VB_PACKET_DROP_ACCESS,   /* UC: wrong key, or missing right */
	VB_PACKET_DROP_OVERFLOW, /* more requests than answers can wait */
	VB_PACKET_DROPS,
};
const char *vb_drop_name(enum vb_packet_drop drop);

/* The functions through which packets leave and ways are found: the port's, or a simulation's. */
struct vb_roce_sink {
	void *arg;
	void (*send)(void *arg, const struct vb_burst *bursts, unsigned count);
	unsigned (*burst_max)(void *arg, const struct vb_way *way);
	int (*resolve)(void *arg, const struct vb_av *av, struct vb_peer *peer, uint32_t entropy,
		       struct vb_way *way);
	/* A packet for QP 0 or 1, which belong to the host; NULL: such packets are dropped. */
	void (*gsi)(void *arg, const struct vb_packet *packet, const struct vb_arrival *arrival);
	/* XRC needs a process of this host that is not attached; false: no process has the slot.
	 * NULL: there are no others. */
	bool (*attach)(void *arg, uint32_t slot);
	/* The LID of an address as an InfiniBand device sees it, 0 if unknown; *own: it is the
	 * device's own. NULL: no LID is known. */
	uint16_t (*lid_at)(void *arg, const struct vb_device *device, const union ibv_gid *address,
			   bool *own);
	/* True: this host has the address, or an InfiniBand port with that GID; NULL: never. */
	bool (*is_own_address)(void *arg, const union ibv_gid *address);
	/* True: the packet came from the other end of a way within this host, by any of its many
	 * addresses; NULL: the way's own address alone counts. */
	bool (*is_from_other_end)(void *arg, const struct vb_way *way,
				  const struct vb_arrival *arrival);
	/* For sentences alone: asks the host at the other end whether it takes packets, and tells
	 * what the network has answered, an errno or 0; NULL: nobody asks. */
	void (*knock)(void *arg, const struct vb_way *way);
	int (*knock_error)(void *arg, const struct vb_way *way);
	/* Gives the CPU to another thread, which the caller waits for; NULL: there are no
	 * others. */
	void (*yield)(void *arg);
};

enum { VB_WIRED_BUCKETS = 1024, VB_WAY_CACHE = 64 };

/* A packet in the middle of a message. The next ones of its burst have the same bytes, length and
 * icrc_head (demux.c). */
struct vb_sequel {
	uint64_t burst; /* of struct vb_arrival; 0: none */
	struct vb_wired *wired;
	uint32_t length;
	uint32_t icrc_head;
	uint8_t bytes[VB_ICRC_HEAD]; /* the first of the packet */
	struct vb_packet packet;
};

struct vb_roce {
	struct vb_nic *nic;
	unsigned lane;            /* this core carries the QPs of one lane (nic/lane.h) */
	struct vb_thread *thread; /* the calling thread; set by the caller */
	uint64_t now_ns;          /* the time; set by the caller before each call */
	struct vb_roce_sink sink;
	struct vb_tx tx;
	struct vb_timers timers, gap_timers;
	struct vb_list todo;    /* struct vb_wired with packets to send or to answer */
	struct vb_list acks;    /* wired QPs with nothing but an ACK to send ... */
	uint64_t acks_ns;       /* ... and the time since which the first of them has waited */
	struct vb_list gather;  /* wired QPs with much under way, which wait for more posts ... */
	uint64_t gather_ns;     /* ... and the time since which the first of them has waited */
	struct vb_list starved; /* wired QPs that wait for a part of the share */
	struct vb_share share;
	uint64_t paid_ns; /* time until which the packets of all UC and UD QPs take (pace.c) */
	struct vb_list wired[VB_WIRED_BUCKETS];
	uint32_t wired_count;
	struct vb_way ways[VB_WAY_CACHE]; /* ways of address handles */
	uint32_t mad_psn;                 /* PSN of QP 0 and 1: a running number */
	bool unread; /* set by a caller that has not read the sockets before: silence proves
				     nothing then, so no timer fires */
	bool behind; /* set by a caller that has not read all packets: no QP is given up */
	bool fatal;  /* a fault rule ends the device: the caller carries it out */
	struct vb_sequel sequel;
	struct vb_known known[VB_KNOWN]; /* by opcode and QPN */
	struct vb_ident_table idents;    /* the IPv4 identifications of peers */
	uint64_t drops[VB_PACKET_DROPS];
	bool icrc_explained,
		pkey_explained; /* one line is enough: any host can send such packets */
	uint32_t drops_told;    /* a bit per enum vb_packet_drop that was explained */
	struct {
		union ibv_gid host;
		uint32_t qpn;
		uint64_t ns; /* 0: none came */
	} stray;             /* under VERBENA_EXPLAIN: the last answer for a QP that is not there */
	uint64_t flaws[VB_PACKET_FLAWS];
	uint64_t reserved;             /* packets with reserved bits, which were accepted */
	struct vb_wired_counters past; /* counters of QPs that were dropped */
};

int vb_roce_init(struct vb_roce *roce, struct vb_nic *nic, const struct vb_roce_sink *sink);
void vb_roce_fini(struct vb_roce *roce);

/*
 * Adopts a QP, which owns way from then on (UD: NULL). RC and UC: the caller holds the executor's
 * token, and the wire keeps it until the QP is dropped. 0 or -ENOMEM.
 */
int vb_roce_adopt(struct vb_roce *roce, struct vb_qp *qp, struct vb_way *way);
/* The process ends: sends the ACKs that are due, for the last time. */
void vb_roce_farewell(struct vb_roce *roce);
/* Forgets a QP, and gives its token back. */
void vb_roce_drop(struct vb_wired *wired);
struct vb_wired *vb_roce_find(struct vb_roce *roce, uint32_t qpn);
/* The sum over all QPs, past ones included. */
struct vb_wired_counters vb_roce_counters(const struct vb_roce *roce);

/* True: a packet has come from a connected peer at this address since since_ns. */
bool vb_roce_heard_since(const struct vb_roce *roce, const union ibv_gid *host, uint64_t since_ns);

/* The program has posted work, or the QP's state has changed. */
void vb_roce_post(struct vb_wired *wired);
/* True: a QP has packets to send that do not wait for more posts. */
bool vb_roce_urgent(const struct vb_roce *roce);
/* A packet came in. Returns the number of packets that were taken in: those behind it are, too, if
 * they continue its message. */
unsigned vb_roce_input(struct vb_roce *roce, const struct vb_arrival *arrival);
/*
 * Sends the requests, answers and repetitions that may leave now. True: there is more to do. With
 * hold_acks a mere ACK waits for the next turn, because a message that follows can take it along.
 */
bool vb_roce_turn(struct vb_roce *roce, bool hold_acks);
/* True: a turn would do nothing now. */
bool vb_roce_at_rest(const struct vb_roce *roce, bool hold_acks);
/* The time at which vb_roce_turn should be called again; VB_NEVER_NS. */
uint64_t vb_roce_next_ns(const struct vb_roce *roce);

/* UD: sends a datagram that was put aside (path/local/aside.c), and is complete. False: not now. */
bool vb_roce_datagram_aside(struct vb_roce *roce, struct vb_qp *qp, const struct vb_wqe *wqe,
			    struct vb_peer *peer);
/*
 * UD: sends the WQE at sq.next, to a process of this host through its slot socket if peer is not
 * NULL, and completes it. The caller holds the executor's token. Not 0: nothing was done, and the
 * caller is to call again at this time.
 */
uint64_t vb_roce_datagram(struct vb_roce *roce, struct vb_qp *qp, struct vb_peer *peer,
			  struct vb_notice *notice);

/* Forgets ways to processes that have ended. */
void vb_roce_forget_ended(struct vb_roce *roce);
/* Forgets ways of address handles: interfaces and addresses have changed. */
void vb_roce_forget_ways(struct vb_roce *roce);

/* Sends a MAD from QP 1 to QP 1, or an SMP from QP 0 to QP 0, at once. -errno: no way. */
int vb_roce_mad(struct vb_roce *roce, const struct vb_av *av, const uint8_t mad[VB_MAD_SIZE]);

/* --- between the files of the protocol core --- */

/* pace.c */
/* UC and UD: 0, or the time at which to try again. */
uint64_t vb_pace_wait_ns(const struct vb_roce *roce, const struct vb_way *way);
void vb_pace_pay(struct vb_roce *roce, const struct vb_way *way, uint32_t payload_length);

/* requester.c and its parts, see requester.h */
/* UD: 0, or the time at which the QP's rate lets a datagram go. */
uint64_t vb_requester_pace_datagram(struct vb_wired *wired, const struct vb_av *av,
				    uint32_t length);
/* Sends until window, budget or queue is used up; true: the budget is. */
bool vb_requester_run(struct vb_wired *wired);
/* True: vb_requester_run would find a WQE to send, or to flush. */
bool vb_requester_due(struct vb_wired *wired);
/* Sends again from a PSN on. */
void vb_requester_go_back(struct vb_wired *wired, uint32_t psn);
/* The packets that were sent before it went back are under way still: goes on behind them. */
void vb_requester_go_on(struct vb_wired *wired);
void vb_requester_timer(struct vb_wired *wired);
/* Explains a wait of the oldest WQE, once it has lasted for a second. */
void vb_requester_explain_wait(struct vb_wired *wired, enum vb_reason reason, uint64_t since_ns);
/* The time for which the requester goes on without an answer. */
uint64_t vb_requester_patience_ns(const struct vb_wired *wired);
/* A packet came or left: sets the time at which silence becomes a loss. */
void vb_requester_rearm(struct vb_wired *wired);
/* Completes the WQEs at the head of the queue that are done, and ends SQD. */
void vb_requester_advance(struct vb_wired *wired);

/* migrate.c */
/* Finds the way of a QP's path. 0 or -errno. */
int vb_roce_way(struct vb_roce *roce, struct vb_qp *qp, const struct vb_av *av,
		struct vb_peer *peer, struct vb_way *way);
/* The QP's path has changed. */
void vb_roce_follow_path(struct vb_wired *wired);
/* RC, UC: true if the packet came from the peer, on the path in use or on the alternate path, to
 * which the QP then migrates. */
bool vb_roce_from_peer(struct vb_wired *wired, const struct vb_packet *packet,
		       const struct vb_arrival *arrival);
/* The path does not answer: true if the QP goes on with its alternate path. */
bool vb_roce_migrate(struct vb_wired *wired);

/* completer.c: answers to requests of this process */
void vb_completer_ack(struct vb_wired *wired, const struct vb_packet *packet);
void vb_completer_read(struct vb_wired *wired, const struct vb_packet *packet);
void vb_completer_atomic(struct vb_wired *wired, const struct vb_packet *packet);
void vb_completer_gaps(struct vb_wired *wired, const struct vb_packet *packet);
/* The peer is silent: a doubted NAK, if there is one, was true. True: the QP has failed by it. */
bool vb_completer_believe(struct vb_wired *wired);
/* Fails the oldest WQE; report has the numbers of its sentence. */
void vb_completer_fail(struct vb_wired *wired, enum vb_reason reason);
void vb_completer_fail_as(struct vb_wired *wired, enum vb_reason reason, struct vb_report report);

/* responder.c and its parts: requests to this process */
bool vb_responder_bind(struct vb_wired *wired);
/*
 * Follows the QP's receive queue where a resize has moved it. False: the resize is under way. With
 * `waits` the thread waits for its end, outside of the hazard.
 */
bool vb_responder_follow(struct vb_wired *wired, bool waits);
void vb_responder_reliable(struct vb_wired *wired, const struct vb_packet *packet);
/* A request to a QP in ERR: if a refusal has failed the QP, its NAK may have been lost. */
void vb_responder_refuse_again(struct vb_wired *wired, const struct vb_packet *packet);
/* A gap has lasted long enough. */
void vb_responder_gap_timer(struct vb_wired *wired);
/* The requester has asked for reports of gaps. */
void vb_responder_asked(struct vb_wired *wired);
/* Takes the report that is due; false: there are no gaps any more. */
bool vb_responder_report(struct vb_wired *wired, struct vb_gaps *gaps);
void vb_responder_unreliable(struct vb_wired *wired, const struct vb_packet *packet);
void vb_responder_datagram(struct vb_wired *wired, const struct vb_packet *packet,
			   const struct vb_arrival *arrival);
/* The target whose memory READs and ATOMICs access. */
static inline struct vb_remote *vb_responder_memory(struct vb_wired *wired)
{
	return vb_qp_is_xrc(wired->qp) ? &wired->resp.answers : &wired->resp.own;
}

/* indirect.c: through an indirect key of the own process, or of the process of an XRC SRQ. All
 * bytes are checked first. */
enum vb_reason vb_indirect_check(struct vb_remote *memory, uint32_t rkey, uint64_t va,
				 uint64_t length, unsigned access);
enum vb_reason vb_indirect_write(struct vb_remote *memory, uint32_t rkey, uint64_t va,
				 const uint8_t *from, uint32_t length);
enum vb_reason vb_indirect_read(struct vb_remote *memory, uint32_t rkey, uint64_t va, uint8_t *out,
				uint32_t length);

/* xrc.c */
bool vb_responder_bind_xrc(struct vb_wired *wired);
/* Aims at the SRQ that a request names. VB_OK; a reason to refuse; or VB_WHY_PEER_...: try
 * again. */
enum vb_reason vb_responder_aim(struct vb_wired *wired, struct vb_remote *remote, uint32_t srqn);
/* Aims at the SRQ of the message under way once more; false: the SRQ is gone. */
bool vb_responder_aim_again(struct vb_wired *wired);
/* Access to memory of the process that has the SRQ, if that is another one; false: not mapped. */
bool vb_home_scatter(struct vb_wired *wired, const struct vb_recv_sges *list, uint32_t offset,
		     const struct vb_packet *packet);
bool vb_home_write(struct vb_wired *wired, uint64_t address, const struct vb_packet *packet);
bool vb_home_read(struct vb_wired *wired, uint64_t address, uint32_t length, uint8_t *out);

/* place.c */
/* True: the payload is as long as the packet's place in the message demands. */
bool vb_place_fits(const struct vb_wired *wired, const struct vb_packet *packet);
/* Executes a request on memory and receives. VB_OK, or a reason. */
enum vb_reason vb_place_send(struct vb_wired *wired, const struct vb_packet *packet);
enum vb_reason vb_place_write(struct vb_wired *wired, const struct vb_packet *packet);
/* Completes a receive with the status of the reason; false: there is no receive. */
bool vb_place_spoil(struct vb_wired *wired, enum vb_reason reason);
/* The QP ends with a message under way: gives the shared receive back that the message has
 * taken. */
void vb_place_give_back(struct vb_wired *wired);
bool vb_place_invalidate(struct vb_wired *wired, uint32_t rkey);
/* place_tm.c: the same for a QP that matches tags */
static inline bool vb_matches_tags(const struct vb_wired *wired)
{
	return __builtin_expect(wired->qp->entry->by_packets & VB_BY_PACKETS_TAGS, 0);
}
/* False: the packet goes into an ordinary receive, which the QP holds. */
bool vb_place_tm(struct vb_wired *wired, const struct vb_packet *packet, enum vb_reason *reason);
enum vb_reason vb_place_tm_complete(struct vb_wired *wired, const struct vb_claim *claim,
				    const struct vb_packet *packet);
bool vb_place_tm_spoil(struct vb_wired *wired, enum vb_reason reason);
void vb_place_tm_give_back(struct vb_wired *wired);

/* reply.c: answers that go out */
bool vb_reply_push(struct vb_responder *resp, const struct vb_reply *reply);
/* Sends answers in order; true: the budget is used up. */
bool vb_reply_run(struct vb_wired *wired);
void vb_reply_cnp(struct vb_wired *wired);

/* demux.c: the QP goes, and no packet continues a message to it. */
void vb_roce_forget_sequel(struct vb_wired *wired);

void vb_roce_todo(struct vb_wired *wired);
void vb_roce_todo_ack(struct vb_wired *wired);
void vb_roce_starve(struct vb_wired *wired);
/* Tells pollers of new completions of the send queue. */
void vb_roce_notify(struct vb_wired *wired);
/* The QP has this many bytes under way now: updates the share. */
void vb_roce_account(struct vb_wired *wired, uint64_t bytes);
static inline void vb_roce_count(struct vb_roce *roce, enum vb_packet_drop drop)
{
	roce->drops[drop]++;
}

#endif
