/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes that prove themselves (a stream per key), and those that nobody may touch (canaries). */
#ifndef TRANSFER_BYTES_H
#define TRANSFER_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* The bytes [offset, offset + length) of the stream of a key. */
void bytes_fill(void *buffer, size_t offset, size_t length, uint64_t key);

/* How many of them are there, from the first one on; length: all. */
size_t bytes_right(const void *buffer, size_t offset, size_t length, uint64_t key);

/* How many canaries are there, from the first one on; length: all. */
size_t canaries_right(const void *buffer, size_t length, uint8_t canary);

#endif
