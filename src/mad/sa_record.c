/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of subnet administration (IBA 15.2.5). A component of the mask is a field of the record,
 * by its number; a request is compared byte by byte, or by bits, with each record that there is.
 */
#include <string.h>

#include "mad/attribute.h"
#include "mad/sa.h"
#include "wire/bytes.h"

enum {
	CLASS_PORT_INFO = 0x0001,
	NODE_RECORD = 0x0011,
	PORT_INFO_RECORD = 0x0012,
	SM_INFO_RECORD = 0x0018,
	PATH_RECORD = 0x0035,
	MC_MEMBER_RECORD = 0x0038,

	CLASS_PORT_INFO_SIZE = 72,
	NODE_RECORD_SIZE = 112, /* all with padding */
	PORT_INFO_RECORD_SIZE = 72,
	SM_INFO_RECORD_SIZE = 32,
	PATH_RECORD_SIZE = 64,
	MC_MEMBER_RECORD_SIZE = 56,

	EXACTLY = 2,    /* selector of an MTU, a rate or a time */
	LIFE_TIME = 16, /* 4.096 us << 16: about a quarter of a second */
	RESPONSE_TIME = 18,
	MULTICAST_CAP = 0x0006, /* of the class: subnet administration with multicast */
	MLID_FIRST = 0xc000,
	MLIDS = 0x3ffe,
	GROUP_QKEY = 0x0b1b,
	JOIN_STATES = 0xf,
};

/* A field that requests may name, by the number of its component. */
struct component {
	uint8_t number;
	uint16_t bit, width;
};

/* --- comparing --- */

static bool bits_equal(const uint8_t *a, const uint8_t *b, unsigned bit, unsigned width)
{
	for (unsigned i = bit; i < bit + width; i++)
		if ((a[i / 8] ^ b[i / 8]) >> (7 - i % 8) & 1)
			return false;
	return true;
}

static bool fits(const struct vb_sa_query *query, const struct component *list, unsigned count,
		 const uint8_t *record)
{
	for (unsigned i = 0; i < count; i++)
		if (query->components >> list[i].number & 1 &&
		    !bits_equal(query->data, record, list[i].bit, list[i].width))
			return false;
	return true;
}

static uint64_t known(const struct component *list, unsigned count)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < count; i++)
		mask |= UINT64_C(1) << list[i].number;
	return mask;
}

/* Keeps the record that was just written behind the others, if it fits. */
static void keep(struct vb_sa_records *records, bool wanted)
{
	if (wanted) {
		records->at += records->size;
		records->count++;
	} else {
		memset(records->at, 0, records->size);
	}
}

/* --- one record of each kind --- */

static const struct component node_components[] = {
	{ 0, 0, 16 },    { 2, 32, 8 },   { 3, 40, 8 },    { 4, 48, 8 },     { 5, 56, 8 },
	{ 6, 64, 64 },   { 7, 128, 64 }, { 8, 192, 64 },  { 9, 256, 16 },   { 10, 272, 16 },
	{ 11, 288, 32 }, { 12, 320, 8 }, { 13, 328, 24 }, { 14, 352, 512 },
};

static void put_node(const struct vb_sa_query *query, unsigned index, uint8_t *record)
{
	vb_put16(record, query->view->own.lid);
	vb_node_info_emit(&query->view->own, record + 4);
	memcpy(record + 4 + VB_NODE_INFO_SIZE, query->view->own.description,
	       sizeof(query->view->own.description));
}

static const struct component port_info_components[] = { { 0, 0, 16 }, { 1, 16, 8 } };

static void put_port_info(const struct vb_sa_query *query, unsigned index, uint8_t *record)
{
	vb_put16(record, query->view->own.lid);
	record[2] = 1;
	vb_port_info_emit(&query->view->own, record + 4);
}

static const struct component sm_info_components[] = { { 0, 0, 16 }, { 2, 32, 64 } };

static void put_sm_info(const struct vb_sa_query *query, unsigned index, uint8_t *record)
{
	vb_put16(record, query->view->own.lid);
	vb_sm_info_emit(&query->view->own, record + 4);
}

/*
 * MTU, rate and life time have selectors, and are what they are: a request for less gets the path.
 * Reversible and NumbPath are wishes that every path here grants.
 */
static const struct component path_components[] = {
	{ 2, 64, 128 }, { 3, 192, 128 }, { 4, 320, 16 },  { 5, 336, 16 },  { 6, 352, 1 },
	{ 8, 356, 20 }, { 10, 384, 8 },  { 13, 400, 16 }, { 14, 416, 12 }, { 15, 428, 4 },
};
enum { PATH_WISHES = 0x3f1a03 }; /* service id, hop limit, reversible, NumbPath, selectors */

static void put_path(const struct vb_sa_query *query, unsigned index, uint8_t *record)
{
	const struct vb_sa_view *view = query->view;

	memcpy(record + 8, view->ports[index].gid, VB_SA_GID_SIZE);
	memcpy(record + 24, view->ports[0].gid, VB_SA_GID_SIZE);
	vb_put16(record + 40, view->ports[index].lid);
	vb_put16(record + 42, view->ports[0].lid);
	record[49] = 0x80 | 1; /* reversible, one path */
	vb_put16(record + 50, view->own.pkeys[0]);
	record[54] = (uint8_t)(EXACTLY << 6 | view->own.mtu);
	record[55] = (uint8_t)(EXACTLY << 6 | view->own.rate);
	record[56] = EXACTLY << 6 | LIFE_TIME;
}

static const struct component member_components[] = {
	{ 0, 0, 128 },  { 1, 128, 128 }, { 2, 256, 32 },  { 3, 288, 16 },
	{ 7, 320, 16 }, { 12, 352, 4 },  { 13, 356, 20 }, { 15, 384, 4 },
};
enum { MEMBER_WISHES = 0x34f70 }; /* selectors, class, hop limit, join state, proxy */

uint16_t vb_sa_mlid(const uint8_t mgid[VB_SA_GID_SIZE])
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (unsigned i = 0; i < VB_SA_GID_SIZE; i++)
		hash = (hash ^ mgid[i]) * 16777619u;
	return (uint16_t)(MLID_FIRST + (hash ^ hash >> 16) % MLIDS);
}

static void put_group(const struct vb_sa_query *query, const struct vb_sa_group *group,
		      uint8_t *record)
{
	const struct vb_sa_view *view = query->view;

	memcpy(record, group->mgid, VB_SA_GID_SIZE);
	memcpy(record + 16, view->ports[0].gid, VB_SA_GID_SIZE);
	vb_put32(record + 32, GROUP_QKEY);
	vb_put16(record + 36, vb_sa_mlid(group->mgid));
	record[38] = (uint8_t)(EXACTLY << 6 | view->own.mtu);
	vb_put16(record + 40, view->own.pkeys[0]);
	record[42] = (uint8_t)(EXACTLY << 6 | view->own.rate);
	record[43] = EXACTLY << 6 | LIFE_TIME;
	record[48] = (uint8_t)((group->mgid[1] & 0xf) << 4 | group->join_state);
}

static void put_member(const struct vb_sa_query *query, unsigned index, uint8_t *record)
{
	put_group(query, &query->view->groups[index], record);
}

/* Id, GID, P_Key, key, name, and data in pieces of 1, 2, 4 and 8 bytes. */
static const struct component service_components[] = {
	{ 0, 0, 64 },     { 1, 64, 128 },   { 2, 192, 16 },   { 5, 256, 128 },  { 6, 384, 512 },
	{ 7, 896, 8 },    { 8, 904, 8 },    { 9, 912, 8 },    { 10, 920, 8 },   { 11, 928, 8 },
	{ 12, 936, 8 },   { 13, 944, 8 },   { 14, 952, 8 },   { 15, 960, 8 },   { 16, 968, 8 },
	{ 17, 976, 8 },   { 18, 984, 8 },   { 19, 992, 8 },   { 20, 1000, 8 },  { 21, 1008, 8 },
	{ 22, 1016, 8 },  { 23, 1024, 16 }, { 24, 1040, 16 }, { 25, 1056, 16 }, { 26, 1072, 16 },
	{ 27, 1088, 16 }, { 28, 1104, 16 }, { 29, 1120, 16 }, { 30, 1136, 16 }, { 31, 1152, 32 },
	{ 32, 1184, 32 }, { 33, 1216, 32 }, { 34, 1248, 32 }, { 35, 1280, 64 }, { 36, 1344, 64 }
};
enum { SERVICE_WISHES = 0x18 }; /* reserved, lease: what is left of it */

static void put_service(const struct vb_sa_query *query, unsigned index, uint8_t *record)
{
	memcpy(record, query->view->services[index].record, VB_SA_SERVICE_SIZE);
}

static void put_class_port_info(const struct vb_sa_query *query, unsigned index, uint8_t *record)
{
	const struct vb_class_port_info info = {
		.base_version = VB_MAD_BASE_VERSION,
		.class_version = VB_SA_CLASS_VERSION,
		.capability_mask = MULTICAST_CAP,
		.response_time = RESPONSE_TIME,
	};

	vb_layout_emit(&vb_class_port_info_layout, &info, record);
}

/* --- the table of kinds --- */

enum many { ONE, EACH_PORT, EACH_GROUP, EACH_SERVICE };

static const struct kind {
	uint16_t attribute_id, size;
	const struct component *components;
	unsigned component_count;
	uint64_t wishes; /* components that are not compared */
	enum many many;
	void (*put)(const struct vb_sa_query *query, unsigned index, uint8_t *record);
	void (*hide)(uint8_t *record); /* after the comparison; NULL: nothing */
} kinds[] = {
#define COMPONENTS(list) list, sizeof(list) / sizeof(*(list))
	{ CLASS_PORT_INFO, CLASS_PORT_INFO_SIZE, NULL, 0, UINT64_MAX, ONE, put_class_port_info },
	{ NODE_RECORD, NODE_RECORD_SIZE, COMPONENTS(node_components), 0, ONE, put_node },
	{ PORT_INFO_RECORD, PORT_INFO_RECORD_SIZE, COMPONENTS(port_info_components), 0, ONE,
	  put_port_info },
	{ SM_INFO_RECORD, SM_INFO_RECORD_SIZE, COMPONENTS(sm_info_components), 0, ONE,
	  put_sm_info },
	{ PATH_RECORD, PATH_RECORD_SIZE, COMPONENTS(path_components), PATH_WISHES, EACH_PORT,
	  put_path },
	{ MC_MEMBER_RECORD, MC_MEMBER_RECORD_SIZE, COMPONENTS(member_components), MEMBER_WISHES,
	  EACH_GROUP, put_member },
	{ VB_SA_SERVICE_RECORD, VB_SA_SERVICE_SIZE, COMPONENTS(service_components), SERVICE_WISHES,
	  EACH_SERVICE, put_service, vb_sa_service_hide },
};

static const struct kind *kind_of(uint16_t attribute_id)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].attribute_id == attribute_id)
			return &kinds[i];
	return NULL;
}

static unsigned candidates(const struct vb_sa_query *query, const struct kind *kind)
{
	if (kind->many == EACH_PORT)
		return query->view->port_count;
	if (kind->many == EACH_SERVICE)
		return query->view->service_count;
	return kind->many == EACH_GROUP ? query->view->group_count : 1;
}

uint16_t vb_sa_get(const struct vb_sa_query *query, struct vb_sa_records *records)
{
	const struct kind *kind = kind_of(query->attribute_id);

	if (!kind)
		return VB_MAD_BAD_ATTRIBUTE;
	if (query->components & ~(known(kind->components, kind->component_count) | kind->wishes))
		return VB_SA_INVALID;
	records->size = kind->size;
	for (unsigned i = 0; i < candidates(query, kind); i++) {
		bool wanted;

		kind->put(query, i, records->at);
		wanted = fits(query, kind->components, kind->component_count, records->at);
		if (kind->hide)
			kind->hide(records->at);
		keep(records, wanted);
	}
	return records->count ? VB_MAD_OK : VB_SA_NO_RECORDS;
}

uint64_t vb_sa_service_components(void)
{
	return known(service_components, sizeof(service_components) / sizeof(*service_components)) |
	       SERVICE_WISHES;
}

/* --- joining and leaving --- */

static const struct vb_sa_group *find_group(const struct vb_sa_view *view, const uint8_t *mgid)
{
	for (unsigned i = 0; i < view->group_count; i++)
		if (!memcmp(view->groups[i].mgid, mgid, VB_SA_GID_SIZE))
			return &view->groups[i];
	return NULL;
}

/* Only the own port can be joined: its GID, and MGID, must be named (IBA 15.2.5.17). */
static uint16_t check_member(const struct vb_sa_query *query)
{
	enum { MGID = 1 << 0, PORT_GID = 1 << 1, JOIN_STATE = 1 << 16 };
	const uint64_t needed = MGID | PORT_GID | JOIN_STATE;

	if ((query->components & needed) != needed)
		return VB_SA_INSUFFICIENT;
	if (query->data[0] != 0xff ||
	    memcmp(query->data + 16, query->view->ports[0].gid, VB_SA_GID_SIZE))
		return VB_SA_INVALID_GID;
	return query->data[48] & JOIN_STATES ? VB_MAD_OK : VB_SA_INVALID;
}

uint16_t vb_sa_change_group(const struct vb_sa_query *query, bool join,
			    struct vb_sa_records *records, struct vb_sa_effect *effect)
{
	const struct vb_sa_group *joined = find_group(query->view, query->data);
	const uint8_t state = query->data[48] & JOIN_STATES;
	uint16_t status = check_member(query);
	struct vb_sa_group group = { .join_state = state };

	if (status)
		return status;
	if (!join && (!joined || !(joined->join_state & state)))
		return VB_SA_INVALID;
	if (join && !joined && query->view->group_count == VB_SA_GROUPS_MAX)
		return VB_SA_INVALID;
	memcpy(group.mgid, query->data, VB_SA_GID_SIZE);
	if (join)
		group.join_state |= joined ? joined->join_state : 0;
	*effect = (struct vb_sa_effect){ join ? VB_SA_JOIN : VB_SA_LEAVE, group };
	records->size = MC_MEMBER_RECORD_SIZE;
	put_group(query, &group, records->at);
	keep(records, true);
	return VB_MAD_OK;
}
