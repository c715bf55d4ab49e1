/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads that are inside a call with an object, and objects that are gone. */
#include "check/check.h"
#include "check/report.h"

static void report_gone(struct vb_object *object, const char *call, const struct vb_stack *stack)
{
	vb_report(
		VB_RULE_DESTROYED,
		VB_CALLS({ "used by", stack }, { "destroyed by", atomic_load(&object->gone) },
			 { "made by", object->made }),
		"%s was called with a %s that had been destroyed. On a NIC that is a read of freed "
		"memory.",
		call, vb_kind_name(object->kind));
}

/* The program promised that one thread at a time uses the object. */
static void begin_alone(struct vb_object *object, const char *call, const struct vb_stack *stack)
{
	if (!pthread_mutex_trylock(&object->order))
		return;
	vb_report(VB_RULE_THREADS,
		  VB_CALLS({ "this thread", stack },
			   { "while another was in", atomic_load(&object->user) },
			   { "made by", object->made }),
		  "%s was called while another thread used the same %s, which was made for one "
		  "thread at a time.",
		  call, vb_kind_name(object->kind));
	pthread_mutex_lock(&object->order);
}

bool vb_use_begin(struct vb_object *object, const char *call, const struct vb_stack *stack)
{
	if (__builtin_expect(atomic_load_explicit(&object->gone, memory_order_relaxed) != NULL,
			     0)) {
		report_gone(object, call, stack);
		return false;
	}
	if (__builtin_expect(object->alone, 0))
		begin_alone(object, call, stack);
	else
		pthread_mutex_lock(&object->order);
	atomic_store_explicit(&object->user, stack, memory_order_relaxed);
	return true;
}

void vb_check_used(struct vb_object *object, const char *call, const struct vb_stack *stack)
{
	const struct vb_stack *user = atomic_load(&object->user);

	if (user)
		vb_report(VB_RULE_THREADS,
			  VB_CALLS({ "destroyed by", stack }, { "while a thread was in", user },
				   { "made by", object->made }),
			  "%s was called while a thread used the %s: on a NIC it uses freed "
			  "memory.",
			  call, vb_kind_name(object->kind));
}

void vb_use_end(struct vb_object *object)
{
	atomic_store_explicit(&object->user, NULL, memory_order_relaxed);
	pthread_mutex_unlock(&object->order);
}
