/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects of processes as NETLINK_RDMA shows them: their kinds and the attributes of each. */
#ifndef VB_SYSFS_NL_OBJECT_H
#define VB_SYSFS_NL_OBJECT_H

#include "engine/attach/ask.h"
#include "sysfs/nl_answer.h"

/* An object and its process. Contexts have no record of their own. */
struct vb_nl_object {
	const struct vb_asked_process *process;
	const struct vb_describe_record *record; /* NULL: a context */
};

struct vb_nl_field;

struct vb_nl_kind {
	unsigned command;
	enum vb_describe_kind kind; /* 0: contexts */
	uint16_t table, entry, id;  /* attributes */
	const char *name;           /* in the summary */
	const struct vb_nl_field *fields;
	unsigned field_count;
	/* Attributes behind the fields; NULL: none. */
	void (*more)(struct vb_nl_out *out, const struct vb_nl_object *object);
};

/* In the order of the kernel's summary. */
extern const struct vb_nl_kind vb_nl_kinds[];
extern const unsigned vb_nl_kind_count;

/* NULL: the command is about no kind of object. */
const struct vb_nl_kind *vb_nl_kind_of(const struct vb_nl_request *request);
/* All attributes of an object of the kind. */
void vb_nl_put_object(struct vb_nl_out *out, const struct vb_nl_kind *kind,
		      const struct vb_nl_object *object, const struct vb_nl_request *request);

#endif
