/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the connection manager (IBA chapter 12) as values: plain integers in host order,
 * GIDs, and bytes. "local" and "remote" are the sender's words, as in the specification: the local
 * communication id in a message is the remote id of its receiver.
 *
 * Timeouts are exponents: 4.096 us * 2^value. If a field is narrower than its type, the comment
 * says how many bits it has. Emitting takes that many bits of the value and drops the rest.
 */
#ifndef VB_WIRE_CM_H
#define VB_WIRE_CM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/mad.h"

enum { VB_CM_CLASS_VERSION = 2 };

/* Attribute ids: the kind of a message. */
enum vb_cm_attribute {
	VB_CM_REQ = 0x10,
	VB_CM_MRA = 0x11,
	VB_CM_REJ = 0x12,
	VB_CM_REP = 0x13,
	VB_CM_RTU = 0x14,
	VB_CM_DREQ = 0x15,
	VB_CM_DREP = 0x16,
	VB_CM_SIDR_REQ = 0x17,
	VB_CM_SIDR_REP = 0x18,
	VB_CM_LAP = 0x19,
	VB_CM_APR = 0x1a,
};

/* Sizes of private data. IP addresses take VB_CM_IP_SIZE bytes of a REQ or SIDR_REQ. */
enum {
	VB_CM_IP_SIZE = 36,
	VB_CM_REQ_DATA_SIZE = 92,
	VB_CM_REQ_USER_SIZE = VB_CM_REQ_DATA_SIZE - VB_CM_IP_SIZE,
	VB_CM_MRA_DATA_SIZE = 222,
	VB_CM_REJ_DATA_SIZE = 148,
	VB_CM_REP_DATA_SIZE = 196,
	VB_CM_RTU_DATA_SIZE = 224,
	VB_CM_DREQ_DATA_SIZE = 220,
	VB_CM_DREP_DATA_SIZE = 224,
	VB_CM_SIDR_REQ_DATA_SIZE = 216,
	VB_CM_SIDR_REQ_USER_SIZE = VB_CM_SIDR_REQ_DATA_SIZE - VB_CM_IP_SIZE,
	VB_CM_SIDR_REP_DATA_SIZE = 136,
	VB_CM_LAP_DATA_SIZE = 168,
	VB_CM_APR_DATA_SIZE = 148,
	VB_CM_INFO_SIZE = 72, /* additional information of REJ, APR and SIDR_REP */
};

/* The message that an MRA or a REJ answers. */
enum vb_cm_answered {
	VB_CM_ANSWERS_REQ = 0,
	VB_CM_ANSWERS_REP = 1,
	VB_CM_ANSWERS_OTHER = 2, /* MRA: a LAP; REJ: no message, or another one */
};

/* Transport service types of a REQ. XRC is an extended type. */
enum vb_cm_transport {
	VB_CM_TRANSPORT_RC = 0,
	VB_CM_TRANSPORT_UC = 1,
	VB_CM_TRANSPORT_RD = 2,
	VB_CM_TRANSPORT_EXTENDED = 3,
	VB_CM_EXTENDED_XRC = 1,
};

/* Reasons of a REJ (IBA 12.6.7.2). */
enum vb_cm_reason {
	VB_CM_REJ_NO_QP = 1,
	VB_CM_REJ_NO_EEC = 2,
	VB_CM_REJ_NO_RESOURCES = 3,
	VB_CM_REJ_TIMEOUT = 4,
	VB_CM_REJ_UNSUPPORTED = 5,
	VB_CM_REJ_INVALID_COMM_ID = 6,
	VB_CM_REJ_INVALID_COMM_INSTANCE = 7,
	VB_CM_REJ_INVALID_SERVICE_ID = 8,
	VB_CM_REJ_INVALID_TRANSPORT = 9,
	VB_CM_REJ_STALE = 10,
	VB_CM_REJ_NO_RDC = 11,
	VB_CM_REJ_INVALID_GID = 12,
	VB_CM_REJ_INVALID_LID = 13,
	VB_CM_REJ_INVALID_SL = 14,
	VB_CM_REJ_INVALID_TRAFFIC_CLASS = 15,
	VB_CM_REJ_INVALID_HOP_LIMIT = 16,
	VB_CM_REJ_INVALID_RATE = 17,
	VB_CM_REJ_INVALID_ALT_GID = 18,
	VB_CM_REJ_INVALID_ALT_LID = 19,
	VB_CM_REJ_INVALID_ALT_SL = 20,
	VB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS = 21,
	VB_CM_REJ_INVALID_ALT_HOP_LIMIT = 22,
	VB_CM_REJ_INVALID_ALT_RATE = 23,
	VB_CM_REJ_REDIRECT_CM = 24,
	VB_CM_REJ_REDIRECT_PORT = 25,
	VB_CM_REJ_INVALID_MTU = 26,
	VB_CM_REJ_INSUFFICIENT_RESOURCES = 27, /* responder resources */
	VB_CM_REJ_CONSUMER = 28,
	VB_CM_REJ_RNR_RETRY_COUNT = 29,
	VB_CM_REJ_DUPLICATE_COMM_ID = 30,
	VB_CM_REJ_INVALID_CLASS_VERSION = 31,
	VB_CM_REJ_INVALID_FLOW_LABEL = 32,
	VB_CM_REJ_INVALID_ALT_FLOW_LABEL = 33,
	VB_CM_REJ_VENDOR_OPTION = 35, /* ECE option not supported */
};

/* Status of a SIDR_REP. */
enum vb_cm_sidr_status {
	VB_CM_SIDR_SUCCESS = 0,
	VB_CM_SIDR_UNSUPPORTED = 1, /* no such service id */
	VB_CM_SIDR_REJECT = 2,      /* by the consumer */
	VB_CM_SIDR_NO_QP = 3,
	VB_CM_SIDR_REDIRECT = 4,
	VB_CM_SIDR_UNSUPPORTED_VERSION = 5,
};

/* Status of an APR. */
enum vb_cm_apr_status {
	VB_CM_APR_SUCCESS = 0,
	VB_CM_APR_INVALID_COMM_ID = 1,
	VB_CM_APR_UNSUPPORTED = 2, /* alternate paths are not supported */
	VB_CM_APR_REJECT = 3,
	VB_CM_APR_INVALID_QPN = 6,
	VB_CM_APR_INVALID_LID = 7,
};

/* A path between two ports, as the sender sees it. */
enum { VB_CM_LID_PERMISSIVE = 0xffff };
struct vb_cm_path {
	uint16_t local_lid, remote_lid; /* RoCE: VB_CM_LID_PERMISSIVE or 0; 0: no such path */
	union ibv_gid local_gid, remote_gid;
	uint32_t flow_label; /* 20 bits */
	uint8_t packet_rate; /* 6 bits, enum ibv_rate; 0 on RoCE */
	uint8_t traffic_class, hop_limit;
	uint8_t sl; /* 4 bits */
	bool subnet_local;
	uint8_t ack_timeout; /* 5 bits: for the QP of the receiver; Linux takes it for both */
};

/* The path is one between InfiniBand ports: RoCE ports have no LIDs. */
static inline bool vb_cm_path_has_lids(const struct vb_cm_path *path)
{
	return path->local_lid && path->local_lid != VB_CM_LID_PERMISSIVE;
}

struct vb_cm_req {
	uint32_t local_comm_id;
	uint32_t vendor_id; /* 24 bits: of the ECE; its options are the attribute modifier */
	uint64_t service_id;
	uint64_t ca_guid;            /* of the sender's device */
	uint32_t qkey;               /* 0 but for RD */
	uint32_t qpn;                /* 24 bits: of the sender */
	uint8_t responder_resources; /* READs and ATOMICs that the sender can answer at once */
	uint8_t initiator_depth;     /* READs and ATOMICs that the sender will ask for at once */
	uint32_t local_eecn, remote_eecn; /* 24 bits: RD */
	uint8_t remote_cm_timeout;        /* 5 bits: time for the receiver to answer messages */
	uint8_t local_cm_timeout;         /* 5 bits: time that the sender takes to answer */
	uint8_t max_cm_retries;           /* 4 bits: of messages of the CM */
	uint8_t transport;                /* 2 bits: enum vb_cm_transport */
	uint8_t extended_transport;       /* 3 bits */
	bool flow_control;                /* end to end: the sender issues credits */
	bool rdc_exists;                  /* RD */
	bool srq;                         /* the sender's QP has an SRQ */
	bool sap_supported;               /* suggest alternate path */
	uint32_t starting_psn;            /* 24 bits: first PSN that the sender expects */
	uint8_t retry_count;              /* 3 bits: for the QP of the receiver */
	uint8_t rnr_retry_count;          /* 3 bits: for the QP of the receiver */
	uint16_t pkey;
	uint8_t mtu; /* 4 bits: enum ibv_mtu */
	struct vb_cm_path primary, alternate;
	uint8_t private_data[VB_CM_REQ_DATA_SIZE];
};

struct vb_cm_mra {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t answers;         /* 2 bits: enum vb_cm_answered */
	uint8_t service_timeout; /* 5 bits: time that the sender expects to need */
	uint8_t private_data[VB_CM_MRA_DATA_SIZE];
};

struct vb_cm_rej {
	uint32_t local_comm_id, remote_comm_id; /* 0: the sender has no id, or knows none */
	uint8_t answers;                        /* 2 bits: enum vb_cm_answered */
	uint8_t info_length;                    /* at most VB_CM_INFO_SIZE */
	uint16_t reason;                        /* enum vb_cm_reason */
	uint8_t info[VB_CM_INFO_SIZE]; /* depends on reason; timeout: the sender's CA GUID */
	uint8_t private_data[VB_CM_REJ_DATA_SIZE];
};

struct vb_cm_rep {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t qkey;         /* 0 but for RD */
	uint32_t qpn;          /* 24 bits: of the sender */
	uint32_t vendor_id;    /* 24 bits: of the ECE; its options are the attribute modifier */
	uint32_t eecn;         /* 24 bits: RD; for an XRC target its QPN, and qpn is 0 */
	uint32_t starting_psn; /* 24 bits: first PSN that the sender expects */
	uint8_t responder_resources, initiator_depth; /* as in a REQ, of this sender */
	uint8_t target_ack_delay; /* 5 bits: time that the sender's QP takes to acknowledge */
	uint8_t failover;         /* 2 bits: 0 accepted, 1 unsupported, 2 rejected */
	bool flow_control;        /* end to end: the sender issues credits */
	uint8_t rnr_retry_count;  /* 3 bits: for the QP of the receiver */
	bool srq;
	uint64_t ca_guid; /* of the sender's device */
	uint8_t private_data[VB_CM_REP_DATA_SIZE];
};

struct vb_cm_rtu {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[VB_CM_RTU_DATA_SIZE];
};

struct vb_cm_dreq {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t remote_qpn; /* 24 bits: the receiver's QP that is disconnected */
	uint8_t private_data[VB_CM_DREQ_DATA_SIZE];
};

struct vb_cm_drep {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[VB_CM_DREP_DATA_SIZE];
};

struct vb_cm_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
	uint8_t private_data[VB_CM_SIDR_REQ_DATA_SIZE];
};

struct vb_cm_sidr_rep {
	uint32_t request_id;
	uint8_t status;      /* enum vb_cm_sidr_status */
	uint8_t info_length; /* at most VB_CM_INFO_SIZE */
	uint32_t qpn;        /* 24 bits */
	uint32_t vendor_id;  /* 24 bits: of the ECE */
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[VB_CM_INFO_SIZE];
	uint8_t private_data[VB_CM_SIDR_REP_DATA_SIZE];
};

struct vb_cm_lap {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t remote_qpn;       /* 24 bits */
	uint8_t remote_cm_timeout; /* 5 bits */
	struct vb_cm_path alternate;
	uint8_t private_data[VB_CM_LAP_DATA_SIZE];
};

struct vb_cm_apr {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t info_length; /* at most VB_CM_INFO_SIZE */
	uint8_t status;      /* enum vb_cm_apr_status */
	uint8_t info[VB_CM_INFO_SIZE];
	uint8_t private_data[VB_CM_APR_DATA_SIZE];
};

struct vb_cm_message {
	enum vb_cm_attribute attribute;
	uint64_t transaction_id; /* an answer has that of the message that it answers */
	/* REQ, REP, SIDR_REP: options of the ECE; else 0. */
	uint32_t attribute_modifier;
	union {
		struct vb_cm_req req;
		struct vb_cm_mra mra;
		struct vb_cm_rej rej;
		struct vb_cm_rep rep;
		struct vb_cm_rtu rtu;
		struct vb_cm_dreq dreq;
		struct vb_cm_drep drep;
		struct vb_cm_sidr_req sidr_req;
		struct vb_cm_sidr_rep sidr_rep;
		struct vb_cm_lap lap;
		struct vb_cm_apr apr;
	};
};

/* The reason why bytes are no message of the CM. The receiver counts each. */
enum vb_cm_flaw {
	VB_CM_OK,
	VB_CM_FLAW_LENGTH,        /* not VB_MAD_SIZE bytes */
	VB_CM_FLAW_BASE_VERSION,  /* of the MAD */
	VB_CM_FLAW_CLASS,         /* another management class */
	VB_CM_FLAW_CLASS_VERSION, /* of the CM */
	VB_CM_FLAW_OTHER,         /* GET, SET or an answer: ClassPortInfo, which is not needed */
	VB_CM_FLAW_METHOD,        /* no such method in this class */
	VB_CM_FLAW_ATTRIBUTE,     /* no such message */
	VB_CM_FLAW_INFO_LENGTH,   /* additional information longer than its field */
	VB_CM_FLAWS,
};

const char *vb_cm_flaw_name(enum vb_cm_flaw flaw);

/*
 * bytes is a whole MAD. The parser ignores reserved bits, as Linux does. It clears the message
 * first: a value holds the fields of its kind, and zeros. The message is valid only after VB_CM_OK.
 */
enum vb_cm_flaw vb_cm_parse(const uint8_t *bytes, size_t length, struct vb_cm_message *message);

/* The inverse: writes VB_MAD_SIZE bytes, reserved ones as 0. The attribute must be known. */
void vb_cm_emit(const struct vb_cm_message *message, uint8_t bytes[VB_MAD_SIZE]);

/* "REQ" and so on, or "unknown". */
const char *vb_cm_name(enum vb_cm_attribute attribute);
/* "invalid service id" and so on, for a REJ; or "reserved". */
const char *vb_cm_reason_name(unsigned reason);

/*
 * "REQ tid 0x.. id 0x.. service 0x.. ..." in at most size bytes; returns out. The line has no zeros
 * and no usual values, and only the beginning of private data.
 */
enum { VB_CM_LINE_SIZE = 1024 }; /* enough for every message */
const char *vb_cm_print(const struct vb_cm_message *message, char *out, size_t size);

/* The sender's id: the local communication id, or the request id of a SIDR_REQ; SIDR_REP: 0. */
uint32_t vb_cm_sender_id(const struct vb_cm_message *message);

/*
 * The receiver's id: the remote communication id, or the request id of a SIDR_REP. 0: the message
 * names none (REQ, SIDR_REQ, or a REJ whose sender never heard of the id).
 */
uint32_t vb_cm_receiver_id(const struct vb_cm_message *message);

/* The private data field of the message, and its size. */
uint8_t *vb_cm_private_data(struct vb_cm_message *message, size_t *size);

/*
 * The answer of a host to a message that belongs to none of its endpoints. False: no answer, and
 * out is not written.
 *   REQ       REJ, invalid service id
 *   REP       REJ, invalid communication id (Linux is silent here and lets the peer time out)
 *   SIDR_REQ  SIDR_REP, unsupported
 *   DREQ      DREP: there is no connection any more
 */
bool vb_cm_stray(const struct vb_cm_message *in, struct vb_cm_message *out);

/*
 * The header with IP addresses at the beginning of the private data of REQ and SIDR_REQ (IBA annex
 * A11).
 * IPv4 addresses are IPv4-mapped here, as in the GIDs of RoCE.
 */
struct vb_cm_ip {
	bool ipv6;
	uint16_t src_port; /* the destination port is in the service id */
	union ibv_gid src, dst;
};

/* 0; -EPROTO: another version of the header, or of IP. */
int vb_cm_ip_parse(const uint8_t bytes[VB_CM_IP_SIZE], struct vb_cm_ip *ip);
void vb_cm_ip_emit(const struct vb_cm_ip *ip, uint8_t bytes[VB_CM_IP_SIZE]);

/* Service ids of IP addresses: a port space (enum rdma_port_space) above a port number. */
static inline uint64_t vb_cm_service_id(uint16_t port_space, uint16_t port)
{
	return (uint64_t)port_space << 16 | port;
}

static inline uint16_t vb_cm_service_port(uint64_t service_id)
{
	return (uint16_t)service_id;
}

/* 0: not a service id of an IP address. RDMA_PS_IPOIB is 2, other port spaces are 0x01PP. */
static inline uint16_t vb_cm_service_space(uint64_t service_id)
{
	return service_id >> 32 ? 0 : (uint16_t)(service_id >> 16);
}

#endif
