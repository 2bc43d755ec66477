/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernel's memory, read without a call: by a function of the kernel's that Linux 6.2 has and later ones. */
#ifndef LATLAB_READABLE_H
#define LATLAB_READABLE_H

#include <linux/types.h>
#include <bpf/bpf_core_read.h>

/* Any bytes, 16 at a time, as the kernel's types know them. */
struct in6_addr {
	__u8 bytes[16];
};

struct piece {
	__u64 words[2];
};

/*
 * bpf_rdonly_cast: to read by what it gives takes no call, and where there is no memory 0 is read. The number of the function's type
 * stands in for the word here when this is loaded (agent/src/programs.rs).
 */
static __always_inline const void *readable(const void *at, __u32 type)
{
	const void *readable;

	asm volatile("r1 = %[at]; r2 = %[type]; .8byte 0x4c41544d00002085; %[readable] = r0"
		     : [readable] "=r"(readable)
		     : [at] "r"(at), [type] "r"(type)
		     : "r0", "r1", "r2", "r3", "r4", "r5", "memory");
	return readable;
}

/* The 16 bytes there. */
static __always_inline const struct piece *readable_piece(const void *at)
{
	return readable(at, bpf_core_type_id_kernel(struct in6_addr));
}

#endif
