/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions in dma-bufs, which /dev/udmabuf makes of ordinary memory. */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/udmabuf.h>

#include "ct.h"

enum { PAGES = 4, SIZE = PAGES * 4096 };

struct buffer {
	int memory, fd;
	uint8_t *bytes; /* as the program sees it */
};

static void make(struct buffer *buffer)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = SIZE };
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);

	if (device < 0)
		ct_skip("/dev/udmabuf: %s", strerror(errno));
	buffer->memory = memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CT_EQ(ftruncate(buffer->memory, SIZE), 0);
	CT_EQ(fcntl(buffer->memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	create.memfd = (uint32_t)buffer->memory;
	buffer->fd = ioctl(device, UDMABUF_CREATE, &create);
	CT_TRUE(buffer->fd >= 0);
	buffer->bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->memory, 0);
	CT_TRUE(buffer->bytes != MAP_FAILED);
	close(device);
}

static void drop(struct buffer *buffer)
{
	munmap(buffer->bytes, SIZE);
	close(buffer->memory);
	close(buffer->fd);
}

/* Programs ask with a bad descriptor whether there are dma-bufs at all. */
static void probing(struct ct *t)
{
	bool any = !access("/dev/udmabuf", F_OK);

	CT_NULL(ibv_reg_dmabuf_mr(ct_object(t->near, t->near->pd), 0, 4096, 0, -1, CT_ACCESS_ALL),
		any ? EBADF : EOPNOTSUPP);
}

static void registering(struct ct *t)
{
	struct ibv_pd *pd = ct_object(t->near, t->near->pd);
	struct buffer buffer;
	struct ibv_mr *mr;

	make(&buffer);
	CT_NULL(ibv_reg_dmabuf_mr(pd, 0, SIZE, 0, buffer.memory, CT_ACCESS_ALL), EINVAL);
	CT_NULL(ibv_reg_dmabuf_mr(pd, 0, 0, 0, buffer.fd, CT_ACCESS_ALL), EINVAL);
	CT_NULL(ibv_reg_dmabuf_mr(pd, 0, SIZE + 1, 0, buffer.fd, CT_ACCESS_ALL), EINVAL);
	CT_NULL(ibv_reg_dmabuf_mr(pd, SIZE, 1, 0, buffer.fd, CT_ACCESS_ALL), EINVAL);
	CT_NULL(ibv_reg_dmabuf_mr(pd, 8, 64, 16, buffer.fd, CT_ACCESS_ALL), EINVAL);
	CT_NULL(ibv_reg_dmabuf_mr(pd, 0, SIZE, 0, buffer.fd, CT_ACCESS_ALL | IBV_ACCESS_MW_BIND),
		EINVAL);
	CT_NULL(ibv_reg_dmabuf_mr(pd, 0, SIZE, 0, buffer.fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	mr = ibv_reg_dmabuf_mr(pd, 8, 64, 4096 + 8, buffer.fd,
			       CT_ACCESS_ALL | IBV_ACCESS_RELAXED_ORDERING);
	CT_TRUE(mr && !mr->addr && mr->length == 64);
	CT_EQ(ibv_dereg_mr(mr), 0);
	drop(&buffer);
}

/* Both ways, and the region outlives the descriptor. */
static void traffic(struct ct *t)
{
	static const uint64_t IOVA = 0x70000100;
	struct ibv_sge far = ct_sge(t->far, 0, 8000), own;
	struct buffer buffer;
	struct ibv_mr *mr;
	struct ct_link l, in;
	struct ibv_send_wr wr;

	make(&buffer);
	mr = ibv_reg_dmabuf_mr(ct_object(t->near, t->near->pd), 0x100, SIZE - 0x100, IOVA,
			       buffer.fd, CT_ACCESS_ALL);
	CT_TRUE(mr != NULL);
	CT_EQ(close(buffer.fd), 0);
	buffer.fd = -1;
	ct_link_open(t, &l, NULL);
	in = ct_reverse(&l);
	ct_fill(t->far, 0, 8000, 4);
	wr = ct_wr(&in, IBV_WR_RDMA_WRITE, 1, &far, 1);
	ct_aim(&wr, IOVA, mr->rkey);
	ct_post(&in.a, &wr);
	ct_sent(&in, 1, IBV_WC_SUCCESS);
	CT_EQ(memcmp(buffer.bytes + 0x100, &(uint64_t){ ct_peek(t->far, 0) }, 8), 0);
	CT_EQ(memcmp(buffer.bytes + 0x100 + 7992, &(uint64_t){ ct_peek(t->far, 7992) }, 8), 0);
	own = (struct ibv_sge){ IOVA, 8000, mr->lkey };
	ct_fill(t->far, 0, 8000, 5);
	ct_recv(&l.b, 3, 0, 8000);
	wr = ct_wr(&l, IBV_WR_SEND, 2, &own, 1);
	ct_post(&l.a, &wr);
	ct_sent(&l, 2, IBV_WC_SUCCESS);
	ct_got(&l, 3, IBV_WC_SUCCESS);
	ct_same(t->far, 0, 8000, 4);
	CT_EQ(ibv_dereg_mr(mr), 0);
	drop(&buffer);
}

const struct ct_case ct_mr_dmabuf_cases[] = {
	{ "a machine without dma-bufs says EOPNOTSUPP, whatever it is asked", probing, CT_SOLO },
	{ "a region in a dma-buf is inside of it, and has no other rights", registering, CT_SOLO },
	{ "a dma-buf is written by peers, and sent", traffic, CT_RC },
	{ 0 },
};
