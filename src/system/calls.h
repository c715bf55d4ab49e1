/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls that the system's library answers for its own objects. A row: the name, its parameters
 * and its arguments; the kind says what the call returns if it fails, or if the system's version of
 * rdma-core does not have it:
 *
 *	NUMBER   the errno value
 *	MINUS    -1, and errno
 *	COUNT    the errno value negated, of type ssize_t
 *	POINTER  NULL, and errno
 *	ZERO     0: an answer, no failure
 *	NOTHING  no result
 */
#ifndef VB_SYSTEM_CALLS_H
#define VB_SYSTEM_CALLS_H

/* clang-format off */
#define VB_SYSTEM_CALLS(NUMBER, MINUS, COUNT, POINTER, ZERO, NOTHING) \
	POINTER(struct ibv_device **, ibv_get_device_list, (int *count), (count)) \
	NOTHING(ibv_free_device_list, (struct ibv_device **list), (list)) \
	ZERO(__be64, ibv_get_device_guid, (struct ibv_device *device), (device)) \
	MINUS(ibv_get_device_index, (struct ibv_device *device), (device)) \
	POINTER(struct ibv_context *, ibv_open_device, (struct ibv_device *device), (device)) \
	POINTER(struct ibv_context *, ibv_import_device, (int fd), (fd)) \
	MINUS(ibv_close_device, (struct ibv_context *context), (context)) \
	NUMBER(ibv_fork_init, (void), ()) \
	ZERO(enum ibv_fork_status, ibv_is_fork_initialized, (void), ()) \
	MINUS(ibv_get_async_event, \
		(struct ibv_context *context, struct ibv_async_event *event), (context, event)) \
	NOTHING(ibv_ack_async_event, (struct ibv_async_event *event), (event)) \
	\
	NUMBER(ibv_query_device, \
		(struct ibv_context *context, struct ibv_device_attr *attr), (context, attr)) \
	NUMBER(ibv_query_port, (struct ibv_context *context, uint8_t port, \
		struct _compat_ibv_port_attr *attr), (context, port, attr)) \
	NUMBER(ibv_query_port_speed, (struct ibv_context *context, uint32_t port, \
		uint64_t *speed), (context, port, speed)) \
	MINUS(ibv_query_gid, (struct ibv_context *context, uint8_t port, int index, \
		union ibv_gid *gid), (context, port, index, gid)) \
	MINUS(ibv_query_gid_type, (struct ibv_context *context, uint8_t port, unsigned index, \
		int *type), (context, port, index, type)) \
	NUMBER(_ibv_query_gid_ex, (struct ibv_context *context, uint32_t port, uint32_t index, \
		struct ibv_gid_entry *entry, uint32_t flags, size_t size), \
		(context, port, index, entry, flags, size)) \
	COUNT(_ibv_query_gid_table, (struct ibv_context *context, \
		struct ibv_gid_entry *entries, size_t room, uint32_t flags, size_t size), \
		(context, entries, room, flags, size)) \
	MINUS(ibv_query_pkey, (struct ibv_context *context, uint8_t port, int index, \
		__be16 *pkey), (context, port, index, pkey)) \
	MINUS(ibv_get_pkey_index, (struct ibv_context *context, uint8_t port, __be16 pkey), \
		(context, port, pkey)) \
	NUMBER(ibv_resolve_eth_l2_from_gid, (struct ibv_context *context, \
		struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid), \
		(context, attr, mac, vid)) \
	\
	POINTER(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *context), (context)) \
	NUMBER(ibv_dealloc_pd, (struct ibv_pd *pd), (pd)) \
	POINTER(struct ibv_pd *, ibv_import_pd, (struct ibv_context *context, \
		uint32_t handle), (context, handle)) \
	NOTHING(ibv_unimport_pd, (struct ibv_pd *pd), (pd)) \
	\
	POINTER(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *pd, void *addr, size_t length, \
		int access), (pd, addr, length, access)) \
	POINTER(struct ibv_mr *, ibv_reg_mr_iova, (struct ibv_pd *pd, void *addr, \
		size_t length, uint64_t iova, int access), (pd, addr, length, iova, access)) \
	POINTER(struct ibv_mr *, ibv_reg_mr_iova2, (struct ibv_pd *pd, void *addr, \
		size_t length, uint64_t iova, unsigned access), \
		(pd, addr, length, iova, access)) \
	POINTER(struct ibv_mr *, ibv_reg_mr_ex, (struct ibv_pd *pd, \
		struct ibv_mr_init_attr *attr), (pd, attr)) \
	POINTER(struct ibv_mr *, ibv_reg_buf_mr, (struct ibv_pd *pd, struct ibv_buf *buf, \
		void *addr, size_t length, int access), (pd, buf, addr, length, access)) \
	POINTER(struct ibv_mr *, ibv_reg_dmabuf_mr, (struct ibv_pd *pd, uint64_t offset, \
		size_t length, uint64_t iova, int fd, int access), \
		(pd, offset, length, iova, fd, access)) \
	NUMBER(ibv_rereg_mr, (struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, \
		size_t length, int access), (mr, flags, pd, addr, length, access)) \
	NUMBER(ibv_dereg_mr, (struct ibv_mr *mr), (mr)) \
	POINTER(struct ibv_mr *, ibv_import_mr, (struct ibv_pd *pd, uint32_t handle), \
		(pd, handle)) \
	NOTHING(ibv_unimport_mr, (struct ibv_mr *mr), (mr)) \
	POINTER(struct ibv_dm *, ibv_import_dm, (struct ibv_context *context, \
		uint32_t handle), (context, handle)) \
	NOTHING(ibv_unimport_dm, (struct ibv_dm *dm), (dm)) \
	MINUS(ibv_dm_export_dmabuf_fd, (struct ibv_dm *dm), (dm)) \
	POINTER(struct ibv_dmah *, ibv_alloc_dmah, (struct ibv_context *context, \
		struct ibv_dmah_init_attr *attr), (context, attr)) \
	NUMBER(ibv_dealloc_dmah, (struct ibv_dmah *dmah), (dmah)) \
	POINTER(void *, ibv_alloc_buf, (struct ibv_pd *pd, size_t length, \
		struct ibv_buf **buf), (pd, length, buf)) \
	NOTHING(ibv_free_buf, (struct ibv_buf *buf), (buf)) \
	MINUS(ibv_export_buf_dmabuf_fd, (struct ibv_buf *buf), (buf)) \
	\
	POINTER(struct ibv_comp_channel *, ibv_create_comp_channel, \
		(struct ibv_context *context), (context)) \
	NUMBER(ibv_destroy_comp_channel, (struct ibv_comp_channel *channel), (channel)) \
	POINTER(struct ibv_cq *, ibv_create_cq, (struct ibv_context *context, int cqe, \
		void *arg, struct ibv_comp_channel *channel, int vector), \
		(context, cqe, arg, channel, vector)) \
	NUMBER(ibv_resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe)) \
	NUMBER(ibv_destroy_cq, (struct ibv_cq *cq), (cq)) \
	MINUS(ibv_get_cq_event, (struct ibv_comp_channel *channel, struct ibv_cq **cq, \
		void **arg), (channel, cq, arg)) \
	NOTHING(ibv_ack_cq_events, (struct ibv_cq *cq, unsigned count), (cq, count)) \
	\
	POINTER(struct ibv_srq *, ibv_create_srq, (struct ibv_pd *pd, \
		struct ibv_srq_init_attr *attr), (pd, attr)) \
	NUMBER(ibv_modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask), \
		(srq, attr, mask)) \
	NUMBER(ibv_query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr)) \
	NUMBER(ibv_destroy_srq, (struct ibv_srq *srq), (srq)) \
	POINTER(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, \
		struct ibv_qp_init_attr *attr), (pd, attr)) \
	POINTER(struct ibv_qp_ex *, ibv_qp_to_qp_ex, (struct ibv_qp *qp), (qp)) \
	NUMBER(ibv_query_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, \
		struct ibv_qp_init_attr *init), (qp, attr, mask, init)) \
	NUMBER(ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), \
		(qp, attr, mask)) \
	NUMBER(ibv_destroy_qp, (struct ibv_qp *qp), (qp)) \
	ZERO(int, ibv_query_qp_data_in_order, (struct ibv_qp *qp, enum ibv_wr_opcode opcode, \
		uint32_t flags), (qp, opcode, flags)) \
	NUMBER(ibv_set_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece)) \
	NUMBER(ibv_query_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece)) \
	NUMBER(ibv_attach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), \
		(qp, gid, lid)) \
	NUMBER(ibv_detach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), \
		(qp, gid, lid)) \
	\
	POINTER(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *pd, \
		struct ibv_ah_attr *attr), (pd, attr)) \
	NUMBER(ibv_init_ah_from_wc, (struct ibv_context *context, uint8_t port, \
		struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr), \
		(context, port, wc, grh, attr)) \
	POINTER(struct ibv_ah *, ibv_create_ah_from_wc, (struct ibv_pd *pd, \
		struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port), (pd, wc, grh, port)) \
	NUMBER(ibv_destroy_ah, (struct ibv_ah *ah), (ah)) \
	\
	NUMBER(_ibv_query_comp_cntr_caps, (struct ibv_context *context, \
		struct ibv_comp_cntr_caps *caps, size_t size), (context, caps, size)) \
	POINTER(struct ibv_comp_cntr *, ibv_create_comp_cntr, (struct ibv_context *context, \
		struct ibv_comp_cntr_init_attr *attr), (context, attr)) \
	NUMBER(ibv_destroy_comp_cntr, (struct ibv_comp_cntr *cntr), (cntr)) \
	NUMBER(ibv_qp_attach_comp_cntr, (struct ibv_qp *qp, struct ibv_comp_cntr *cntr, \
		struct ibv_qp_attach_comp_cntr_attr *attr), (qp, cntr, attr)) \
	NUMBER(ibv_set_comp_cntr, (struct ibv_comp_cntr *cntr, uint64_t value), (cntr, value)) \
	NUMBER(ibv_set_err_comp_cntr, (struct ibv_comp_cntr *cntr, uint64_t value), \
		(cntr, value)) \
	NUMBER(ibv_inc_comp_cntr, (struct ibv_comp_cntr *cntr, uint64_t amount), \
		(cntr, amount)) \
	NUMBER(ibv_inc_err_comp_cntr, (struct ibv_comp_cntr *cntr, uint64_t amount), \
		(cntr, amount)) \
	NUMBER(ibv_read_comp_cntr, (struct ibv_comp_cntr *cntr, uint64_t *value), \
		(cntr, value)) \
	NUMBER(ibv_read_err_comp_cntr, (struct ibv_comp_cntr *cntr, uint64_t *value), \
		(cntr, value))
/* clang-format on */

#endif
