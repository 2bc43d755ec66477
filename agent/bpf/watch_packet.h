/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A packet as the programs of `watch` have it: where its bytes lie, and its first ones. */
#ifndef LATLAB_WATCH_PACKET_H
#define LATLAB_WATCH_PACKET_H

#include "kernel.h"
#include "readable.h"

/* As in the packet; IPv4 addresses are the first word. */
struct address {
	__u32 words[4];
};

/* What tests look at of a packet. With its place the key of `others`: it has no gaps. */
struct headers {
	struct address source;
	struct address destination;
	__u16 type;
	__u16 tci; /* of the outermost tag */
	__u16 source_port;
	__u16 destination_port;
	__u8 protocol;
	__u8 dscp;
	__u8 tagged;
	__u8 has_ports;
};

/* The kernel has what is called here, bpf_dynptr_from_skb for these programs (6.12), and what readable.h has. */
const volatile __u32 reads_pages = 0;

/* Headers mostly end within the first of these bytes of a packet. */
#define FIRST 64
/* The first bytes of the packet that is looked at: as many as headers may have, and room behind them for reads that the
 * kernel cannot know to end before. What is found in them. In a map, and not on the stack, the kernel does not follow each
 * combination of values when it checks the programs. */
#define HEAD 128
/* The same, and as much behind them as a digest is made of. */
#define SAMPLED_HEAD 192

struct head {
	__u8 bytes[SAMPLED_HEAD + 64];
	__u8 frame[256 + 8]; /* for a filter: the first HEAD bytes as on a cable */
	struct headers found;
	__u32 cut; /* a header ends behind the bytes that are there */
	__u32 tag_beside; /* the tag found is one that the kernel keeps beside the packet */
	__u32 behind_tags; /* where what has the EtherType begins */
	__u32 behind_ip; /* where what IP carries begins; without IP the same as behind_tags */
	__u32 end; /* where IP says that the packet ends: padding may follow; 0: it does not say */
};

/* One for each BPF program, as one may interrupt the other, or, at a function of the kernel, be preempted: of what comes in, of what
 * leaves, of what is dropped, of what is sent by a socket, of what comes to one, of what is next there when a receive call is done,
 * and of the datagrams and the other packets that receive calls take. */
#define OF_DROPS 2
#define OF_SENT 3
#define OF_QUEUED 4
#define OF_RECEIVED 5
#define OF_DATAGRAMS 6
#define OF_PACKETS 7
#define OF_READ 8
#define HEADS 9

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HEADS);
	__type(key, __u32);
	__type(value, struct head);
} heads SEC(".maps");

struct sk_buff___tagged_by_bit {
	__u8 vlan_present : 1;
} KERNEL;

/* The tag that the kernel keeps beside the packet. From Linux 6.2 on one is there if both its halves together are not 0. */
static __always_inline bool tag_beside(const struct sk_buff *skb)
{
	const struct sk_buff___tagged_by_bit *older = (const void *)skb;

	if (bpf_core_field_exists(older->vlan_present))
		return BPF_CORE_READ_BITFIELD(older, vlan_present);
	return skb->vlan_proto || skb->vlan_tci;
}

/* The same of a packet that the kernel does not vouch for. */
static __always_inline bool tag_beside_found(const struct sk_buff *skb)
{
	const struct sk_buff___tagged_by_bit *older = (const void *)skb;

	if (bpf_core_field_exists(older->vlan_present))
		return BPF_CORE_READ_BITFIELD_PROBED(older, vlan_present);
	return BPF_CORE_READ(skb, vlan_proto) || BPF_CORE_READ(skb, vlan_tci);
}

/*
 * A packet: its first byte, of its Ethernet header where it has one; how many bytes lie there in one piece, and how many it
 * has in all. `shift`: bytes before what the kernel takes for its beginning. `pages`: reads the others, which lie in pages.
 * `protocol`, `tagged` and `tci`: what the kernel says of it beside it.
 */
struct packet {
	const unsigned char *at;
	__u32 linear;
	__u32 length;
	__u32 shift;
	__be16 protocol;
	__u16 tci;
	bool tagged;
	bool has_pages;
	struct bpf_dynptr pages;
};

/* bpf_dynptr_from_skb, as in readable.h. */
static __always_inline long pages_of(const struct sk_buff *skb, struct bpf_dynptr *pages)
{
	long failed;

	asm volatile("r1 = %[skb]; r2 = 0; r3 = %[pages]; .8byte 0x4c41544c00002085; %[failed] = r0"
		     : [failed] "=r"(failed)
		     : [skb] "r"(skb), [pages] "r"(pages)
		     : "r0", "r1", "r2", "r3", "r4", "r5", "memory");
	return failed;
}

/* The first bytes there, HEAD or `most`, whichever is less, rounded up to 16. */
static __always_inline void copy_head(void *to, const unsigned char *at, __u32 most)
{
	struct piece *pieces = to;

#pragma unroll
	for (__u32 n = 0; n < HEAD / sizeof(*pieces); n++) {
		const struct piece *piece;

		if (n * sizeof(*pieces) >= most)
			break;
		piece = readable_piece(at + n * sizeof(*pieces));
		pieces[n].words[0] = piece->words[0];
		pieces[n].words[1] = piece->words[1];
	}
}

/* Up to `most` of its first bytes; how many. */
static __always_inline __u32 read_packet(void *to, struct packet *packet, __u32 most)
{
	__u32 bytes = packet->length < most ? packet->length : most;

	if (packet->has_pages && bytes > packet->linear && bytes >= ETHERNET_HEADER) {
		if (!packet->shift)
			return bpf_dynptr_read(to, bytes, &packet->pages, 0, 0) ? 0 : bytes;
		if (bpf_probe_read_kernel(to, ETHERNET_HEADER, packet->at))
			return 0;
		return bpf_dynptr_read(to + ETHERNET_HEADER, bytes - ETHERNET_HEADER, &packet->pages, 0, 0) ? 0 : bytes;
	}
	if (bytes > packet->linear)
		bytes = packet->linear;
	/* The kernel's own data lie behind a packet's: more than HEAD bytes of them. */
	if (reads_pages && most <= HEAD && most % sizeof(struct piece) == 0) {
		copy_head(to, packet->at, most);
		return bytes;
	}
	/* The compiler knows that it is no more; kernels of before 6.2 have to be told, or refuse the read. */
	asm volatile("" : "+r"(bytes));
	if (bytes > most)
		return 0;
	return bpf_probe_read_kernel(to, bytes, packet->at) ? 0 : bytes;
}

/* The machines that this is for read at any address: the compiler need not put together what it reads byte by byte. */
static __always_inline __u16 short_at(const struct head *head, __u32 at)
{
	return bpf_ntohs(*(const __u16 *)&head->bytes[at]);
}

static __always_inline __u32 word_at(const struct head *head, __u32 at)
{
	return *(const __u32 *)&head->bytes[at];
}

#define NO_HEADER 0xffff

/*
 * A packet whose `data` may be at any of its headers, or behind them, as of one that is dropped or that a socket has: those that
 * were passed stay where they are in memory. What lies in pages is not read: the headers do not, and mostly the whole of a packet
 * that is small.
 */
static __always_inline bool find_packet(const struct sk_buff *skb, struct packet *packet, bool *ethernet)
{
	__u32 mac = BPF_CORE_READ(skb, mac_header), network = BPF_CORE_READ(skb, network_header);
	__u32 in_pages = BPF_CORE_READ(skb, data_len);
	const unsigned char *end = BPF_CORE_READ(skb, data) + (BPF_CORE_READ(skb, len) - in_pages);

	*ethernet = mac != NO_HEADER && network >= mac + ETHERNET_HEADER;
	packet->at = BPF_CORE_READ(skb, head) + (*ethernet ? mac : network);
	if (packet->at >= end)
		return false;
	packet->linear = end - packet->at;
	packet->length = packet->linear + in_pages;
	packet->protocol = BPF_CORE_READ(skb, protocol);
	packet->tagged = tag_beside_found(skb);
	packet->tci = BPF_CORE_READ(skb, vlan_tci);
	packet->shift = 0;
	packet->has_pages = false;
	return true;
}

/* How many packets of the wire it stands for, by what its data end with; 0: it is one. */
static __always_inline __u16 segments_of(const struct skb_shared_info *shared)
{
	if (!reads_pages)
		return BPF_CORE_READ(shared, gso_segs);
	shared = readable(shared, bpf_core_type_id_kernel(struct skb_shared_info));
	return shared->gso_segs;
}

#endif
