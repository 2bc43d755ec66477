// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Packets of anybody's traffic at chosen interfaces: when each came in or left, and its first bytes. Nothing is changed.
 *
 * A packet is recorded if the tests accept it; where a sample is asked for, if its digest is in it, too: the same packets at
 * every point. Of what the tests reject only the number is kept, by flow, as long as nothing
 * at all has been accepted there: whoever chose the tests is told what there was instead.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "drop_place.h"

/* The numbers and layouts up to the maps are those of wire::watch. */
#define MAX_POINTS 64
#define MAX_TESTS 48
#define MAX_SNAP 256
#define MAX_OTHERS 4096

/* What a test looks at. */
enum looks_at {
	ANYTHING,
	TYPE,
	VLAN,
	VID,
	PCP,
	PROTOCOL,
	DSCP,
	SOURCE_PORT,
	DESTINATION_PORT,
	SOURCE,
	DESTINATION,
	SOURCE_MAC,
	DESTINATION_MAC,
};

/* Where the tests lead to in the end. */
#define ACCEPT 254
#define REJECT 255

/* As in the packet; IPv4 addresses are the first word. */
struct address {
	__u32 words[4];
};

struct masked {
	struct address value;
	struct address mask;
};

/* A question about a packet, and which test is next if the answer is yes or no: always one behind this. */
struct test {
	__u8 looks_at;
	__u8 yes;
	__u8 no;
	__u8 unused;
	__u16 from; /* a number, not as in the packet */
	__u16 to;
	struct masked address;
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

struct other {
	struct headers headers;
	__u32 point;
	__u32 out;
};

struct place {
	__u32 netns;
	__u32 ifindex; /* 0: the sockets of the namespace */
};

/* More than there are points, so one is free behind each. */
#define SLOTS 256

struct slot {
	struct place place; /* netns is 0: it is free */
	__u32 point;
};

/* Snapped bytes follow. */
struct record {
	__u64 ns;
	__u32 length; /* of the packet, from its first header on */
	__u16 captured; /* how many of its bytes follow */
	__u8 point;
	__u8 flags;
	__u16 segments; /* packets of the wire that it stands for; 0: it is one */
	__u16 unused[3];
};

#define FLAG_OUT 1
#define FLAG_NO_ETHERNET 2 /* it begins with an IP header */
#define FLAG_DROPPED 4 /* it is at no point, and begins a struct drop */

/* The kernel drops a packet. Snapped bytes follow. */
struct drop {
	struct record packet;
	__u64 location; /* the instruction that had it freed */
	struct drop_place place;
	__u32 reason; /* 0: the kernel gives none */
	__u32 unused;
};

#include "records.h"

const volatile __u32 snap = 128;
/* Of packets whose digest is below this a record is made; 0: of all. */
const volatile __u32 sampled_below = 0;
/* The kernel has the functions that are called here: bpf_dynptr_from_skb for these programs (6.12), bpf_rdonly_cast (6.2). */
const volatile __u32 reads_pages = 0;
/* The points, each in the slot that its place leads to, or in the next free one behind it. Every packet of this kernel is looked up
 * here: a map would take a call. */
const volatile struct slot slots[SLOTS] = {};
/* Not in a map: the kernel knows them when it checks the programs, and removes what no test asks. */
const volatile struct test tests[MAX_TESTS] = {};

/* The first bytes of the packet that is looked at: as many as headers may have, and room behind them for reads that the
 * kernel cannot know to end before. What is found in them. In a map, and not on the stack, the kernel does not follow each
 * combination of values when it checks the programs. */
#define HEAD 128
/* The same, and as much behind them as a digest is made of. */
#define SAMPLED_HEAD 192
#define DIGEST_BYTES 64
#define GOLDEN 0x9e3779b97f4a7c15ULL /* 2^64 by the golden ratio */

struct head {
	__u8 bytes[SAMPLED_HEAD + 64];
	struct headers found;
	__u32 behind_tags; /* where what has the EtherType begins */
	__u32 behind_ip; /* where what IP carries begins; without IP the same as behind_tags */
	__u32 end; /* where IP says that the packet ends: padding may follow; 0: it does not say */
};

/* One for each program, as one may interrupt the other: of what comes in, of what leaves, of what is dropped, of what a program
 * sends, of what comes to a socket, and of what lies there when a program has received. */
#define OF_DROPS 2
#define OF_SENT 3
#define OF_QUEUED 4
#define OF_RECEIVED 5
#define HEADS 6

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HEADS);
	__type(key, __u32);
	__type(value, struct head);
} heads SEC(".maps");

/* Whether anything was accepted at a point: one entry for what comes in there, one for what leaves. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_POINTS);
	__type(key, __u32);
	__type(value, __u64);
} accepted SEC(".maps");

/* Packets that the tests accepted, recorded or not, by the same entries. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * MAX_POINTS);
	__type(key, __u32);
	__type(value, __u64);
} passed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_OTHERS);
	__type(key, struct other);
	__type(value, __u64);
} others SEC(".maps");

/* Packets that were rejected before one was accepted, by the entries of `accepted`. Up to so many each one is counted by its flow. */
#define COUNTED_EACH 4096

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * MAX_POINTS);
	__type(key, __u32);
	__type(value, __u64);
} others_seen SEC(".maps");

#define MAX_TAGS 3
#define TYPE_RTAG 0xf1c1
#define TYPE_HSR 0x892f
#define LONG_TAG 6
#define ARPHRD_ETHER 1
#define ARPHRD_LOOPBACK 772
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ICMP6 58
#define PROTOCOL_SCTP 132
#define PROTOCOL_UDPLITE 136
#define PRP_TRAILER 6
#define PRP_SUFFIX 0x88fb
#define FRAGMENT_HEADER 44
#define FRAGMENT_OFFSET 0x1fff

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

/* Any bytes, 16 at a time, as the kernel's types know them. */
struct in6_addr {
	__u8 bytes[16];
};

struct piece {
	__u64 words[2];
};

/* bpf_dynptr_from_skb, a function of the kernel's. The number of its type stands in for the word here when this is loaded. */
static __always_inline long pages_of(const struct sk_buff *skb, struct bpf_dynptr *pages)
{
	long failed;

	asm volatile("r1 = %[skb]; r2 = 0; r3 = %[pages]; .8byte 0x4c41544c00002085; %[failed] = r0"
		     : [failed] "=r"(failed)
		     : [skb] "r"(skb), [pages] "r"(pages)
		     : "r0", "r1", "r2", "r3", "r4", "r5", "memory");
	return failed;
}

/* bpf_rdonly_cast, likewise: to read by what it gives takes no call, and where there is no memory 0 is read. */
static __always_inline const void *readable(const void *at, __u32 type)
{
	const void *readable;

	asm volatile("r1 = %[at]; r2 = %[type]; .8byte 0x4c41544d00002085; %[readable] = r0"
		     : [readable] "=r"(readable)
		     : [at] "r"(at), [type] "r"(type)
		     : "r0", "r1", "r2", "r3", "r4", "r5", "memory");
	return readable;
}

/* The first bytes there, HEAD or `most`, whichever is less, rounded up to 16. */
static __always_inline void copy_head(void *to, const unsigned char *at, __u32 most)
{
	const __u32 type = bpf_core_type_id_kernel(struct in6_addr);
	struct piece *pieces = to;

#pragma unroll
	for (__u32 n = 0; n < HEAD / sizeof(*pieces); n++) {
		const struct piece *piece;

		if (n * sizeof(*pieces) >= most)
			break;
		piece = readable(at + n * sizeof(*pieces), type);
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

static __always_inline void read_ports(struct head *head, __u32 at, __u32 bytes)
{
	struct headers *found = &head->found;

	if (at + 4 > bytes ||
	    (found->protocol != PROTOCOL_UDP && found->protocol != PROTOCOL_TCP && found->protocol != PROTOCOL_SCTP))
		return;
	found->source_port = short_at(head, at);
	found->destination_port = short_at(head, at + 2);
	found->has_ports = 1;
}

static __always_inline void read_ipv4(struct head *head, __u32 at, __u32 bytes)
{
	struct headers *found = &head->found;

	if (at + 20 > bytes || head->bytes[at] >> 4 != 4)
		return;
	found->protocol = head->bytes[at + 9];
	found->dscp = head->bytes[at + 1] >> 2;
	found->source.words[0] = word_at(head, at + 12);
	found->destination.words[0] = word_at(head, at + 16);
	head->behind_ip = at + (head->bytes[at] & 0x0f) * 4;
	if (short_at(head, at + 2))
		head->end = at + short_at(head, at + 2);
	/* Of the fragments of a packet the first one has the ports. */
	if (!(short_at(head, at + 6) & FRAGMENT_OFFSET))
		read_ports(head, at + (head->bytes[at] & 0x0f) * 4, bytes);
}

static __always_inline void read_ipv6(struct head *head, __u32 at, __u32 bytes)
{
	struct headers *found = &head->found;
	__u32 next = at + 40;

	if (next > bytes || head->bytes[at] >> 4 != 6)
		return;
	found->protocol = head->bytes[at + 6];
	found->dscp = (head->bytes[at] & 0x0f) << 2 | head->bytes[at + 1] >> 6;
#pragma unroll
	for (int n = 0; n < 4; n++) {
		found->source.words[n] = word_at(head, at + 8 + 4 * n);
		found->destination.words[n] = word_at(head, at + 24 + 4 * n);
	}
	head->behind_ip = next;
	if (short_at(head, at + 4))
		head->end = next + short_at(head, at + 4);
	if (found->protocol == FRAGMENT_HEADER && next + 8 <= bytes) {
		found->protocol = head->bytes[next];
		head->behind_ip = next + 8;
		if (short_at(head, next + 2) >> 3)
			return;
		next += 8;
	}
	read_ports(head, next, bytes);
}

/*
 * Finds the headers: `bytes` of the head are the packet's, `type` is what the kernel takes for its EtherType. A tag beside the
 * packet stands in `found` already.
 */
static __always_inline void read_headers(struct head *head, __u32 bytes, __u32 ethernet, __u32 type)
{
	struct headers *found = &head->found;
	__u32 at = 0;

	if (ethernet) {
		if (bytes < ETHERNET_HEADER)
			return;
		type = short_at(head, ETHERNET_HEADER - 2);
		at = ETHERNET_HEADER;
#pragma unroll
		for (int n = 0; n < MAX_TAGS; n++) {
			if (type == TYPE_8021Q || type == TYPE_8021AD) {
				if (at + VLAN_TAG > bytes)
					return;
				if (!found->tagged)
					found->tci = short_at(head, at);
				found->tagged = 1;
				type = short_at(head, at + 2);
				at += VLAN_TAG;
			} else if (type == TYPE_RTAG || type == TYPE_HSR) {
				if (at + LONG_TAG > bytes)
					return;
				type = short_at(head, at + LONG_TAG - 2);
				at += LONG_TAG;
			}
		}
	}
	found->type = type;
	head->behind_tags = head->behind_ip = at;
	head->end = 0;
	barrier();
	at = head->behind_tags & 63;
	if (type == TYPE_IPV4)
		read_ipv4(head, at, bytes);
	else if (type == TYPE_IPV6)
		read_ipv6(head, at, bytes);
}

static __always_inline bool is(const struct address *address, const volatile struct masked *wanted)
{
	return !(((address->words[0] & wanted->mask.words[0]) ^ wanted->value.words[0]) |
		 ((address->words[1] & wanted->mask.words[1]) ^ wanted->value.words[1]) |
		 ((address->words[2] & wanted->mask.words[2]) ^ wanted->value.words[2]) |
		 ((address->words[3] & wanted->mask.words[3]) ^ wanted->value.words[3]));
}

static __always_inline bool is_mac(const struct head *head, __u32 at, const volatile struct masked *wanted)
{
	__u32 last = head->bytes[at + 4] | head->bytes[at + 5] << 8;
	__u32 wanted_last, mask_last;

	/* As they stand in the packet, whatever the machine's order. */
	wanted_last = ((const volatile __u8 *)&wanted->value.words[1])[0] | ((const volatile __u8 *)&wanted->value.words[1])[1] << 8;
	mask_last = ((const volatile __u8 *)&wanted->mask.words[1])[0] | ((const volatile __u8 *)&wanted->mask.words[1])[1] << 8;
	return (word_at(head, at) & wanted->mask.words[0]) == wanted->value.words[0] && (last & mask_last) == wanted_last;
}

static __always_inline bool within(__u16 number, const volatile struct test *test)
{
	return test->from <= number && number <= test->to;
}

static __always_inline bool holds(const volatile struct test *test, const struct head *head, bool ethernet)
{
	const struct headers *found = &head->found;

	switch (test->looks_at) {
	case ANYTHING:
		return true;
	case TYPE:
		return within(found->type, test);
	case VLAN:
		return found->tagged;
	case VID:
		return found->tagged && within(found->tci & 0x0fff, test);
	case PCP:
		return found->tagged && within(found->tci >> 13, test);
	case PROTOCOL:
		return within(found->protocol, test);
	case DSCP:
		return within(found->dscp, test);
	case SOURCE_PORT:
		return found->has_ports && within(found->source_port, test);
	case DESTINATION_PORT:
		return found->has_ports && within(found->destination_port, test);
	case SOURCE:
		return is(&found->source, &test->address);
	case DESTINATION:
		return is(&found->destination, &test->address);
	case SOURCE_MAC:
		return ethernet && is_mac(head, 6, &test->address);
	case DESTINATION_MAC:
		return ethernet && is_mac(head, 0, &test->address);
	}
	return false;
}

/*
 * Whether the tests accept what is in the head of a program, whose headers are then found. A function of its own: the kernel checks
 * it once, and not for each path that leads here.
 */
__attribute__((noinline)) int is_wanted(__u32 program, __u32 bytes, __u32 ethernet, __u32 type)
{
	struct head *head = bpf_map_lookup_elem(&heads, &program);
	__u32 next = 0;

	if (!head)
		return 0;
	read_headers(head, bytes, ethernet, type);
#pragma unroll
	for (__u32 n = 0; n < MAX_TESTS; n++) {
		/* Else the compiler finds the places of all that might be asked, before anything is. */
		barrier_var(head);
		if (next != n)
			continue;
		next = holds(&tests[n], head, ethernet) ? tests[n].yes : tests[n].no;
		if (next >= ACCEPT)
			break;
	}
	return next == ACCEPT;
}

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

/* How many packets of the wire it stands for, by what its data end with; 0: it is one. */
static __always_inline __u16 segments_of(const struct skb_shared_info *shared)
{
	if (!reads_pages)
		return BPF_CORE_READ(shared, gso_segs);
	shared = readable(shared, bpf_core_type_id_kernel(struct skb_shared_info));
	return shared->gso_segs;
}

static __always_inline void count_other(const struct headers *found, __u32 point, bool out)
{
	__u32 side = point * 2 + out;
	__u64 *count, *rejected = bpf_map_lookup_elem(&others_seen, &side), each = 1;
	struct other other;

	if (!rejected)
		return;
	/* Of many one in 16 is counted, for 16: evenly, and at no period that flows could have, too. */
	if ((*rejected)++ >= COUNTED_EACH) {
		if (*rejected * GOLDEN >> 60)
			return;
		each = 16;
	}
	__builtin_memset(&other, 0, sizeof(other));
	other.headers = *found;
	other.point = point;
	other.out = out;
	count = bpf_map_lookup_elem(&others, &other);
	if (count)
		__sync_fetch_and_add(count, each);
	else
		bpf_map_update_elem(&others, &other, &each, BPF_NOEXIST);
}

/* The point at that place; NULL: none. */
static __always_inline const volatile __u32 *point_at(__u32 netns, __u32 ifindex)
{
	for (__u32 n = 0; n <= MAX_POINTS; n++) {
		const volatile struct slot *slot = &slots[(netns + ifindex + n) % SLOTS];

		if (!slot->place.netns)
			return NULL;
		if (slot->place.netns == netns && slot->place.ifindex == ifindex)
			return &slot->point;
	}
	return NULL;
}

/* Finds in the head of a program what the packet begins with; whether the tests accept it. */
static __always_inline bool look_at(struct packet *packet, bool ethernet, __u32 program, struct head *head, __u32 *bytes)
{
	*bytes = read_packet(head, packet, HEAD);
	__builtin_memset(&head->found, 0, sizeof(head->found));
	if (packet->tagged) {
		head->found.tagged = 1;
		head->found.tci = packet->tci;
	}
	return is_wanted(program, *bytes, ethernet, bpf_ntohs(packet->protocol));
}

/* The tests have accepted a packet there. */
static __always_inline void count_passed(__u32 point, bool out)
{
	__u32 side = point * 2 + out;
	__u64 *any = bpf_map_lookup_elem(&accepted, &side), *count = bpf_map_lookup_elem(&passed, &side);

	/* Other CPUs read it. */
	if (any && !*any)
		*any = 1;
	if (count)
		(*count)++;
}

/* The tests have rejected what is in this head: it is counted as long as nothing was accepted there. */
static __always_inline void reject(const struct head *head, __u32 point, bool out)
{
	__u32 side = point * 2 + out;
	const __u64 *any = bpf_map_lookup_elem(&accepted, &side);

	if (any && !*any)
		count_other(&head->found, point, out);
}

/* All of a record but its instant and the bytes behind it. */
static __always_inline void describe(struct record *record, const void *shared, const struct packet *packet, bool ethernet,
				     __u32 point, bool out)
{
	record->length = packet->length;
	record->point = point;
	record->flags = (out ? FLAG_OUT : 0) | (ethernet ? 0 : FLAG_NO_ETHERNET);
	record->segments = segments_of(shared);
}

static __always_inline bool has_ethernet(const struct net_device *dev)
{
	return dev->type == ARPHRD_ETHER || dev->type == ARPHRD_LOOPBACK;
}

/* `sent_ns`: when a program sent it; 0: it leaves now, or comes in. */
static __always_inline int seen(struct sk_buff *skb, bool ethernet, __u32 program, __u32 point, bool out, __u64 sent_ns)
{
	struct packet packet = { .at = skb->data, .length = skb->len, .protocol = skb->protocol };
	struct head *head = bpf_map_lookup_elem(&heads, &program);
	struct record *record;
	__u32 bytes;

	if (!head)
		return 0;
	packet.tagged = tag_beside(skb);
	packet.tci = skb->vlan_tci;
	packet.linear = packet.length - skb->data_len;
	/* What comes in has its Ethernet header behind it already. */
	if (ethernet && !out) {
		packet.shift = ETHERNET_HEADER;
		packet.at -= ETHERNET_HEADER;
		packet.length += ETHERNET_HEADER;
		packet.linear += ETHERNET_HEADER;
	}
	packet.has_pages = false;
	if (reads_pages && packet.linear < packet.length && (packet.linear < SAMPLED_HEAD || packet.linear < snap))
		packet.has_pages = !pages_of(skb, &packet.pages);
	if (!look_at(&packet, ethernet, program, head, &bytes)) {
		reject(head, point, out);
		return 0;
	}
	count_passed(point, out);
	if (!in_sample(head, &packet, program, bytes))
		return 0;
	record = new_record_of(sizeof(*record) + snap);
	if (!record)
		return 0;
	if (sent_ns)
		record->ns = sent_ns;
	describe(record, skb->head + skb->end, &packet, ethernet, point, out);
	record->captured = read_packet(record + 1, &packet, snap);
	submit(record);
	return 0;
}

static __always_inline int seen_at(struct sk_buff *skb, const struct net_device *dev, bool out)
{
	const volatile __u32 *point = point_at(dev->nd_net.net->ns.inum, dev->ifindex);

	return point ? seen(skb, has_ethernet(dev), out, *point, out, 0) : 0;
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

static __always_inline int dropped(const struct sk_buff *skb, __u64 location, __u32 reason, __u32 netns)
{
	__u32 program = OF_DROPS, bytes;
	struct head *head = bpf_map_lookup_elem(&heads, &program);
	struct packet packet = {};
	bool ethernet;
	struct drop *drop;

	if (!head || !find_packet(skb, &packet, &ethernet))
		return 0;
	if (!look_at(&packet, ethernet, program, head, &bytes) || !in_sample(head, &packet, program, bytes))
		return 0;
	drop = (void *)new_record_of(sizeof(*drop) + snap);
	if (!drop)
		return 0;
	__builtin_memset((void *)drop + sizeof(drop->packet.ns), 0, sizeof(*drop) - sizeof(drop->packet.ns));
	drop->packet.length = packet.length;
	drop->packet.flags = FLAG_DROPPED | (ethernet ? 0 : FLAG_NO_ETHERNET);
	drop->packet.captured = read_packet(drop + 1, &packet, snap);
	drop->location = location;
	drop->reason = reason;
	find_place(skb, netns, &drop->place);
	submit(&drop->packet);
	return 0;
}

/* From Linux 6.11 on: with the socket that was to receive it. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_at_socket, const struct sk_buff *skb, void *location, int reason, const struct sock *receiver)
{
	return dropped(skb, (__u64)location, reason, receiver ? receiver->__sk_common.skc_net.net->ns.inum : 0);
}

/* From Linux 5.17 on: with the reason. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_for_reason, const struct sk_buff *skb, void *location, int reason)
{
	return dropped(skb, (__u64)location, reason, 0);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(dropped_somewhere, const struct sk_buff *skb, void *location)
{
	return dropped(skb, (__u64)location, 0, 0);
}

/* Taken in by the kernel: before protocols, bridges and the like have it. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(watch_in, struct sk_buff *skb)
{
	return seen_at(skb, skb->dev, false);
}

/* Handed to a driver. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(watch_out, struct sk_buff *skb, const struct net_device *dev)
{
	return seen_at(skb, dev, true);
}

/*
 * The sockets of a namespace: what its programs send by them, and receive. Not of connections (TCP): what a program writes there
 * is in no packet of its own.
 */
#define AF_INET 2
#define AF_INET6 10
#define AF_PACKET 17
#define SOCK_STREAM 1
#define MSG_PEEK 0x2
#define MSG_ERRQUEUE 0x2000
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define MAX_SOCKETS 4096

/* The point that a socket is at; NULL: none. */
static __always_inline const volatile __u32 *point_of(const struct sock *sk)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	if ((family != AF_INET && family != AF_INET6 && family != AF_PACKET) || BPF_CORE_READ(sk, sk_type) == SOCK_STREAM)
		return NULL;
	return point_at(BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum), 0);
}

/* The last send call of a thread: when it began, its socket, and the interface that its packets are queued at first. */
struct call {
	__u64 ns;
	__u64 socket;
	__u64 device; /* 0: none was yet */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SOCKETS);
	__type(key, __u32); /* the thread */
	__type(value, struct call);
} sending SEC(".maps");

/* The socket that a descriptor of this thread is of; NULL: of none. */
static __always_inline const struct sock *socket_of(__u32 descriptor)
{
	const struct task_struct *task = (const void *)bpf_get_current_task();
	const struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	const struct file *file = NULL;
	const struct socket *socket;

	if (descriptor >= BPF_CORE_READ(table, max_fds))
		return NULL;
	if (bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + descriptor) || !file)
		return NULL;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

/* Whether a system call sends; `descriptor` is its first argument. */
static __always_inline bool sends(const void *regs, long number, __u32 *descriptor)
{
	const struct pt_regs___x86 *x86 = regs;
	const struct pt_regs___arm64 *arm64 = regs;

	if (bpf_core_field_exists(x86->di)) {
		*descriptor = BPF_CORE_READ(x86, di);
		/* write, writev, sendto, sendmsg, sendmmsg */
		return number == 1 || number == 20 || number == 44 || number == 46 || number == 307;
	}
	*descriptor = BPF_CORE_READ(arm64, orig_x0);
	return number == 64 || number == 66 || number == 206 || number == 211 || number == 269;
}

/* A program calls the kernel. */
SEC("tp_btf/sys_enter")
int BPF_PROG(watch_call, const void *regs, long number)
{
	__u32 thread = bpf_get_current_pid_tgid(), descriptor;
	const struct sock *sk;
	struct call call = {};

	if (!sends(regs, number, &descriptor))
		return 0;
	sk = socket_of(descriptor);
	if (!sk || !point_of(sk))
		return 0;
	call.ns = now_ns();
	call.socket = (__u64)sk;
	bpf_map_update_elem(&sending, &thread, &call, BPF_ANY);
	return 0;
}

/* A packet of that call is queued at an interface: it is still in the call. Interfaces below the first one have it again. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(watch_sent, struct sk_buff *skb)
{
	const struct net_device *dev = skb->dev;
	__u32 thread = bpf_get_current_pid_tgid();
	const volatile __u32 *point;
	const struct sock *sk = skb->sk;
	struct call *call;

	if (!sk)
		return 0;
	call = bpf_map_lookup_elem(&sending, &thread);
	if (!call || call->socket != (__u64)sk || (call->device && call->device != (__u64)dev))
		return 0;
	call->device = (__u64)dev;
	point = point_of(sk);
	return point ? seen(skb, has_ethernet(dev), OF_SENT, *point, true, call->ns) : 0;
}

/* A receive call is done with a packet that it has copied. */
static __always_inline int taken(const struct sock *sk, const struct sk_buff *skb)
{
	const volatile __u32 *point = point_of(sk);
	__u32 program = OF_RECEIVED, bytes;
	struct head *head = bpf_map_lookup_elem(&heads, &program);
	struct packet packet = {};
	struct record *record;
	bool ethernet;

	if (!point || !head || !find_packet(skb, &packet, &ethernet))
		return 0;
	if (!look_at(&packet, ethernet, program, head, &bytes)) {
		reject(head, *point, false);
		return 0;
	}
	count_passed(*point, false);
	if (!in_sample(head, &packet, program, bytes))
		return 0;
	record = new_record_of(sizeof(*record) + snap);
	if (!record)
		return 0;
	describe(record, BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, end), &packet, ethernet, *point, false);
	record->captured = read_packet(record + 1, &packet, snap);
	submit(record);
	return 0;
}

/* Of UDP. What was only looked at has a negative length. */
SEC("fentry/skb_consume_udp")
int BPF_PROG(taken_datagram, const struct sock *sk, const struct sk_buff *skb, int length)
{
	return length < 0 ? 0 : taken(sk, skb);
}

/* Of other sockets. What was only looked at is in the queue, too. */
SEC("fentry/skb_free_datagram")
int BPF_PROG(taken_packet, const struct sock *sk, const struct sk_buff *skb)
{
	return BPF_CORE_READ(skb, users.refs.counter) > 1 ? 0 : taken(sk, skb);
}

/*
 * Where the kernel lets no program at its functions: the packet that the next receive call of a socket takes. No tracepoint shows
 * it while it is taken, so it is read while it is the first of the socket's queue: when it comes there, or when the one before it
 * has been taken.
 */
struct next {
	__u64 skb; /* 0: none is known */
	__u8 accepted; /* by the tests */
	__u8 sampled;
	__u8 has_flow; /* the socket has received an accepted one before */
	__u8 unused[5];
	struct record record;
	__u8 bytes[MAX_SNAP];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SOCKETS);
	__type(key, __u64); /* the socket's cookie: its address may be another one's later */
	__type(value, struct next);
} queued SEC(".maps");

/* Where the programs make one. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HEADS);
	__type(key, __u32);
	__type(value, struct next);
} made SEC(".maps");

/* By point: packets of sockets with the flow that were taken before they were read. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_POINTS);
	__type(key, __u32);
	__type(value, __u64);
} unread SEC(".maps");

static __always_inline const struct sk_buff *first_of(const struct sk_buff_head *queue)
{
	const void *first = NULL;

	if (bpf_probe_read_kernel(&first, sizeof(first), queue) || first == queue)
		return NULL;
	return first;
}

/* The first packet of a socket. What receives by UDP takes all that has come to a queue of its own. */
static __always_inline const struct sk_buff *first_packet(const struct sock *sk)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family), protocol = BPF_CORE_READ(sk, sk_protocol);
	const struct sk_buff *first = NULL;

	if (family != AF_PACKET && (protocol == PROTOCOL_UDP || protocol == PROTOCOL_UDPLITE))
		first = first_of(&((const struct udp_sock *)sk)->reader_queue);
	return first ? first : first_of(&sk->sk_receive_queue);
}

/* Reads the first packet of a socket, if it has one. */
static __always_inline void look_ahead(const struct sock *sk, __u64 cookie, __u32 point, __u32 program, bool has_flow)
{
	struct head *head = bpf_map_lookup_elem(&heads, &program);
	struct next *next = bpf_map_lookup_elem(&made, &program);
	const struct sk_buff *skb = first_packet(sk);
	struct packet packet = {};
	bool ethernet = false;
	__u32 bytes;

	if (!head || !next)
		return;
	next->skb = (__u64)skb;
	next->has_flow = has_flow;
	next->accepted = skb && find_packet(skb, &packet, &ethernet) && look_at(&packet, ethernet, program, head, &bytes);
	if (next->accepted) {
		next->sampled = in_sample(head, &packet, program, bytes);
		describe(&next->record, BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, end), &packet, ethernet, point, false);
		next->record.captured = read_packet(next->bytes, &packet, snap);
	}
	/* Taken meanwhile, it may have been another one before it was read. */
	if (first_packet(sk) != skb)
		next->skb = 0;
	else if (skb && !next->accepted)
		reject(head, point, false);
	bpf_map_update_elem(&queued, &cookie, next, BPF_ANY);
}

/* Packets have come to a socket. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(watch_queued, struct sock *sk)
{
	const volatile __u32 *point = point_of(sk);
	const struct next *next;
	__u64 cookie;

	if (!point)
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	next = bpf_map_lookup_elem(&queued, &cookie);
	if (!next || !next->skb)
		look_ahead(sk, cookie, *point, OF_QUEUED, next && next->has_flow);
	return 0;
}

/* A receive call has taken a packet from a socket, and copied it. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(watch_received, struct sock *sk, int length, int flags)
{
	const volatile __u32 *point = length < 0 || flags & (MSG_PEEK | MSG_ERRQUEUE) ? NULL : point_of(sk);
	const struct next *next;
	struct record *record;
	bool has_flow;
	__u32 number;
	__u64 cookie, *count;

	if (!point)
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	next = bpf_map_lookup_elem(&queued, &cookie);
	has_flow = next && (next->has_flow || (next->skb && next->accepted));
	if (next && next->skb && next->accepted) {
		count_passed(*point, false);
		record = next->sampled ? new_record_of(sizeof(*record) + snap) : NULL;
		if (record) {
			record->length = next->record.length;
			record->point = next->record.point;
			record->flags = next->record.flags;
			record->segments = next->record.segments;
			record->captured = next->record.captured;
			bpf_probe_read_kernel(record + 1, snap, next->bytes);
			submit(record);
		}
	} else if (has_flow && !next->skb) {
		number = *point;
		count = bpf_map_lookup_elem(&unread, &number);
		if (count)
			(*count)++;
	}
	look_ahead(sk, cookie, *point, OF_RECEIVED, has_flow);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
