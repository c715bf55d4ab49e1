/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <inttypes.h>

#include "wire/cm.h"
#include "wire/cm_layout.h"
#include "wire/line.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { BYTES_SHOWN = 16 };

static const char *name_of(const char *const *names, size_t count, unsigned value)
{
	return value < count && names[value] ? names[value] : "reserved";
}

const char *vb_cm_reason_name(unsigned reason)
{
	static const char *const names[] = {
		[VB_CM_REJ_NO_QP] = "no QP",
		[VB_CM_REJ_NO_EEC] = "no EEC",
		[VB_CM_REJ_NO_RESOURCES] = "no resources",
		[VB_CM_REJ_TIMEOUT] = "timeout",
		[VB_CM_REJ_UNSUPPORTED] = "unsupported request",
		[VB_CM_REJ_INVALID_COMM_ID] = "invalid communication id",
		[VB_CM_REJ_INVALID_COMM_INSTANCE] = "invalid communication instance",
		[VB_CM_REJ_INVALID_SERVICE_ID] = "invalid service id",
		[VB_CM_REJ_INVALID_TRANSPORT] = "invalid transport service type",
		[VB_CM_REJ_STALE] = "stale connection",
		[VB_CM_REJ_NO_RDC] = "no RDC",
		[VB_CM_REJ_INVALID_GID] = "remote GID rejected",
		[VB_CM_REJ_INVALID_LID] = "remote LID rejected",
		[VB_CM_REJ_INVALID_SL] = "invalid service level",
		[VB_CM_REJ_INVALID_TRAFFIC_CLASS] = "invalid traffic class",
		[VB_CM_REJ_INVALID_HOP_LIMIT] = "invalid hop limit",
		[VB_CM_REJ_INVALID_RATE] = "invalid packet rate",
		[VB_CM_REJ_INVALID_ALT_GID] = "alternate remote GID rejected",
		[VB_CM_REJ_INVALID_ALT_LID] = "alternate remote LID rejected",
		[VB_CM_REJ_INVALID_ALT_SL] = "invalid alternate service level",
		[VB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS] = "invalid alternate traffic class",
		[VB_CM_REJ_INVALID_ALT_HOP_LIMIT] = "invalid alternate hop limit",
		[VB_CM_REJ_INVALID_ALT_RATE] = "invalid alternate packet rate",
		[VB_CM_REJ_REDIRECT_CM] = "port and CM redirection",
		[VB_CM_REJ_REDIRECT_PORT] = "port redirection",
		[VB_CM_REJ_INVALID_MTU] = "invalid path MTU",
		[VB_CM_REJ_INSUFFICIENT_RESOURCES] = "insufficient responder resources",
		[VB_CM_REJ_CONSUMER] = "consumer",
		[VB_CM_REJ_RNR_RETRY_COUNT] = "RNR retry count",
		[VB_CM_REJ_DUPLICATE_COMM_ID] = "duplicate communication id",
		[VB_CM_REJ_INVALID_CLASS_VERSION] = "invalid class version",
		[VB_CM_REJ_INVALID_FLOW_LABEL] = "invalid flow label",
		[VB_CM_REJ_INVALID_ALT_FLOW_LABEL] = "invalid alternate flow label",
		[VB_CM_REJ_VENDOR_OPTION] = "vendor option",
	};

	return name_of(names, COUNT(names), reason);
}

static void add_bytes(struct line *line, const char *what, const uint8_t *bytes, size_t length)
{
	line_add(line, " %s ", what);
	for (size_t i = 0; i < length && i < BYTES_SHOWN; i++)
		line_add(line, "%02x", bytes[i]);
	if (length > BYTES_SHOWN)
		line_add(line, "+%zu B", length - BYTES_SHOWN);
}

/* Up to the last byte that is not zero: the message does not have the user's length. */
static void add_private(struct line *line, const uint8_t *bytes, size_t size)
{
	while (size && !bytes[size - 1])
		size--;
	if (size)
		add_bytes(line, "private", bytes, size);
}

static void add_gid(struct line *line, const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
	line_add(line, " %s", text);
}

/* Leaves out fields that are 0 or have their usual value. */
static void add_path(struct line *line, const char *what, const struct vb_cm_path *path)
{
	line_add(line, " %s", what);
	add_gid(line, &path->local_gid);
	line_add(line, " >");
	add_gid(line, &path->remote_gid);
	if (path->local_lid != 0xffff || path->remote_lid != 0xffff)
		line_add(line, " lid %u > %u", path->local_lid, path->remote_lid);
	line_add(line, " flow 0x%05" PRIx32 " class %u hops %u", path->flow_label,
		 path->traffic_class, path->hop_limit);
	if (path->packet_rate)
		line_add(line, " rate %u", path->packet_rate);
	if (path->sl)
		line_add(line, " sl %u", path->sl);
	line_add_if(line, path->subnet_local, "subnet-local");
	line_add(line, " ack-timeout %u", path->ack_timeout);
}

/* Private data under a service id for IP: the header with the addresses, and the user's data. */
static void add_addressed(struct line *line, uint64_t service_id, const uint8_t *bytes, size_t size)
{
	struct vb_cm_ip ip;

	if (!vb_cm_service_space(service_id) || vb_cm_ip_parse(bytes, &ip)) {
		add_private(line, bytes, size);
		return;
	}
	line_add(line, " ip");
	add_gid(line, &ip.src);
	line_add(line, " port %u >", ip.src_port);
	add_gid(line, &ip.dst);
	add_private(line, bytes + VB_CM_IP_SIZE, size - VB_CM_IP_SIZE);
}

static void add_ece(struct line *line, uint32_t vendor_id, uint32_t options)
{
	if (vendor_id || options)
		line_add(line, " ece 0x%06" PRIx32 " 0x%08" PRIx32, vendor_id, options);
}

static void add_transport(struct line *line, const struct vb_cm_req *req)
{
	static const char *const names[] = { "RC", "UC", "RD" };

	if (req->transport < COUNT(names))
		line_add(line, " %s", names[req->transport]);
	else if (req->extended_transport == VB_CM_EXTENDED_XRC)
		line_add(line, " XRC");
	else
		line_add(line, " extended %u", req->extended_transport);
	if (req->local_eecn || req->remote_eecn)
		line_add(line, " eec 0x%06" PRIx32 " > 0x%06" PRIx32, req->local_eecn,
			 req->remote_eecn);
}

static void add_req(struct line *line, const struct vb_cm_message *message)
{
	const struct vb_cm_req *req = &message->req;

	line_add(line, " service 0x%016" PRIx64 " guid 0x%016" PRIx64, req->service_id,
		 req->ca_guid);
	add_transport(line, req);
	line_add(line,
		 " qp 0x%06" PRIx32 " psn %" PRIu32 " mtu %u resources %u depth %u retries %u/%u",
		 req->qpn, req->starting_psn, req->mtu, req->responder_resources,
		 req->initiator_depth, req->retry_count, req->rnr_retry_count);
	line_add(line, " cm-timeouts %u/%u cm-retries %u", req->local_cm_timeout,
		 req->remote_cm_timeout, req->max_cm_retries);
	if (req->pkey != 0xffff)
		line_add(line, " pkey 0x%04x", req->pkey);
	if (req->qkey)
		line_add(line, " qkey 0x%08" PRIx32, req->qkey);
	line_add_if(line, req->flow_control, "credits");
	line_add_if(line, req->srq, "srq");
	line_add_if(line, req->rdc_exists, "rdc");
	line_add_if(line, req->sap_supported, "sap");
	add_ece(line, req->vendor_id, message->attribute_modifier);
	add_path(line, "path", &req->primary);
	if (req->alternate.local_lid)
		add_path(line, "alternate", &req->alternate);
	add_addressed(line, req->service_id, req->private_data, sizeof(req->private_data));
}

static const char *answered_name(unsigned answers)
{
	static const char *const names[] = { "REQ", "REP", "other" };

	return name_of(names, COUNT(names), answers);
}

static void add_rej(struct line *line, const struct vb_cm_rej *rej)
{
	line_add(line, " of %s reason %u (%s)", answered_name(rej->answers), rej->reason,
		 vb_cm_reason_name(rej->reason));
	if (rej->info_length)
		add_bytes(line, "info", rej->info, rej->info_length);
}

static void add_rep(struct line *line, const struct vb_cm_message *message)
{
	const struct vb_cm_rep *rep = &message->rep;

	line_add(line, " guid 0x%016" PRIx64 " qp 0x%06" PRIx32 " psn %" PRIu32, rep->ca_guid,
		 rep->qpn, rep->starting_psn);
	line_add(line, " resources %u depth %u rnr-retries %u ack-delay %u failover %u",
		 rep->responder_resources, rep->initiator_depth, rep->rnr_retry_count,
		 rep->target_ack_delay, rep->failover);
	if (rep->qkey)
		line_add(line, " qkey 0x%08" PRIx32, rep->qkey);
	if (rep->eecn)
		line_add(line, " eec 0x%06" PRIx32, rep->eecn);
	line_add_if(line, rep->flow_control, "credits");
	line_add_if(line, rep->srq, "srq");
	add_ece(line, rep->vendor_id, message->attribute_modifier);
}

static void add_sidr_rep(struct line *line, const struct vb_cm_message *message)
{
	static const char *const names[] = { "success", "unsupported", "reject",
					     "no QP",   "redirect",    "unsupported version" };
	const struct vb_cm_sidr_rep *rep = &message->sidr_rep;

	line_add(line,
		 " status %u (%s) service 0x%016" PRIx64 " qp 0x%06" PRIx32 " qkey 0x%08" PRIx32,
		 rep->status, name_of(names, COUNT(names), rep->status), rep->service_id, rep->qpn,
		 rep->qkey);
	add_ece(line, rep->vendor_id, message->attribute_modifier);
	if (rep->info_length)
		add_bytes(line, "info", rep->info, rep->info_length);
}

static void add_sidr_req(struct line *line, const struct vb_cm_sidr_req *req)
{
	line_add(line, " service 0x%016" PRIx64, req->service_id);
	if (req->pkey != 0xffff)
		line_add(line, " pkey 0x%04x", req->pkey);
	add_addressed(line, req->service_id, req->private_data, sizeof(req->private_data));
}

static void add_lap(struct line *line, const struct vb_cm_lap *lap)
{
	line_add(line, " qp 0x%06" PRIx32 " cm-timeout %u", lap->remote_qpn,
		 lap->remote_cm_timeout);
	add_path(line, "alternate", &lap->alternate);
}

static void add_apr(struct line *line, const struct vb_cm_apr *apr)
{
	line_add(line, " status %u", apr->status);
	if (apr->info_length)
		add_bytes(line, "info", apr->info, apr->info_length);
}

static void add_fields(struct line *line, const struct vb_cm_message *message)
{
	switch (message->attribute) {
	case VB_CM_REQ:
		add_req(line, message);
		break;
	case VB_CM_MRA:
		line_add(line, " of %s timeout %u", answered_name(message->mra.answers),
			 message->mra.service_timeout);
		break;
	case VB_CM_REJ:
		add_rej(line, &message->rej);
		break;
	case VB_CM_REP:
		add_rep(line, message);
		break;
	case VB_CM_DREQ:
		line_add(line, " qp 0x%06" PRIx32, message->dreq.remote_qpn);
		break;
	case VB_CM_SIDR_REQ:
		add_sidr_req(line, &message->sidr_req);
		break;
	case VB_CM_SIDR_REP:
		add_sidr_rep(line, message);
		break;
	case VB_CM_LAP:
		add_lap(line, &message->lap);
		break;
	case VB_CM_APR:
		add_apr(line, &message->apr);
		break;
	case VB_CM_RTU:
	case VB_CM_DREP:
		break;
	}
}

/* "id 0x00000001 > 0x00000002": the sender's id and the receiver's, those that the kind has. */
static void add_ids(struct line *line, const struct vb_cm_message *message,
		    const struct vb_cm_layout *layout)
{
	line_add(line, " tid 0x%" PRIx64 " id", message->transaction_id);
	if (layout->sender_id)
		line_add(line, " 0x%08" PRIx32, vb_cm_sender_id(message));
	if (layout->receiver_id)
		line_add(line, " > 0x%08" PRIx32, vb_cm_receiver_id(message));
}

const char *vb_cm_print(const struct vb_cm_message *message, char *out, size_t size)
{
	const struct vb_cm_layout *layout = vb_cm_layout(message->attribute);
	struct line line = { .out = out, .size = size };

	line_add(&line, "%s", vb_cm_name(message->attribute));
	if (!layout)
		return out;
	add_ids(&line, message, layout);
	add_fields(&line, message);
	if (message->attribute != VB_CM_REQ && message->attribute != VB_CM_SIDR_REQ)
		add_private(&line, (const uint8_t *)message + layout->private_data,
			    layout->private_data_size);
	return out;
}
