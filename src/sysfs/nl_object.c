/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/nl_object.h"

#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <string.h>

/* When an object has an attribute. */
enum when {
	ALWAYS,
	ADMIN,    /* keys are for administrators, as in the kernel */
	HAS_PORT, /* in RESET a QP has no port, and an identifier has none without a device */
	HAS_PEER,
	MIGRATES,
	HAS_CQ,
	HAS_QP,
};

enum source { RECORD, SLOT, CONSTANT };

/* An attribute with one number. */
struct vb_nl_field {
	uint16_t attribute;
	uint8_t size; /* of the attribute: 1, 4 or 8 bytes */
	enum when when;
	enum source source;
	uint16_t at;     /* RECORD: the member's offset; CONSTANT: the number */
	uint8_t at_size; /* RECORD: the member's size */
};

#define AT(member)                                   \
	offsetof(struct vb_describe_record, member), \
		sizeof(((struct vb_describe_record *)0)->member)
#define FIELDS(list) list, sizeof(list) / sizeof(*(list))

static const struct vb_nl_field pd_fields[] = {
	{ RDMA_NLDEV_ATTR_RES_USECNT, 8, ALWAYS, RECORD, AT(users) },
	{ RDMA_NLDEV_ATTR_RES_PDN, 4, ALWAYS, RECORD, AT(id) },
	{ RDMA_NLDEV_ATTR_RES_CTXN, 4, ALWAYS, SLOT },
};

static const struct vb_nl_field cq_fields[] = {
	{ RDMA_NLDEV_ATTR_RES_CQE, 4, ALWAYS, RECORD, AT(depth) },
	{ RDMA_NLDEV_ATTR_RES_USECNT, 8, ALWAYS, RECORD, AT(users) },
	{ RDMA_NLDEV_ATTR_DEV_DIM, 1, ALWAYS, CONSTANT, 0 },
	{ RDMA_NLDEV_ATTR_RES_CQN, 4, ALWAYS, RECORD, AT(id) },
	{ RDMA_NLDEV_ATTR_RES_CTXN, 4, ALWAYS, SLOT },
};

static const struct vb_nl_field qp_fields[] = {
	{ RDMA_NLDEV_ATTR_PORT_INDEX, 4, HAS_PORT, CONSTANT, 1 },
	{ RDMA_NLDEV_ATTR_RES_LQPN, 4, ALWAYS, RECORD, AT(id) },
	{ RDMA_NLDEV_ATTR_RES_PDN, 4, ALWAYS, RECORD, AT(pd) },
	{ RDMA_NLDEV_ATTR_RES_RQPN, 4, HAS_PEER, RECORD, AT(dest_qpn) },
	{ RDMA_NLDEV_ATTR_RES_RQ_PSN, 4, HAS_PEER, RECORD, AT(rq_psn) },
	{ RDMA_NLDEV_ATTR_RES_SQ_PSN, 4, ALWAYS, RECORD, AT(sq_psn) },
	{ RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, 1, MIGRATES, RECORD, AT(mig_state) },
	{ RDMA_NLDEV_ATTR_RES_TYPE, 1, ALWAYS, RECORD, AT(type) },
	{ RDMA_NLDEV_ATTR_RES_STATE, 1, ALWAYS, RECORD, AT(state) },
};

static const struct vb_nl_field cm_id_fields[] = {
	{ RDMA_NLDEV_ATTR_PORT_INDEX, 4, HAS_PORT, CONSTANT, 1 },
	{ RDMA_NLDEV_ATTR_RES_LQPN, 4, HAS_QP, RECORD, AT(cm_qpn) },
	{ RDMA_NLDEV_ATTR_RES_TYPE, 1, HAS_QP, RECORD, AT(type) },
	{ RDMA_NLDEV_ATTR_RES_PS, 4, ALWAYS, RECORD, AT(port_space) },
	{ RDMA_NLDEV_ATTR_RES_STATE, 1, ALWAYS, RECORD, AT(state) },
	{ RDMA_NLDEV_ATTR_RES_CM_IDN, 4, ALWAYS, RECORD, AT(id) },
};

static const struct vb_nl_field mr_fields[] = {
	{ RDMA_NLDEV_ATTR_RES_RKEY, 4, ADMIN, RECORD, AT(rkey) },
	{ RDMA_NLDEV_ATTR_RES_LKEY, 4, ADMIN, RECORD, AT(lkey) },
	{ RDMA_NLDEV_ATTR_RES_MRLEN, 8, ALWAYS, RECORD, AT(length) },
	{ RDMA_NLDEV_ATTR_RES_MRN, 4, ALWAYS, RECORD, AT(id) },
	{ RDMA_NLDEV_ATTR_RES_PDN, 4, ALWAYS, RECORD, AT(pd) },
};

static const struct vb_nl_field context_fields[] = {
	{ RDMA_NLDEV_ATTR_RES_CTXN, 4, ALWAYS, SLOT },
};

static const struct vb_nl_field srq_fields[] = {
	{ RDMA_NLDEV_ATTR_RES_SRQN, 4, ALWAYS, RECORD, AT(id) },
	{ RDMA_NLDEV_ATTR_RES_TYPE, 1, ALWAYS, RECORD, AT(type) },
	{ RDMA_NLDEV_ATTR_RES_PDN, 4, ALWAYS, RECORD, AT(pd) },
	{ RDMA_NLDEV_ATTR_RES_CQN, 4, HAS_CQ, RECORD, AT(recv_cq) },
};

/* The QPs that receive from the SRQ. */
static void put_srq_qps(struct vb_nl_out *out, const struct vb_nl_object *object)
{
	const size_t table = vb_nl_nest_begin(out, RDMA_NLDEV_ATTR_RES_QP);

	for (unsigned i = 0; i < object->process->answer.record_count; i++) {
		const struct vb_describe_record *qp = &object->process->records[i];
		size_t entry;

		if (qp->kind != VB_DESCRIBE_QP || qp->srq != object->record->id)
			continue;
		entry = vb_nl_nest_begin(out, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
		vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_LQPN, qp->id);
		vb_nl_nest_end(out, entry);
	}
	vb_nl_nest_end(out, table);
}

/* The attribute has the size of any address. `rdma` knows those of IP, and no others. */
static void put_address(struct vb_nl_out *out, uint16_t attribute, const uint8_t bytes[28])
{
	struct sockaddr_storage address = { 0 };

	memcpy(&address, bytes, sizeof(struct sockaddr_in6));
	if (address.ss_family)
		vb_nl_put(out, attribute, &address, sizeof(address));
}

static void put_addresses(struct vb_nl_out *out, const struct vb_nl_object *object)
{
	put_address(out, RDMA_NLDEV_ATTR_RES_SRC_ADDR, object->record->src);
	put_address(out, RDMA_NLDEV_ATTR_RES_DST_ADDR, object->record->dst);
}

const struct vb_nl_kind vb_nl_kinds[] = {
	{ RDMA_NLDEV_CMD_RES_PD_GET, VB_DESCRIBE_PD, RDMA_NLDEV_ATTR_RES_PD,
	  RDMA_NLDEV_ATTR_RES_PD_ENTRY, RDMA_NLDEV_ATTR_RES_PDN, "pd", FIELDS(pd_fields) },
	{ RDMA_NLDEV_CMD_RES_CQ_GET, VB_DESCRIBE_CQ, RDMA_NLDEV_ATTR_RES_CQ,
	  RDMA_NLDEV_ATTR_RES_CQ_ENTRY, RDMA_NLDEV_ATTR_RES_CQN, "cq", FIELDS(cq_fields) },
	{ RDMA_NLDEV_CMD_RES_QP_GET, VB_DESCRIBE_QP, RDMA_NLDEV_ATTR_RES_QP,
	  RDMA_NLDEV_ATTR_RES_QP_ENTRY, RDMA_NLDEV_ATTR_RES_LQPN, "qp", FIELDS(qp_fields) },
	{ RDMA_NLDEV_CMD_RES_CM_ID_GET, VB_DESCRIBE_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID,
	  RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, RDMA_NLDEV_ATTR_RES_CM_IDN, "cm_id",
	  FIELDS(cm_id_fields), put_addresses },
	{ RDMA_NLDEV_CMD_RES_MR_GET, VB_DESCRIBE_MR, RDMA_NLDEV_ATTR_RES_MR,
	  RDMA_NLDEV_ATTR_RES_MR_ENTRY, RDMA_NLDEV_ATTR_RES_MRN, "mr", FIELDS(mr_fields) },
	{ RDMA_NLDEV_CMD_RES_CTX_GET, 0, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
	  RDMA_NLDEV_ATTR_RES_CTXN, "ctx", FIELDS(context_fields) },
	{ RDMA_NLDEV_CMD_RES_SRQ_GET, VB_DESCRIBE_SRQ, RDMA_NLDEV_ATTR_RES_SRQ,
	  RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, RDMA_NLDEV_ATTR_RES_SRQN, "srq", FIELDS(srq_fields),
	  put_srq_qps },
};
const unsigned vb_nl_kind_count = sizeof(vb_nl_kinds) / sizeof(*vb_nl_kinds);

const struct vb_nl_kind *vb_nl_kind_of(const struct vb_nl_request *request)
{
	const unsigned command = vb_nl_command_of(request);

	for (unsigned i = 0; i < vb_nl_kind_count; i++)
		if (vb_nl_kinds[i].command == command)
			return &vb_nl_kinds[i];
	return NULL;
}

static bool has_peer(unsigned type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC;
}

static bool applies(enum when when, const struct vb_describe_record *record,
		    const struct vb_nl_request *request)
{
	switch (when) {
	case ALWAYS:
		break;
	case ADMIN:
		return request->admin;
	case HAS_PORT:
		return record->kind == VB_DESCRIBE_QP ? record->state != IBV_QPS_RESET
						      : record->device[0];
	case HAS_PEER:
		return has_peer(record->type);
	case MIGRATES:
		return has_peer(record->type) || record->type == IBV_QPT_XRC_SEND ||
		       record->type == IBV_QPT_XRC_RECV;
	case HAS_CQ:
		return record->recv_cq;
	case HAS_QP:
		return record->cm_qpn;
	}
	return true;
}

static uint64_t member_value(const struct vb_nl_field *field,
			     const struct vb_describe_record *record)
{
	const uint8_t *at = (const uint8_t *)record + field->at;
	uint32_t word;
	uint64_t value;

	switch (field->at_size) {
	case 1:
		return *at;
	case 4:
		memcpy(&word, at, sizeof(word));
		return word;
	default:
		memcpy(&value, at, sizeof(value));
		return value;
	}
}

static uint64_t field_value(const struct vb_nl_field *field, const struct vb_nl_object *object)
{
	switch (field->source) {
	case RECORD:
		return member_value(field, object->record);
	case SLOT:
		return object->process->slot;
	case CONSTANT:
		break;
	}
	return field->at;
}

static void put_field(struct vb_nl_out *out, const struct vb_nl_field *field, uint64_t value)
{
	if (field->size == 1)
		vb_nl_put_u8(out, field->attribute, (uint8_t)value);
	else if (field->size == 4)
		vb_nl_put_u32(out, field->attribute, (uint32_t)value);
	else
		vb_nl_put_u64(out, field->attribute, value);
}

void vb_nl_put_object(struct vb_nl_out *out, const struct vb_nl_kind *kind,
		      const struct vb_nl_object *object, const struct vb_nl_request *request)
{
	for (unsigned i = 0; i < kind->field_count; i++)
		if (applies(kind->fields[i].when, object->record, request))
			put_field(out, &kind->fields[i], field_value(&kind->fields[i], object));
	if (kind->more)
		kind->more(out, object);
	vb_nl_put_u32(out, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)object->process->pid);
}
