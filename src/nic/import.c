/* SPDX-License-Identifier: BSD-2-Clause */
#include "nic/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/message.h"
#include "nic/mr.h"

enum {
	VERSION = 2,
	LOCK_LOST_NS = 1000000000, /* no process holds the lock so long: its holder has died */
	LOCK_LOOK_NS = 20000,
	HEAD_BYTES = 64 << 10,
	RECORDS_BYTES = VB_EXPORT_MRS * sizeof(struct vb_export_mr),
	FILE_BYTES = HEAD_BYTES + RECORDS_BYTES + VB_DM_BYTES_MAX, /* mostly holes */
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
};
static_assert(sizeof(struct vb_export_head) <= HEAD_BYTES, "the head comes first");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_list exports = VB_LIST_INIT(exports);

void vb_export_lock(void)
{
	pthread_mutex_lock(&lock);
}

void vb_export_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* The child has none of the parent's regions. */
static void exports_in_child(void)
{
	vb_list_for(export, &exports, struct vb_export, node)
		memset(export->dm_users, 0, sizeof(export->dm_users));
	vb_export_unlock();
}

/* A child that was forked while another thread held the lock would wait for ever. */
static const struct vb_fork_handlers at_fork = { vb_export_lock, vb_export_unlock,
						 exports_in_child };

/*
 * One word, and no mutex of the C library: a mutex has pointers inside, which other processes could
 * write. Each holder has a random number, so that waiters notice a holder that does not change. A
 * dead holder may leave a record half written, which was not given out yet.
 */
void vb_export_lock_file(struct vb_export *export)
{
	_Atomic uint32_t *word = &export->head->lock;
	uint32_t number = (uint32_t)vb_random64() | 1, seen = 0, holder = 0;
	uint64_t since_ns = 0;

	while (!atomic_compare_exchange_strong(word, &holder, number)) {
		if (holder != seen) {
			seen = holder;
			since_ns = vb_now_ns();
		}
		/* The next try replaces the number, if it is still the same. */
		if (vb_now_ns() - since_ns > LOCK_LOST_NS)
			continue;
		vb_sleep_ns(LOCK_LOOK_NS);
		holder = 0;
	}
	export->lock_number = number;
}

void vb_export_unlock_file(struct vb_export *export)
{
	uint32_t number = export->lock_number;

	atomic_compare_exchange_strong(&export->head->lock, &number, 0);
}

/* --- files --- */

static int map_file(int fd, struct vb_export **out)
{
	struct vb_export *export = calloc(1, sizeof(*export));
	uint8_t *at;

	if (!export)
		return -ENOMEM;
	at = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		free(export);
		return -ENOMEM;
	}
	madvise(at, FILE_BYTES, MADV_DONTDUMP);
	export->refs = 1;
	export->head = (void *)at;
	export->records = (void *)(at + HEAD_BYTES);
	export->memory = at + HEAD_BYTES + RECORDS_BYTES;
	*out = export;
	return 0;
}

static void export_add(struct vb_export *export)
{
	vb_fork_register(VB_FORK_EXPORTS, &at_fork);
	vb_export_lock();
	vb_list_append(&exports, &export->node);
	vb_export_unlock();
}

static void fill_head(struct vb_export_head *head, const struct vb_device *dev)
{
	head->version = VERSION;
	head->infiniband = dev->infiniband;
	head->guid = dev->guid;
	head->id = vb_random64();
	head->magic = VB_EXPORT_MAGIC;
}

int vb_export_create(const struct vb_device *dev, struct vb_export **out, int *fd)
{
	int err;

	*fd = vb_fd_high(memfd_create("verbena-device", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (*fd < 0)
		return -errno;
	err = vb_truncate_quietly(*fd, FILE_BYTES);
	if (!err && fcntl(*fd, F_ADD_SEALS, SEALS))
		err = -errno;
	if (!err)
		err = map_file(*fd, out);
	if (err) {
		vb_fd_close(fd);
		return err;
	}
	fill_head((*out)->head, dev);
	export_add(*out);
	return 0;
}

static struct vb_device *device_of(const struct vb_export_head *head)
{
	struct vb_device *const *table;
	const int count = vb_device_table(&table);

	for (int i = 0; i < count; i++)
		if (table[i]->guid == head->guid && table[i]->infiniband == head->infiniband)
			return table[i];
	return NULL;
}

/* The file must be sealed, so that no access to the mapping can fault. */
bool vb_export_is_file(int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &st) &&
	       st.st_size == FILE_BYTES;
}

static int check_file(int fd)
{
	int err;

	if (vb_export_is_file(fd))
		return 0;
	err = fcntl(fd, F_GETFD) < 0 ? -EBADF : -EINVAL;
	vb_explain("ibv_import_device: descriptor %d is %s", fd,
		   err == -EBADF ? "not open" : "not the cmd_fd of a context");
	return err;
}

static struct vb_export *find_export(uint64_t id)
{
	struct vb_export *found = NULL;

	vb_export_lock();
	vb_list_for(export, &exports, struct vb_export, node)
		if (export->head->id == id) {
			export->refs++;
			found = export;
			break;
		}
	vb_export_unlock();
	return found;
}

int vb_export_open(int fd, struct vb_export **out, struct vb_device **dev)
{
	struct vb_export *export, *known;
	int err = check_file(fd);

	if (!err)
		err = map_file(fd, &export);
	if (err)
		return err;
	if (export->head->magic != VB_EXPORT_MAGIC || export->head->version != VERSION) {
		vb_explain("ibv_import_device: descriptor %d is not the cmd_fd of a context, or "
			   "one of another release of the library",
			   fd);
		err = -EINVAL;
	}
	*dev = err ? NULL : device_of(export->head);
	if (!err && !*dev) {
		vb_explain(
			"ibv_import_device: this process has no such device; VERBENA_DEVICES and "
			"the network namespace must be those of the exporter");
		err = -ENODEV;
	}
	known = err ? NULL : find_export(export->head->id);
	if (err || known) {
		munmap(export->head, FILE_BYTES);
		free(export);
	} else {
		export_add(export);
	}
	*out = known ? known : export;
	return err;
}

struct vb_export *vb_export_get(struct vb_export *export)
{
	if (!export)
		return NULL;
	vb_export_lock();
	export->refs++;
	vb_export_unlock();
	return export;
}

void vb_export_put(struct vb_export *export)
{
	bool last;

	if (!export)
		return;
	vb_export_lock();
	last = !--export->refs;
	if (last)
		vb_list_remove(&export->node);
	vb_export_unlock();
	if (!last)
		return;
	munmap(export->head, FILE_BYTES);
	free(export->objects);
	free(export);
}

/* --- records --- */

bool vb_export_keep_objects(struct vb_export *export)
{
	if (!export->objects)
		export->objects = calloc(1, sizeof(*export->objects));
	return export->objects;
}

/* Under both locks. */
static uint32_t pd_record_take(struct vb_export *export, struct vb_pd *pd)
{
	struct vb_export_head *head = export->head;

	for (uint32_t n = 0; n < VB_EXPORT_PDS && vb_export_keep_objects(export); n++) {
		uint32_t at = (head->pd_hint + n) % VB_EXPORT_PDS;

		if (atomic_load(&head->pds[at].pid))
			continue;
		head->pds[at].id = pd->id;
		atomic_store(&head->pds[at].pid, (uint32_t)getpid());
		head->pd_hint = at + 1;
		export->objects->pds[at] = pd;
		return at;
	}
	return VB_HANDLE_NONE + pd->id % VB_HANDLE_NONE;
}

uint32_t vb_export_pd_add(struct vb_export *export, struct vb_pd *pd)
{
	uint32_t handle;

	if (!export)
		return VB_HANDLE_NONE + pd->id % VB_HANDLE_NONE;
	vb_export_lock();
	vb_export_lock_file(export);
	handle = pd_record_take(export, pd);
	vb_export_unlock_file(export);
	vb_export_unlock();
	return handle;
}

void vb_export_pd_remove(struct vb_export *export, uint32_t handle)
{
	if (!export || handle >= VB_EXPORT_PDS)
		return;
	vb_export_lock();
	vb_export_lock_file(export);
	atomic_store(&export->head->pds[handle].pid, 0);
	vb_export_unlock_file(export);
	if (export->objects)
		export->objects->pds[handle] = NULL;
	vb_export_unlock();
}

static void fill_record(struct vb_export *export, struct vb_export_mr *record,
			const struct vb_mr *mr)
{
	record->pd = mr->pd->ibv.handle;
	record->lkey = mr->ibv.lkey;
	record->rkey = mr->ibv.rkey;
	record->access = mr->access;
	record->iova = mr->iova;
	record->length = mr->length;
	record->dm = mr->dm;
	record->addr = mr->dm ? mr->addr - (uintptr_t)(export->memory) : mr->addr;
}

/* Under both locks. */
static uint32_t mr_record_take(struct vb_export *export, struct vb_mr *mr)
{
	struct vb_export_head *head = export->head;

	if (head->mr_count == VB_EXPORT_MRS || !vb_export_keep_objects(export))
		return VB_HANDLE_NONE + mr->index;
	for (uint32_t n = 0; n < VB_EXPORT_MRS; n++) {
		uint32_t at = (head->mr_hint + n) % VB_EXPORT_MRS;

		if (atomic_load(&export->records[at].pid))
			continue;
		fill_record(export, &export->records[at], mr);
		atomic_store(&export->records[at].pid, (uint32_t)getpid());
		head->mr_hint = at + 1;
		head->mr_count++;
		export->objects->mrs[at] = mr;
		return at;
	}
	return VB_HANDLE_NONE + mr->index;
}

uint32_t vb_export_mr_add(struct vb_export *export, struct vb_mr *mr)
{
	uint32_t handle;

	if (!export || mr->null || mr->mapping)
		return VB_HANDLE_NONE + mr->index;
	vb_export_lock();
	vb_export_lock_file(export);
	handle = mr_record_take(export, mr);
	vb_export_unlock_file(export);
	vb_export_unlock();
	return handle;
}

void vb_export_mr_update(struct vb_export *export, const struct vb_mr *mr)
{
	if (!export || mr->foreign || mr->ibv.handle >= VB_EXPORT_MRS)
		return;
	vb_export_lock_file(export);
	fill_record(export, &export->records[mr->ibv.handle], mr);
	vb_export_unlock_file(export);
}

void vb_export_mr_remove(struct vb_export *export, uint32_t handle)
{
	if (!export || handle >= VB_EXPORT_MRS)
		return;
	vb_export_lock();
	vb_export_lock_file(export);
	atomic_store(&export->records[handle].pid, 0);
	export->head->mr_count--;
	if (handle < export->head->mr_hint % VB_EXPORT_MRS)
		export->head->mr_hint = handle; /* low handles first: the file stays small */
	vb_export_unlock_file(export);
	if (export->objects)
		export->objects->mrs[handle] = NULL;
	vb_export_unlock();
}

struct vb_export_mr vb_export_mr_record(struct vb_export *export, uint32_t handle)
{
	struct vb_export_mr record;

	vb_export_lock_file(export);
	record = export->records[handle];
	vb_export_unlock_file(export);
	return record;
}

void vb_export_mr_forget(struct vb_export *export, const struct vb_mr *mr)
{
	if (!export || mr->ibv.handle >= VB_EXPORT_MRS)
		return;
	vb_export_lock();
	if (vb_export_mr_at(export, mr->ibv.handle) == mr)
		export->objects->mrs[mr->ibv.handle] = NULL;
	vb_export_unlock();
}
