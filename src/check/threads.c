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

/* --- sections: from ibv_wr_start to ibv_wr_complete, from ibv_start_poll to ibv_end_poll --- */

static const void *this_thread(void)
{
	static __thread char self __attribute__((tls_model("initial-exec")));

	return &self;
}

static const char *begin_of(const struct vb_object *object)
{
	return object->kind == VB_KIND_CQ ? "ibv_start_poll" : "ibv_wr_start";
}

static const char *end_of(const struct vb_object *object)
{
	return object->kind == VB_KIND_CQ ? "ibv_end_poll" : "ibv_wr_complete or ibv_wr_abort";
}

void vb_section_begin(struct vb_object *object)
{
	atomic_store_explicit(&object->holder, this_thread(), memory_order_relaxed);
}

/* Only the thread itself writes its own name there. */
bool vb_section_mine(struct vb_object *object)
{
	return atomic_load_explicit(&object->holder, memory_order_relaxed) == this_thread();
}

void vb_section_report(struct vb_object *object, const char *call, const struct vb_stack *stack)
{
	vb_report(VB_RULE_SECTION,
		  VB_CALLS({ "called by", stack }, { "batch begun by", atomic_load(&object->user) },
			   { "made by", object->made }),
		  "%s was called between %s and %s of the same %s. A NIC's library holds its lock "
		  "there, and waits for itself.",
		  call, begin_of(object), end_of(object), vb_kind_name(object->kind));
}

bool vb_section_end(struct vb_object *object, const char *call, const struct vb_stack *stack)
{
	const void *holder = atomic_exchange(&object->holder, NULL);

	if (holder == this_thread())
		return true;
	vb_report(
		VB_RULE_SECTION, VB_CALLS({ "called by", stack }, { "made by", object->made }),
		holder ? "%s was called by another thread than %s of this %s. A NIC's library "
			 "holds a lock between them, which belongs to one thread."
		       : "%s was called without %s of this %s before it, or after one that failed. "
			 "A NIC's library gives a lock back that it does not hold.",
		call, begin_of(object), vb_kind_name(object->kind));
	return holder;
}

/* --- calls --- */

bool vb_use_begin(struct vb_object *object, const char *call, const struct vb_stack *stack)
{
	if (__builtin_expect(atomic_load_explicit(&object->gone, memory_order_relaxed) != NULL,
			     0)) {
		report_gone(object, call, stack);
		return false;
	}
	if (__builtin_expect(vb_section_mine(object), 0)) {
		vb_section_report(object, call, stack);
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

	if (vb_section_mine(object)) {
		vb_section_report(object, call, stack);
		return;
	}
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
