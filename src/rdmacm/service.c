/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/service.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <stdlib.h>
#include <string.h>

#include "mad/sa.h"
#include "rdmacm/cma.h"
#include "wire/bytes.h"

/* False: the word is longer than the name of any service. */
static bool make_request(const char *word, uint8_t request[VB_MAD_SIZE])
{
	const struct vb_mad mad = {
		.base_version = VB_MAD_BASE_VERSION,
		.management_class = VB_MAD_CLASS_SUBN_ADM,
		.class_version = VB_SA_CLASS_VERSION,
		.method = VB_MAD_GET_TABLE,
		.attribute_id = VB_SA_SERVICE_RECORD,
	};
	uint8_t *record = request + VB_SA_DATA_AT;
	uint64_t id;
	char *end;

	memset(request, 0, VB_MAD_SIZE);
	vb_mad_emit(&mad, request);
	errno = 0;
	id = strtoull(word, &end, 0);
	if (!errno && end != word && !*end) {
		vb_put64(record + VB_SA_SERVICE_ID_AT, id);
		vb_put64(request + VB_SA_COMPONENTS_AT, VB_SA_SERVICE_ID);
		return true;
	}
	if (strlen(word) >= VB_SA_SERVICE_NAME_SIZE)
		return false;
	memcpy(record + VB_SA_SERVICE_NAME_AT, word, strlen(word));
	vb_put64(request + VB_SA_COMPONENTS_AT, VB_SA_SERVICE_NAME);
	return true;
}

static struct rdma_addrinfo *make_result(const uint8_t record[VB_SA_SERVICE_SIZE])
{
	struct rdma_addrinfo *result = calloc(1, sizeof(*result));
	struct sockaddr_ib *to = calloc(1, sizeof(*to));

	if (!result || !to) {
		free(result);
		free(to);
		return NULL;
	}
	to->sib_family = AF_IB;
	to->sib_pkey = htobe16(vb_get16(record + VB_SA_SERVICE_PKEY_AT));
	memcpy(&to->sib_addr, record + VB_SA_SERVICE_GID_AT, sizeof(to->sib_addr));
	to->sib_sid = htobe64(vb_get64(record + VB_SA_SERVICE_ID_AT));
	to->sib_sid_mask = UINT64_MAX;
	result->ai_flags = RAI_SA;
	result->ai_family = AF_IB;
	result->ai_port_space = RDMA_PS_IB;
	result->ai_dst_addr = (struct sockaddr *)to;
	result->ai_dst_len = sizeof(*to);
	return result;
}

static int make_results(const uint8_t *records, size_t count, struct rdma_addrinfo **info)
{
	struct rdma_addrinfo *first = NULL, **next = &first;

	for (size_t i = 0; i < count; i++) {
		*next = make_result(records + i * VB_SA_SERVICE_SIZE);
		if (!*next) {
			rdma_freeaddrinfo(first);
			return -ENOMEM;
		}
		next = &(*next)->ai_next;
	}
	*info = first;
	return first ? 0 : -ENOENT;
}

static int ask(struct ibv_device *device, const uint8_t *request, uint8_t *answer,
	       struct rdma_addrinfo **info)
{
	const size_t length = vb_cma_engine()->mad_agent(device, request, answer, VB_SA_ANSWER_MAX);
	struct vb_mad mad;

	if (length < VB_SA_DATA_AT)
		return -EIO;
	vb_mad_parse(answer, &mad);
	if (mad.status)
		return mad.status == VB_SA_NO_RECORDS ? -ENOENT : -EIO;
	return make_results(answer + VB_SA_DATA_AT, (length - VB_SA_DATA_AT) / VB_SA_SERVICE_SIZE,
			    info);
}

int vb_cma_services(struct ibv_device *device, const char *word, struct rdma_addrinfo **info)
{
	uint8_t request[VB_MAD_SIZE], *answer;
	int err;

	if (!make_request(word, request))
		return -ENOENT;
	answer = malloc(VB_SA_ANSWER_MAX);
	if (!answer)
		return -ENOMEM;
	err = ask(device, request, answer, info);
	free(answer);
	return err;
}
