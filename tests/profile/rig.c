/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <stdio.h>

struct rig rig;

static int read_profile(void)
{
	static char text[VB_PROFILE_BYTES_MAX];
	const char *path = getenv("VERBENA_AS");
	FILE *file = path ? fopen(path, "re") : NULL;
	char why[VB_PROFILE_WHY_MAX];

	if (!file)
		return -1;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return vb_profile_parse(text, &rig.profile, why);
}

int rig_open(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (read_profile() || !list || !list[0])
		return -1;
	rig.context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	rig.pd = rig.context ? ibv_alloc_pd(rig.context) : NULL;
	rig.cq = rig.context ? ibv_create_cq(rig.context, 16, NULL, NULL, 0) : NULL;
	rig.type = has(VB_FACT_QP_TYPES, 1 << IBV_QPT_RC) ? IBV_QPT_RC : IBV_QPT_UD;
	return rig.pd && rig.cq ? 0 : -1;
}

int rig_close(void **state)
{
	return ibv_destroy_cq(rig.cq) || ibv_dealloc_pd(rig.pd) || ibv_close_device(rig.context);
}

uint64_t fact(enum vb_fact fact)
{
	return vb_profile_fact(&rig.profile, fact);
}

struct ibv_qp_init_attr qp_init(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.send_cq = rig.cq, .recv_cq = rig.cq, .qp_type = type, .cap = { 1, 1, 1, 1, 0 }
	};
}

void create_and_destroy_qp(struct ibv_qp_init_attr init)
{
	struct ibv_qp *qp = ibv_create_qp(rig.pd, &init);

	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

struct ibv_qp *loop_qp(uint32_t sge)
{
	struct ibv_qp_init_attr init = qp_init(IBV_QPT_RC);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_256,
		.ah_attr = { .port_num = 1, .is_global = 1 },
		.timeout = 14,
		.retry_cnt = 1,
	};
	struct ibv_qp *qp;

	init.cap.max_send_sge = sge;
	init.cap.max_send_wr = 8;
	qp = ibv_create_qp(rig.pd, &init);
	assert_non_null(qp);
	attr.dest_qp_num = qp->qp_num;
	assert_int_equal(ibv_query_gid(rig.context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
	return qp;
}
