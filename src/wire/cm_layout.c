/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One row per field: parsing and emitting read the same table and cannot disagree. Bytes count from
 * the end of the common MAD header, and bits from the top of the byte, as in the IBA (tables of
 * chapters 12.6 to 12.8 and 12.11). The vendor ids of annex A19 lie in formerly reserved bytes.
 */
#include "wire/cm_layout.h"

#define OFFSET(path) offsetof(struct vb_cm_message, path)
#define SIZE(path)   sizeof(((struct vb_cm_message *)0)->path)
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* A whole member, with all its bytes. */
/* clang-format off */
#define WHOLE(path, byte)                                                      \
	{                                                                      \
		.member = OFFSET(path), .size = SIZE(path), .bit = 8 * (byte), \
		.width = 8 * SIZE(path)                                        \
	}
/* clang-format on */
/* BITS: count bits. PIECE: count bits of a number, which begin above bits over its lowest bit. */
/* clang-format off */
#define BITS(path, byte, first, count)                                                   \
	{                                                                                \
		.member = OFFSET(path), .size = SIZE(path), .bit = 8 * (byte) + (first), \
		.width = (count)                                                         \
	}
#define PIECE(path, byte, count, above)                                                          \
	{                                                                                        \
		.member = OFFSET(path), .size = SIZE(path), .bit = 8 * (byte), .width = (count), \
		.shift = (above)                                                                 \
	}
/* clang-format on */

/* clang-format off */
/* Both paths of a REQ have one shape. A path of a LAP has another order behind the flow label. */
#define REQ_PATH(path, byte)                     \
	WHOLE(path.local_lid, (byte)),           \
	WHOLE(path.remote_lid, (byte) + 2),      \
	WHOLE(path.local_gid, (byte) + 4),       \
	WHOLE(path.remote_gid, (byte) + 20),     \
	BITS(path.flow_label, (byte) + 36, 0, 20), \
	BITS(path.packet_rate, (byte) + 39, 2, 6), \
	WHOLE(path.traffic_class, (byte) + 40),  \
	WHOLE(path.hop_limit, (byte) + 41),      \
	BITS(path.sl, (byte) + 42, 0, 4),        \
	BITS(path.subnet_local, (byte) + 42, 4, 1), \
	BITS(path.ack_timeout, (byte) + 43, 0, 5)

static const struct vb_field req_fields[] = {
	WHOLE(req.local_comm_id, 0),
	BITS(req.vendor_id, 5, 0, 24),
	WHOLE(req.service_id, 8),
	WHOLE(req.ca_guid, 16),
	WHOLE(req.qkey, 28),
	BITS(req.qpn, 32, 0, 24),
	WHOLE(req.responder_resources, 35),
	BITS(req.local_eecn, 36, 0, 24),
	WHOLE(req.initiator_depth, 39),
	BITS(req.remote_eecn, 40, 0, 24),
	BITS(req.remote_cm_timeout, 43, 0, 5),
	BITS(req.transport, 43, 5, 2),
	BITS(req.flow_control, 43, 7, 1),
	BITS(req.starting_psn, 44, 0, 24),
	BITS(req.local_cm_timeout, 47, 0, 5),
	BITS(req.retry_count, 47, 5, 3),
	WHOLE(req.pkey, 48),
	BITS(req.mtu, 50, 0, 4),
	BITS(req.rdc_exists, 50, 4, 1),
	BITS(req.rnr_retry_count, 50, 5, 3),
	BITS(req.max_cm_retries, 51, 0, 4),
	BITS(req.srq, 51, 4, 1),
	BITS(req.extended_transport, 51, 5, 3),
	REQ_PATH(req.primary, 52),
	REQ_PATH(req.alternate, 96),
	BITS(req.sap_supported, 139, 5, 1),
	WHOLE(req.private_data, 140),
};

static const struct vb_field mra_fields[] = {
	WHOLE(mra.local_comm_id, 0),
	WHOLE(mra.remote_comm_id, 4),
	BITS(mra.answers, 8, 0, 2),
	BITS(mra.service_timeout, 9, 0, 5),
	WHOLE(mra.private_data, 10),
};

static const struct vb_field rej_fields[] = {
	WHOLE(rej.local_comm_id, 0),
	WHOLE(rej.remote_comm_id, 4),
	BITS(rej.answers, 8, 0, 2),
	BITS(rej.info_length, 9, 0, 7),
	WHOLE(rej.reason, 10),
	WHOLE(rej.info, 12),
	WHOLE(rej.private_data, 84),
};

static const struct vb_field rep_fields[] = {
	WHOLE(rep.local_comm_id, 0),
	WHOLE(rep.remote_comm_id, 4),
	WHOLE(rep.qkey, 8),
	BITS(rep.qpn, 12, 0, 24),
	PIECE(rep.vendor_id, 15, 8, 16),
	BITS(rep.eecn, 16, 0, 24),
	PIECE(rep.vendor_id, 19, 8, 8),
	BITS(rep.starting_psn, 20, 0, 24),
	PIECE(rep.vendor_id, 23, 8, 0),
	WHOLE(rep.responder_resources, 24),
	WHOLE(rep.initiator_depth, 25),
	BITS(rep.target_ack_delay, 26, 0, 5),
	BITS(rep.failover, 26, 5, 2),
	BITS(rep.flow_control, 26, 7, 1),
	BITS(rep.rnr_retry_count, 27, 0, 3),
	BITS(rep.srq, 27, 3, 1),
	WHOLE(rep.ca_guid, 28),
	WHOLE(rep.private_data, 36),
};

static const struct vb_field rtu_fields[] = {
	WHOLE(rtu.local_comm_id, 0),
	WHOLE(rtu.remote_comm_id, 4),
	WHOLE(rtu.private_data, 8),
};

static const struct vb_field dreq_fields[] = {
	WHOLE(dreq.local_comm_id, 0),
	WHOLE(dreq.remote_comm_id, 4),
	BITS(dreq.remote_qpn, 8, 0, 24),
	WHOLE(dreq.private_data, 12),
};

static const struct vb_field drep_fields[] = {
	WHOLE(drep.local_comm_id, 0),
	WHOLE(drep.remote_comm_id, 4),
	WHOLE(drep.private_data, 8),
};

static const struct vb_field sidr_req_fields[] = {
	WHOLE(sidr_req.request_id, 0),
	WHOLE(sidr_req.pkey, 4),
	WHOLE(sidr_req.service_id, 8),
	WHOLE(sidr_req.private_data, 16),
};

static const struct vb_field sidr_rep_fields[] = {
	WHOLE(sidr_rep.request_id, 0),
	WHOLE(sidr_rep.status, 4),
	WHOLE(sidr_rep.info_length, 5),
	PIECE(sidr_rep.vendor_id, 6, 16, 8),
	BITS(sidr_rep.qpn, 8, 0, 24),
	PIECE(sidr_rep.vendor_id, 11, 8, 0),
	WHOLE(sidr_rep.service_id, 12),
	WHOLE(sidr_rep.qkey, 20),
	WHOLE(sidr_rep.info, 24),
	WHOLE(sidr_rep.private_data, 96),
};

static const struct vb_field lap_fields[] = {
	WHOLE(lap.local_comm_id, 0),
	WHOLE(lap.remote_comm_id, 4),
	BITS(lap.remote_qpn, 12, 0, 24),
	BITS(lap.remote_cm_timeout, 15, 0, 5),
	WHOLE(lap.alternate.local_lid, 20),
	WHOLE(lap.alternate.remote_lid, 22),
	WHOLE(lap.alternate.local_gid, 24),
	WHOLE(lap.alternate.remote_gid, 40),
	BITS(lap.alternate.flow_label, 56, 0, 20),
	WHOLE(lap.alternate.traffic_class, 59),
	WHOLE(lap.alternate.hop_limit, 60),
	BITS(lap.alternate.packet_rate, 61, 2, 6),
	BITS(lap.alternate.sl, 62, 0, 4),
	BITS(lap.alternate.subnet_local, 62, 4, 1),
	BITS(lap.alternate.ack_timeout, 63, 0, 5),
	WHOLE(lap.private_data, 64),
};

static const struct vb_field apr_fields[] = {
	WHOLE(apr.local_comm_id, 0),
	WHOLE(apr.remote_comm_id, 4),
	WHOLE(apr.info_length, 8),
	WHOLE(apr.status, 9),
	WHOLE(apr.info, 12),
	WHOLE(apr.private_data, 84),
};

#define LAYOUT(text, kind)                                          \
	.name = text, .fields = kind##_fields,                      \
	.field_count = COUNT(kind##_fields),                        \
	.private_data = OFFSET(kind.private_data),                  \
	.private_data_size = SIZE(kind.private_data)
#define SENDER(path)   .sender_id = OFFSET(path)
#define RECEIVER(path) .receiver_id = OFFSET(path)
#define INFO(path)     .info_length = OFFSET(path)
#define BOTH(kind)     SENDER(kind.local_comm_id), RECEIVER(kind.remote_comm_id)

static const struct vb_cm_layout layouts[] = {
	[VB_CM_REQ - VB_CM_REQ] = { LAYOUT("REQ", req), SENDER(req.local_comm_id) },
	[VB_CM_MRA - VB_CM_REQ] = { LAYOUT("MRA", mra), BOTH(mra) },
	[VB_CM_REJ - VB_CM_REQ] = { LAYOUT("REJ", rej), BOTH(rej), INFO(rej.info_length) },
	[VB_CM_REP - VB_CM_REQ] = { LAYOUT("REP", rep), BOTH(rep) },
	[VB_CM_RTU - VB_CM_REQ] = { LAYOUT("RTU", rtu), BOTH(rtu) },
	[VB_CM_DREQ - VB_CM_REQ] = { LAYOUT("DREQ", dreq), BOTH(dreq) },
	[VB_CM_DREP - VB_CM_REQ] = { LAYOUT("DREP", drep), BOTH(drep) },
	[VB_CM_SIDR_REQ - VB_CM_REQ] = { LAYOUT("SIDR_REQ", sidr_req),
					 SENDER(sidr_req.request_id) },
	[VB_CM_SIDR_REP - VB_CM_REQ] = { LAYOUT("SIDR_REP", sidr_rep),
					 RECEIVER(sidr_rep.request_id),
					 INFO(sidr_rep.info_length) },
	[VB_CM_LAP - VB_CM_REQ] = { LAYOUT("LAP", lap), BOTH(lap) },
	[VB_CM_APR - VB_CM_REQ] = { LAYOUT("APR", apr), BOTH(apr), INFO(apr.info_length) },
};
/* clang-format on */

const struct vb_cm_layout *vb_cm_layout(unsigned attribute)
{
	if (attribute < VB_CM_REQ || attribute - VB_CM_REQ >= COUNT(layouts))
		return NULL;
	return &layouts[attribute - VB_CM_REQ];
}
