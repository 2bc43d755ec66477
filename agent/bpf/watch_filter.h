/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A filter of pcap-filter(7), as libpcap compiles it for Ethernet: classic BPF (linux/filter.h). */
#ifndef LATLAB_WATCH_FILTER_H
#define LATLAB_WATCH_FILTER_H

#include <linux/bpf_common.h>
#include "watch_packet.h"

/* wire::spec reads these numbers; the layout of an instruction is that of wire::watch. */
#define MAX_INSTRUCTIONS 128
#define MEMORY_WORDS 16
/* As libpcap has them in place of linux/filter.h. */
#define RETURNS_A 0x10
#define IS_TXA 0x80

struct instruction {
	__u16 code;
	__u8 yes; /* how many are passed over if the answer is yes; if it is no */
	__u8 no;
	__u32 k;
};

/* As the tests, the kernel knows them when it checks the programs: it follows the ways that the filter has, and no others. */
const volatile __u32 filter_length = 0;
const volatile struct instruction filter[MAX_INSTRUCTIONS] = {};

/*
 * Makes the frame of the packet in a head, as it is on a cable: with the tag that the kernel keeps beside it, and where it begins with
 * an IP header, behind an Ethernet header without addresses. By how many bytes it is longer.
 */
static __always_inline __u32 make_frame(struct head *head, bool ethernet, __u16 type)
{
	__u32 more = !ethernet ? ETHERNET_HEADER : head->tag_beside ? VLAN_TAG : 0;

	/* The compiler would copy byte by byte, as it does not know how far the frame is moved. */
#pragma unroll
	for (__u32 n = 0; n < HEAD; n += sizeof(__u64))
		*(__u64 *)&head->frame[more + n] = *(const __u64 *)&head->bytes[n];
	if (!ethernet) {
		__builtin_memset(head->frame, 0, MACS);
		*(__be16 *)&head->frame[MACS] = bpf_htons(type);
	} else if (head->tag_beside) {
		__builtin_memcpy(head->frame, head->bytes, MACS);
		*(__be16 *)&head->frame[MACS] = bpf_htons(TYPE_8021Q);
		*(__be16 *)&head->frame[MACS + 2] = bpf_htons(head->found.tci);
	}
	return more;
}

/* The number at that place of the frame, of which so many bytes are known; whether it is among them. */
static __always_inline bool read_number(const struct head *head, __u64 at, __u32 size, __u32 known, __u32 *number)
{
	__u32 width = size == BPF_W ? 4 : size == BPF_H ? 2 : 1;
	const __u8 *bytes;

	if (at > known || width > known - at)
		return false;
	/* As it is; the compiler would leave this out, and the kernel could not tell. */
	barrier_var(at);
	bytes = &head->frame[at & 255];
	if (size == BPF_W)
		*number = bpf_ntohl(*(const __be32 *)bytes);
	else if (size == BPF_H)
		*number = bpf_ntohs(*(const __be16 *)bytes);
	else
		*number = *bytes;
	return true;
}

/* A op operand; whether there is a result. */
static __always_inline bool compute(__u32 operation, __u32 operand, __u32 *a)
{
	switch (operation) {
	case BPF_ADD:
		*a += operand;
		break;
	case BPF_SUB:
		*a -= operand;
		break;
	case BPF_MUL:
		*a *= operand;
		break;
	case BPF_DIV:
		if (!operand)
			return false;
		*a /= operand;
		break;
	case BPF_MOD:
		if (!operand)
			return false;
		*a %= operand;
		break;
	case BPF_OR:
		*a |= operand;
		break;
	case BPF_AND:
		*a &= operand;
		break;
	case BPF_XOR:
		*a ^= operand;
		break;
	case BPF_LSH:
		*a = operand < 32 ? *a << operand : 0;
		break;
	case BPF_RSH:
		*a = operand < 32 ? *a >> operand : 0;
		break;
	case BPF_NEG:
		*a = -*a;
		break;
	}
	return true;
}

static __always_inline bool compares(__u32 operation, __u32 operand, __u32 a)
{
	switch (operation) {
	case BPF_JEQ:
		return a == operand;
	case BPF_JGT:
		return a > operand;
	case BPF_JGE:
		return a >= operand;
	case BPF_JSET:
		return a & operand;
	}
	return true;
}

/*
 * Whether the filter accepts what is in the head of a program: so many bytes of a packet of that length, which begins with an Ethernet
 * header or not, and is of that EtherType for the kernel. A function of its own, as is_wanted.
 */
__attribute__((noinline)) int passes(__u32 program, __u32 known, __u32 length, __u32 ethernet, __u32 type)
{
	struct head *head = bpf_map_lookup_elem(&heads, &program);
	__u32 memory[MEMORY_WORDS] = {}, a = 0, x = 0, next = 0, more, *into;

	if (!head)
		return 0;
	more = make_frame(head, ethernet, type);
	known += more;
	length += more;
	/* It jumps forward only. */
	while (next < filter_length) {
		const volatile struct instruction *one = &filter[next % MAX_INSTRUCTIONS];
		__u32 code = one->code, k = one->k, operand = BPF_SRC(code) == BPF_X ? x : k;

		next++;
		switch (BPF_CLASS(code)) {
		case BPF_LD:
		case BPF_LDX:
			into = BPF_CLASS(code) == BPF_LD ? &a : &x;
			if (BPF_MODE(code) == BPF_IMM)
				*into = k;
			else if (BPF_MODE(code) == BPF_LEN)
				*into = length;
			else if (BPF_MODE(code) == BPF_MEM)
				*into = memory[k % MEMORY_WORDS];
			else if (!read_number(head, BPF_MODE(code) == BPF_IND ? (__u64)x + k : k, BPF_SIZE(code), known, into))
				return 0;
			/* The length of an IP header. */
			if (BPF_MODE(code) == BPF_MSH)
				*into = (*into & 0x0f) * 4;
			break;
		case BPF_ST:
			memory[k % MEMORY_WORDS] = a;
			break;
		case BPF_STX:
			memory[k % MEMORY_WORDS] = x;
			break;
		case BPF_ALU:
			if (!compute(BPF_OP(code), operand, &a))
				return 0;
			break;
		case BPF_JMP:
			if (BPF_OP(code) == BPF_JA)
				next += k;
			else
				next += compares(BPF_OP(code), operand, a) ? one->yes : one->no;
			break;
		case BPF_RET:
			return (code & RETURNS_A ? a : k) != 0;
		case BPF_MISC:
			if (code & IS_TXA)
				a = x;
			else
				x = a;
			break;
		}
	}
	return 0;
}

#endif
