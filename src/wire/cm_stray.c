/* SPDX-License-Identifier: BSD-2-Clause */
/* The answers of a host to messages that belong to none of its endpoints. */
#include <string.h>

#include "wire/cm.h"

static void begin_answer(const struct vb_cm_message *in, enum vb_cm_attribute attribute,
			 struct vb_cm_message *out)
{
	memset(out, 0, sizeof(*out));
	out->attribute = attribute;
	out->transaction_id = in->transaction_id;
}

/* The ids swap: the remote id of the message is the local id of the answer. */
static void reject(const struct vb_cm_message *in, enum vb_cm_answered answers,
		   enum vb_cm_reason reason, struct vb_cm_message *out)
{
	begin_answer(in, VB_CM_REJ, out);
	out->rej.local_comm_id = vb_cm_receiver_id(in);
	out->rej.remote_comm_id = vb_cm_sender_id(in);
	out->rej.answers = (uint8_t)answers;
	out->rej.reason = (uint16_t)reason;
}

static void confirm_disconnect(const struct vb_cm_message *in, struct vb_cm_message *out)
{
	begin_answer(in, VB_CM_DREP, out);
	out->drep.local_comm_id = in->dreq.remote_comm_id;
	out->drep.remote_comm_id = in->dreq.local_comm_id;
}

static void refuse_sidr(const struct vb_cm_message *in, struct vb_cm_message *out)
{
	begin_answer(in, VB_CM_SIDR_REP, out);
	out->sidr_rep.request_id = in->sidr_req.request_id;
	out->sidr_rep.service_id = in->sidr_req.service_id;
	out->sidr_rep.status = VB_CM_SIDR_UNSUPPORTED;
}

bool vb_cm_stray(const struct vb_cm_message *in, struct vb_cm_message *out)
{
	switch (in->attribute) {
	case VB_CM_REQ:
		reject(in, VB_CM_ANSWERS_REQ, VB_CM_REJ_INVALID_SERVICE_ID, out);
		return true;
	case VB_CM_REP:
		reject(in, VB_CM_ANSWERS_REP, VB_CM_REJ_INVALID_COMM_ID, out);
		return true;
	case VB_CM_DREQ:
		confirm_disconnect(in, out);
		return true;
	case VB_CM_SIDR_REQ:
		refuse_sidr(in, out);
		return true;
	case VB_CM_MRA:
	case VB_CM_REJ:
	case VB_CM_RTU:
	case VB_CM_DREP:
	case VB_CM_SIDR_REP:
	case VB_CM_LAP:
	case VB_CM_APR:
		break;
	}
	return false;
}
