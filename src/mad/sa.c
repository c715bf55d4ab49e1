/* SPDX-License-Identifier: BSD-2-Clause */
#include "mad/sa.h"

#include <string.h>

#include "wire/bytes.h"

enum {
	PATH_RECORD = 0x0035,
	MC_MEMBER_RECORD = 0x0038,
	PATH_DLID = 1 << 4, /* component */
	PATH_DLID_AT = VB_SA_DATA_AT + 40,
	CLASS_PORT_INFO = 0x0001,
	RMPP_AT = 24,
	OFFSET_AT = 44, /* of the length of records, in words of 8 bytes */
	RMPP_DATA = 1,  /* type */
	RMPP_WHOLE = 7, /* active, first and last packet */
	RMPP_OVERHEAD = 20,
};

/* The header of multi-packet transactions, as one packet: the reader gets all of it at once. */
static void put_rmpp(uint8_t *answer, size_t length)
{
	answer[RMPP_AT] = 1;
	answer[RMPP_AT + 1] = RMPP_DATA;
	answer[RMPP_AT + 2] = RMPP_WHOLE;
	vb_put32(answer + RMPP_AT + 4, 1);
	vb_put32(answer + RMPP_AT + 8, (uint32_t)(length - VB_SA_DATA_AT + RMPP_OVERHEAD));
}

static uint16_t dispatch(const struct vb_mad *mad, const struct vb_sa_query *query,
			 struct vb_sa_records *records, struct vb_sa_effect *effect)
{
	uint16_t status;

	if (mad->base_version != VB_MAD_BASE_VERSION || mad->class_version != VB_SA_CLASS_VERSION)
		return VB_MAD_BAD_VERSION;
	switch (mad->method) {
	case VB_MAD_GET:
		status = vb_sa_get(query, records);
		return !status && records->count > 1 ? VB_SA_TOO_MANY_RECORDS : status;
	case VB_MAD_GET_TABLE:
		return mad->attribute_id == CLASS_PORT_INFO ? VB_MAD_BAD_ATTRIBUTE
							    : vb_sa_get(query, records);
	case VB_MAD_SET:
	case VB_MAD_DELETE:
		if (mad->attribute_id == VB_SA_SERVICE_RECORD)
			return vb_sa_change_service(query, mad->method == VB_MAD_SET, records,
						    effect);
		if (mad->attribute_id != MC_MEMBER_RECORD)
			return VB_MAD_BAD_ATTRIBUTE;
		return vb_sa_change_group(query, mad->method == VB_MAD_SET, records, effect);
	default:
		return VB_MAD_BAD_METHOD;
	}
}

static size_t finish(struct vb_mad *mad, const struct vb_sa_records *records, uint8_t *answer)
{
	const unsigned count = mad->status ? 0 : records->count;
	const size_t length = VB_SA_DATA_AT + (size_t)count * records->size;
	const bool table = mad->method == VB_MAD_GET_TABLE;

	if (!count)
		memset(answer + VB_SA_DATA_AT, 0, VB_MAD_SIZE - VB_SA_DATA_AT);
	mad->method = vb_mad_method_of_answer(mad->method);
	vb_mad_emit(mad, answer);
	if (mad->status)
		return VB_MAD_SIZE;
	vb_put16(answer + OFFSET_AT, records->size / 8);
	if (!table)
		return VB_MAD_SIZE;
	put_rmpp(answer, length);
	return length > VB_MAD_SIZE ? length : count ? length : VB_SA_DATA_AT;
}

size_t vb_sa_answer(const struct vb_sa_view *view, const uint8_t request[VB_MAD_SIZE],
		    uint8_t *answer, struct vb_sa_effect *effect)
{
	struct vb_sa_records records = { .at = answer + VB_SA_DATA_AT };
	struct vb_sa_query query = { .view = view };
	struct vb_mad mad;

	*effect = (struct vb_sa_effect){ 0 };
	vb_mad_parse(request, &mad);
	if (!vb_mad_is_request(&mad))
		return 0;
	query.attribute_id = mad.attribute_id;
	query.components = vb_get64(request + VB_SA_COMPONENTS_AT);
	query.data = request + VB_SA_DATA_AT;
	memset(answer, 0, VB_SA_ANSWER_MAX);
	memcpy(answer, request, VB_SA_DATA_AT);
	memset(answer + RMPP_AT, 0, OFFSET_AT - RMPP_AT);
	mad.status = dispatch(&mad, &query, &records, effect);
	return finish(&mad, &records, answer);
}

uint16_t vb_sa_path_lid(const uint8_t request[VB_MAD_SIZE])
{
	struct vb_mad mad;

	vb_mad_parse(request, &mad);
	return mad.attribute_id == PATH_RECORD &&
			       vb_get64(request + VB_SA_COMPONENTS_AT) & PATH_DLID
		       ? vb_get16(request + PATH_DLID_AT)
		       : 0;
}
