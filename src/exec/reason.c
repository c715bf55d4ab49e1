/* SPDX-License-Identifier: BSD-2-Clause */
#include "exec/reason.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "capture/ring.h"
#include "nic/wr_opcode.h"
#include "wire/packet.h"

/* The target refuses the key, or the request as a whole. */
#define BAD_ACCESS                                                             \
	.status = IBV_WC_REM_ACCESS_ERR, .recv_status = IBV_WC_LOC_ACCESS_ERR, \
	.syndrome = VB_NAK_ACCESS, .target_fails = true, .event = IBV_EVENT_QP_ACCESS_ERR
#define BAD_REQUEST                                                           \
	.status = IBV_WC_REM_INV_REQ_ERR, .syndrome = VB_NAK_INVALID_REQUEST, \
	.target_fails = true, .event = IBV_EVENT_QP_REQ_ERR

/* In the sentences {k} is a key, {a} an address, {l} a length, {h} the number that exists (have),
 * {w} the number that is wanted, {p} the peer's QP. {h:x} is in hexadecimal, {h:q} a QP number. */
static const struct vb_reason_row rows[VB_REASON_COUNT] = {
	[VB_OK] = { IBV_WC_SUCCESS, "it succeeded" },
	[VB_WHY_LOCAL_KEY] = { IBV_WC_LOC_PROT_ERR, "lkey {k} does not cover {l} bytes at {a} with "
						    "the access needed, or "
						    "belongs to another PD than the QP" },
	[VB_WHY_LOCAL_MEMORY] = { IBV_WC_LOC_PROT_ERR, "the registered memory at {a} is no longer "
						       "mapped in this process" },
	[VB_WHY_LENGTH_MAX] = { IBV_WC_LOC_LEN_ERR,
				"the message has {l} bytes, max_msg_sz is {w}" },
	[VB_WHY_ATOMIC_SGE] = { IBV_WC_LOC_LEN_ERR,
				"an atomic returns 8 bytes into one SGE; the WR offers {l}" },
	[VB_WHY_ATOMIC_WRITE_SGE] = { IBV_WC_LOC_LEN_ERR,
				      "an atomic write has 8 bytes; the WR has {l}" },
	[VB_WHY_MASKED_SGE] = { IBV_WC_LOC_LEN_ERR,
				"an extended atomic of {w} bytes returns as many; the WR offers "
				"{l}" },
	[VB_WHY_UD_LENGTH] = { IBV_WC_LOC_LEN_ERR,
			       "a datagram of {l} bytes exceeds the port's MTU of {w}" },
	[VB_WHY_UD_ADDRESS] = { IBV_WC_LOC_QP_OP_ERR,
				"its address handle belongs to another PD than the QP" },
	[VB_WHY_RAW_LENGTH] = { IBV_WC_LOC_LEN_ERR,
				"a frame of {l} bytes: with its Ethernet header it "
				"must have 14 to {w}" },
	[VB_WHY_OPCODE_TRANSPORT] = { IBV_WC_LOC_QP_OP_ERR,
				      "this operation does not exist on the QP's transport" },
	[VB_WHY_CQ_OVERRUN] = { IBV_WC_LOC_QP_OP_ERR, "its completion queue is full: poll it, or "
						      "make it at least as large "
						      "as the queues that complete there" },
	[VB_WHY_WINDOW_BIND] = { IBV_WC_MW_BIND_ERR, "the window cannot be bound with rkey {k}: "
						     "region without MW_BIND (or "
						     "local write) access, a range outside of it, "
						     "another PD, or a type 2 "
						     "window that is bound or gets no bytes" },
	[VB_WHY_UMR] = { IBV_WC_MW_BIND_ERR,
			 "the indirect key {k} cannot be filled: more parts than it has room for, "
			 "a "
			 "part outside of its region, a region without local write access, or "
			 "another PD" },
	[VB_WHY_ENABLE] = { IBV_WC_LOC_QP_OP_ERR, "the QP whose queue it enables was destroyed" },
	[VB_WHY_CQE_WAIT] = { IBV_WC_LOC_QP_OP_ERR, "it waits for {w} more completions of CQ {h}" },
	[VB_WHY_CQE_GONE] = { IBV_WC_LOC_QP_OP_ERR,
			      "the CQ whose completions it waits for was destroyed" },
	[VB_WHY_WINDOW_INVALID] = { IBV_WC_MW_BIND_ERR, "rkey {k} is not that of a type 2 window "
							"bound through this QP" },
	[VB_WHY_RECV_SHORT] = { IBV_WC_REM_INV_REQ_ERR,
				"the message has {l} bytes, the receive posted at QP {p} has room "
				"for "
				"{h}",
				.recv_status = IBV_WC_LOC_LEN_ERR,
				.syndrome = VB_NAK_INVALID_REQUEST, .target_fails = true },
	[VB_WHY_RECV_KEY] = { IBV_WC_REM_OP_ERR,
			      "the receive posted at QP {p} names an lkey that is not valid for "
			      "its "
			      "buffer, or belongs to another PD than the queue (QP or SRQ)",
			      .recv_status = IBV_WC_LOC_PROT_ERR, .syndrome = VB_NAK_OPERATIONAL,
			      .target_fails = true },
	[VB_WHY_RECV_MEMORY] = { IBV_WC_REM_OP_ERR,
				 "the buffer of the receive posted at QP {p} is not writable "
				 "memory",
				 .recv_status = IBV_WC_LOC_PROT_ERR, .syndrome = VB_NAK_OPERATIONAL,
				 .target_fails = true },
	/* The whole message has arrived: the sender succeeds and gets no NAK (IBA class J). */
	[VB_WHY_RECV_INVALIDATE] = { IBV_WC_SUCCESS,
				     "the message has arrived and tells QP {p} to invalidate rkey "
				     "{k}, "
				     "which is not that of a type 2 window bound through QP {p}; "
				     "its "
				     "receive fails, and so does QP {p}",
				     .recv_status = IBV_WC_REM_INV_REQ_ERR, .target_fails = true },
	[VB_WHY_RKEY_UNKNOWN] = { BAD_ACCESS,
				  .sentence = "no memory region of the peer has rkey {k}" },
	[VB_WHY_RKEY_IS_LKEY] = { BAD_ACCESS, .sentence =
						      "{k} is the lkey of a memory region of the "
						      "peer, not its rkey" },
	[VB_WHY_RKEY_PD] = { BAD_ACCESS,
			     .sentence =
				     "rkey {k} belongs to another protection domain than QP {p}" },
	[VB_WHY_RKEY_RANGE] = { BAD_ACCESS, .sentence = "{l} bytes at remote address {a} are not "
							"inside the region of rkey {k}" },
	[VB_WHY_RKEY_RIGHT] = { BAD_ACCESS, .sentence =
						    "the region of rkey {k} was registered without "
						    "the access needed" },
	[VB_WHY_RKEY_INDIRECT] = { BAD_ACCESS,
				   .sentence = "rkey {k} is an indirect key, and only WRITE "
					       "and READ go through one" },
	[VB_WHY_RKEY_PATTERN] = { BAD_ACCESS,
				  .sentence = "{l} bytes at remote address {a} are not what "
					      "the indirect key {k} was filled with, or it "
					      "lacks the right" },
	[VB_WHY_REMOTE_MEMORY] = { BAD_ACCESS, .sentence =
						       "the peer's registered memory at {a} is no "
						       "longer mapped there" },
	[VB_WHY_QP_RIGHT] = { BAD_REQUEST, .sentence =
						   "QP {p} does not allow it: qp_access_flags lack "
						   "the remote access" },
	[VB_WHY_READ_DEPTH] = { BAD_REQUEST, .sentence = "{w} READs and ATOMICs are outstanding, "
							 "max_dest_rd_atomic of QP {p} is {h}" },
	[VB_WHY_ATOMIC_ALIGN] = { BAD_REQUEST, .sentence =
						       "remote address {a} of an atomic, or the "
						       "memory that it stands for, is not a "
						       "multiple of 8" },
	[VB_WHY_MASKED_ALIGN] = { BAD_REQUEST, .sentence =
						       "remote address {a} of an extended atomic, "
						       "or of the memory there, is not a multiple "
						       "of its {w} bytes" },
	[VB_WHY_FLUSH_KIND] = { BAD_REQUEST,
				.sentence =
					"the flush has no placement type, or a type or level that "
					"does not exist" },
	[VB_WHY_TM_HEADER] = { BAD_REQUEST, .sentence = "the message does not begin with a tag "
							"matching header, as QP {p} demands" },
	[VB_WHY_TARGET_CQ_OVERRUN] = { IBV_WC_REM_OP_ERR, "the completion queue of QP {p} is full",
				       .syndrome = VB_NAK_OPERATIONAL, .target_fails = true,
				       .event = IBV_EVENT_QP_FATAL },
	[VB_WHY_SRQ_UNKNOWN] = { BAD_REQUEST, .sentence = "the host of QP {p} has no XRC SRQ {h:x} "
							  "(remote_srqn)" },
	[VB_WHY_SRQ_DOMAIN] = { BAD_REQUEST, .sentence =
						     "SRQ {h:x} (remote_srqn) is of another XRC "
						     "domain than QP {p}" },
	[VB_WHY_SRQ_UNTOUCHABLE] = { IBV_WC_REM_OP_ERR,
				     "the SRQ in the request is in a process whose memory cannot "
				     "be "
				     "reached from here",
				     .syndrome = VB_NAK_OPERATIONAL, .target_fails = true,
				     .event = IBV_EVENT_QP_FATAL },
	[VB_WHY_OUT_OF_SEQUENCE] = { BAD_REQUEST, .sentence =
							  "a packet of the peer does not continue "
							  "the message before it" },
	[VB_WHY_PACKET_LENGTH] = { BAD_REQUEST, .sentence =
							"a packet of the peer has {l} bytes, which "
							"does not agree with the path MTU of {w}, "
							"or with the length of its message" },
	[VB_WHY_MTU_DIFFERS] = { BAD_REQUEST,
				 .sentence =
					 "path_mtu differs, {h} bytes at QP {p} and {w} here: a "
					 "message of {l} bytes is not one packet to both" },
	[VB_WHY_NAKED_INVALID] = { IBV_WC_REM_INV_REQ_ERR,
				   "QP {p} answered with a NAK, invalid request" },
	[VB_WHY_NAKED_ACCESS] = { IBV_WC_REM_ACCESS_ERR,
				  "QP {p} answered with a NAK, remote access "
				  "error: rkey {k}, {l} bytes at {a}" },
	[VB_WHY_NAKED_OPERATIONAL] = { IBV_WC_REM_OP_ERR,
				       "QP {p} answered with a NAK, remote operational error" },
	[VB_WHY_BAD_RESPONSE] = { IBV_WC_BAD_RESP_ERR,
				  "QP {p} answered with {h} bytes where {w} were due" },
	[VB_WHY_MTU_OF_READ] = { IBV_WC_BAD_RESP_ERR, "path_mtu differs, {h} bytes at QP {p} and "
						      "{w} here: an answer of {l} "
						      "bytes is not one packet to both" },
	[VB_WHY_NO_RECEIVE] = { IBV_WC_RNR_RETRY_EXC_ERR,
				"no receive was posted at QP {p} in {w} tries (rnr_retry + 1)" },
	[VB_WHY_PEER_ENDED] = { IBV_WC_RETRY_EXC_ERR, "the process that owned QP {p} has ended" },
	[VB_WHY_PEER_NO_QP] = { IBV_WC_RETRY_EXC_ERR, "there is no QP {p} on this host" },
	[VB_WHY_PEER_NOT_READY] = { IBV_WC_RETRY_EXC_ERR, "QP {p} did not reach RTR in time" },
	[VB_WHY_PEER_IN_ERROR] = { IBV_WC_RETRY_EXC_ERR, "QP {p} is in state ERR" },
	[VB_WHY_PEER_OTHER_TYPE] = { IBV_WC_RETRY_EXC_ERR, "QP {p} has another transport type" },
	[VB_WHY_PEER_OTHER_DEST] = { IBV_WC_RETRY_EXC_ERR,
				     "QP {p} is connected to QP {h:q}, not to this one" },
	[VB_WHY_PEER_OTHER_GID] = { IBV_WC_RETRY_EXC_ERR,
				    "QP {p} expects another GID or LID than the "
				    "one this QP sends from" },
	[VB_WHY_PEER_OTHER_PSN] = { IBV_WC_RETRY_EXC_ERR,
				    "QP {p} expects PSN {h} (its rq_psn), this "
				    "QP starts at {w} (its sq_psn)" },
	[VB_WHY_PEER_OTHER_PKEY] = { IBV_WC_RETRY_EXC_ERR,
				     "P_Key {h:x} of QP {p} and {w:x} of this QP do not fit: they "
				     "must "
				     "name one partition, and not two limited members" },
	[VB_WHY_PEER_TAKEN] = { IBV_WC_RETRY_EXC_ERR, "QP {p} has received from another connection "
						      "since its RTR: reset it first" },
	[VB_WHY_PEER_ATTACHING] = { IBV_WC_RETRY_EXC_ERR, "the process of QP {p} does not answer" },
	[VB_WHY_PEER_UNTOUCHABLE] = { IBV_WC_RETRY_EXC_ERR,
				      "the kernel does not let this process and the one of QP {p} "
				      "reach each other's memory (another user, dumpable, Yama or "
				      "seccomp): see `verbena doctor`" },
	[VB_WHY_PEER_BY_PACKETS] = { IBV_WC_RETRY_EXC_ERR,
				     "QP {p} and this one talk by packets, and "
				     "there is no way for them" },
	[VB_WHY_NOT_THIS_HOST] = { IBV_WC_RETRY_EXC_ERR,
				   "the destination is not an address of this "
				   "host, and packets cannot be sent from here" },
	[VB_WHY_PEER_SILENT] = { IBV_WC_RETRY_EXC_ERR,
				 "no answer from QP {p} in {w} ms: (retry_cnt + 1) * 4.096 us * "
				 "2^timeout, on the wire no less than 200 ms" },
	[VB_WHY_PEER_MISSES] = { IBV_WC_RETRY_EXC_ERR,
				 "QP {p} missed the same packet {w} times (retry_cnt + 1)" },
	[VB_WHY_DROP_QKEY] = { IBV_WC_SUCCESS,
			       "dropped: Q_Key {w:x} is not that of QP {p}, which has {h:x}" },
	[VB_WHY_DROP_NO_RECEIVE] = { IBV_WC_SUCCESS, "dropped: no receive was posted at QP {p}" },
	[VB_WHY_DROP_SHORT] = { IBV_WC_SUCCESS, "dropped: {l} bytes do not fit into the receive "
						"posted at QP {p}, which has room for {h}" },
	[VB_WHY_INJECTED_STATUS] = { IBV_WC_GENERAL_ERR, "fault rule {w} makes it fail" },
	[VB_WHY_INJECTED_LOSS] = { IBV_WC_RETRY_EXC_ERR,
				   "lost on its way to QP {p}: fault rule {w}" },
	[VB_WHY_INJECTED_FATAL] = { IBV_WC_REM_OP_ERR,
				    "the device of QP {p} has failed: a fault rule",
				    .syndrome = VB_NAK_OPERATIONAL, .target_fails = true },
};

const struct vb_reason_row *vb_reason_row(enum vb_reason reason)
{
	return &rows[reason < VB_REASON_COUNT ? reason : VB_OK];
}

/* Writes one token of a sentence; returns its length in the template. */
static size_t token_write(const struct vb_report *r, const char *at, char *out, size_t size)
{
	bool hex = at[2] == ':';
	uint64_t number = at[1] == 'l' ? r->length : at[1] == 'h' ? r->have : r->want;

	if (at[1] == 'k')
		snprintf(out, size, "0x%08x", r->key);
	else if (at[1] == 'a')
		snprintf(out, size, "0x%llx", (unsigned long long)r->addr);
	else if (at[1] == 'p')
		snprintf(out, size, "0x%06x", r->peer_qpn);
	else if (hex && at[3] == 'q')
		snprintf(out, size, "0x%06llx", (unsigned long long)number);
	else
		snprintf(out, size, hex ? "0x%llx" : "%llu", (unsigned long long)number);
	return hex ? 5 : 3;
}

/* The peer is named behind the first number of its QP. */
void vb_report_write(const struct vb_report *r, const struct vb_report_words *words, char *out,
		     size_t size)
{
	const char *sentence =
		words && words->sentence ? words->sentence : rows[r->reason].sentence;
	const char *peer = words && words->peer ? words->peer : "";
	size_t used = 0;

	while (*sentence && used + 24 < size) {
		if (*sentence == '{') {
			bool names = sentence[1] == 'p';

			sentence += token_write(r, sentence, out + used, size - used);
			used += strlen(out + used);
			if (names && used + strlen(peer) + 24 < size) {
				strcpy(out + used, peer);
				used += strlen(peer);
				peer = "";
			}
		} else {
			out[used++] = *sentence++;
		}
	}
	out[used] = '\0';
}

const char *vb_opcode_words(int opcode)
{
	const struct vb_wr_row *row = vb_wr_row_named((unsigned)opcode);

	if (opcode < 0)
		return "receive";
	return row->name ? row->name : "operation";
}

enum { SENTENCE = 400 };

/* A program captures: the sentence becomes the comment of a packet. */
static void sentence_capture(const struct vb_report *report, const struct vb_report_words *words)
{
	const struct vb_capture_note note = {
		.wr_id = report->wr_id,
		.qpn = report->qpn,
		.opcode = report->opcode < 0 ? UINT8_MAX : (uint8_t)report->opcode,
		.status = (uint8_t)rows[report->reason].status,
	};
	char sentence[SENTENCE];

	vb_report_write(report, words, sentence, SENTENCE);
	vb_capture_tell(VB_CAPTURE_FAILED, &note, sentence);
}

void vb_report_explain(const struct vb_report *report, const struct vb_report_words *words)
{
	char sentence[SENTENCE] = "";

	if (vb_captured())
		sentence_capture(report, words);
	if (vb_config_explain())
		vb_report_write(report, words, sentence, SENTENCE);
	if (rows[report->reason].status == IBV_WC_SUCCESS) /* a datagram that was dropped */
		vb_explain_note("QP 0x%06x, %s wr_id %llu: %s", report->qpn,
				vb_opcode_words(report->opcode), (unsigned long long)report->wr_id,
				sentence);
	else
		vb_explain_work("QP 0x%06x, %s wr_id %llu: %s", report->qpn,
				vb_opcode_words(report->opcode), (unsigned long long)report->wr_id,
				sentence);
}

/* In its sentence {p} is the own QP. */
void vb_report_refusal(const struct vb_report *report, const struct vb_report_words *words)
{
	const struct vb_report_words own = { .sentence = words ? words->sentence : NULL };
	char sentence[SENTENCE] = "";

	const char *request = words && words->request ? words->request : "request";
	const char *peer = words && words->peer ? words->peer : "";

	if (vb_config_explain())
		vb_report_write(report, &own, sentence, SENTENCE);
	if (rows[report->reason].status == IBV_WC_SUCCESS && !rows[report->reason].recv_status)
		vb_explain_note("QP 0x%06x, %s of QP 0x%06x%s: %s", report->peer_qpn, request,
				report->qpn, peer, sentence);
	else
		vb_explain_work("QP 0x%06x refuses %s %s of QP 0x%06x%s: %s", report->peer_qpn,
				strchr("AE", *request) ? "an" : "a", request, report->qpn, peer,
				sentence);
}

const char *vb_reason_brief(enum vb_reason reason)
{
	static const char *const words[VB_REASON_COUNT] = {
		[VB_WHY_RECV_SHORT] = "the message did not fit into the receive",
		[VB_WHY_RECV_KEY] = "the buffer of the receive could not be written",
		[VB_WHY_RECV_MEMORY] = "the buffer of the receive is not writable memory",
		[VB_WHY_RECV_INVALIDATE] = "the rkey to invalidate is not that of a window",
		[VB_WHY_RKEY_UNKNOWN] = "no memory region has the rkey",
		[VB_WHY_RKEY_IS_LKEY] = "the rkey is an lkey",
		[VB_WHY_RKEY_PD] = "the rkey belongs to another PD",
		[VB_WHY_RKEY_RANGE] = "the range is not inside the region of the rkey",
		[VB_WHY_RKEY_RIGHT] = "the region of the rkey was registered without the right",
		[VB_WHY_RKEY_INDIRECT] = "the rkey is an indirect key, for WRITE and READ only",
		[VB_WHY_RKEY_PATTERN] = "the indirect key does not open the range with the right",
		[VB_WHY_REMOTE_MEMORY] = "the registered memory is not mapped any more",
		[VB_WHY_QP_RIGHT] = "its qp_access_flags lack the right",
		[VB_WHY_READ_DEPTH] = "more READs and ATOMICs than its max_dest_rd_atomic",
		[VB_WHY_ATOMIC_ALIGN] = "the address of an atomic is no multiple of 8",
		[VB_WHY_MASKED_ALIGN] =
			"the address of an extended atomic is no multiple of its size",
		[VB_WHY_FLUSH_KIND] = "a FLUSH without a type or level that exists",
		[VB_WHY_TM_HEADER] = "the message has no tag matching header",
		[VB_WHY_TARGET_CQ_OVERRUN] = "the CQ of its receives is full",
		[VB_WHY_SRQ_UNKNOWN] = "there is no SRQ with the number",
		[VB_WHY_SRQ_DOMAIN] = "the SRQ is of another XRC domain",
		[VB_WHY_SRQ_UNTOUCHABLE] = "the process of the SRQ cannot be reached",
		[VB_WHY_MTU_DIFFERS] = "the path_mtu of the two QPs differs",
	};

	return reason < VB_REASON_COUNT && words[reason] ? words[reason]
							 : "that process explains it";
}
