/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which packets a sample has: by a digest, and so the same ones at every point. */
#ifndef LATLAB_WATCH_SAMPLE_H
#define LATLAB_WATCH_SAMPLE_H

#include "watch_tests.h"

/* Of packets whose digest is below this a record is made; 0: of all. */
const volatile __u32 sampled_below = 0;

#define DIGEST_BYTES 64
#define GOLDEN 0x9e3779b97f4a7c15ULL /* 2^64 by the golden ratio */

#define PRP_TRAILER 6
#define PRP_SUFFIX 0x88fb

/* Eight bytes of a packet that ends there, of which what lies behind its end counts as 0. */
static __always_inline __u64 long_before(const struct head *head, __u32 at, __u32 end)
{
	__u64 bytes;

	if (at >= end)
		return 0;
	bytes = *(const __u64 *)&head->bytes[at];
	return end - at < 8 ? bytes & ((1ULL << 8 * (end - at)) - 1) : bytes;
}

/* The mask of so many bytes of eight, from one of them on. */
#define BYTES(from, count) bpf_cpu_to_be64(((1ULL << 8 * (count)) - 1) << 8 * (8 - (from) - (count)))

/*
 * Whether the packet in the head of a program is one of the sample: by a digest of its first bytes behind IP, or behind its
 * tags without IP. Left out is what changes on a path: addresses, ports, checksums, padding, and the trailer of PRP. So it is the
 * same at every point, on every kernel.
 */
__attribute__((noinline)) int is_sampled(__u32 program, __u32 bytes, __u32 length)
{
	const struct head *head = bpf_map_lookup_elem(&heads, &program);
	__u64 digest = 0, left_out = 0;
	__u32 at, end;
	__u8 protocol;

	if (!head)
		return 0;
	at = head->behind_ip & 127;
	end = head->end ? head->end : length;
	if (!head->end && end <= bytes && end <= SAMPLED_HEAD && end >= at + PRP_TRAILER &&
	    short_at(head, (end - 2) & 255) == PRP_SUFFIX)
		end -= PRP_TRAILER;
	if (end > bytes)
		end = bytes;
	protocol = head->found.protocol;
	if (protocol == PROTOCOL_TCP || protocol == PROTOCOL_SCTP)
		left_out = BYTES(0, 4);
	else if (protocol == PROTOCOL_UDP || protocol == PROTOCOL_UDPLITE)
		left_out = ~0ULL;
	else if (protocol == PROTOCOL_ICMP || protocol == PROTOCOL_ICMP6)
		left_out = BYTES(2, 2);
#pragma unroll
	for (__u32 n = 0; n < DIGEST_BYTES / 8; n++) {
		__u64 bytes_there = long_before(head, at + 8 * n, end);

		if (n == 0)
			bytes_there &= ~left_out;
		if (n == 1 && protocol == PROTOCOL_SCTP)
			bytes_there &= ~BYTES(0, 4);
		if (n == 2 && protocol == PROTOCOL_TCP)
			bytes_there &= ~BYTES(0, 2);
		digest = (digest ^ bytes_there) * GOLDEN;
		digest ^= digest >> 32;
	}
	digest *= GOLDEN;
	return (__u32)(digest >> 32) < sampled_below;
}

/* Whether what the tests accepted is one of the sample. */
static __always_inline bool in_sample(struct head *head, struct packet *packet, __u32 program, __u32 bytes)
{
	if (!sampled_below)
		return true;
	/* Behind many headers the digest takes more than was read. */
	if (head->behind_ip > HEAD - DIGEST_BYTES - PRP_TRAILER)
		bytes = read_packet(head, packet, SAMPLED_HEAD);
	return is_sampled(program, bytes, packet->length);
}

#endif
