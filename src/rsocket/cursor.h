/* SPDX-License-Identifier: BSD-2-Clause */
/* Walking through the pieces of an iovec. */
#ifndef VB_RSOCKET_CURSOR_H
#define VB_RSOCKET_CURSOR_H

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/uio.h>

struct vb_cursor {
	const struct iovec *iov; /* the next piece */
	size_t offset;           /* in the next piece */
	size_t left;             /* bytes, over all pieces */
};

static inline int vb_cursor_init(struct vb_cursor *cursor, const struct iovec *iov, int count)
{
	*cursor = (struct vb_cursor){ .iov = iov };
	if (count < 0 || count > IOV_MAX)
		return -EMSGSIZE;
	for (int i = 0; i < count; i++) {
		if (iov[i].iov_len > SSIZE_MAX - cursor->left)
			return -EINVAL;
		cursor->left += iov[i].iov_len;
	}
	return 0;
}

/* Takes the next piece, of at most *size bytes, and sets *size to its length. */
static inline void *vb_cursor_next(struct vb_cursor *cursor, size_t *size)
{
	void *bytes;

	while (cursor->offset == cursor->iov->iov_len) {
		cursor->iov++;
		cursor->offset = 0;
	}
	if (*size > cursor->iov->iov_len - cursor->offset)
		*size = cursor->iov->iov_len - cursor->offset;
	bytes = (char *)cursor->iov->iov_base + cursor->offset;
	cursor->offset += *size;
	cursor->left -= *size;
	return bytes;
}

/* read, write and skip: size is at most cursor->left. */
static inline void vb_cursor_read(struct vb_cursor *from, void *to, size_t size)
{
	for (size_t done = 0, now; done < size; done += now) {
		const void *bytes;

		now = size - done;
		bytes = vb_cursor_next(from, &now);
		memcpy((char *)to + done, bytes, now);
	}
}

static inline void vb_cursor_write(struct vb_cursor *to, const void *from, size_t size)
{
	for (size_t done = 0, now; done < size; done += now) {
		void *bytes;

		now = size - done;
		bytes = vb_cursor_next(to, &now);
		memcpy(bytes, (const char *)from + done, now);
	}
}

static inline void vb_cursor_skip(struct vb_cursor *cursor, size_t size)
{
	for (size_t done = 0, now; done < size; done += now) {
		now = size - done;
		vb_cursor_next(cursor, &now);
	}
}

#endif
