/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The headers of a packet, and the tests that say which packets are wanted. */
#ifndef LATLAB_WATCH_TESTS_H
#define LATLAB_WATCH_TESTS_H

#include "watch_packet.h"

#define MAX_TESTS 48

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

/* Not in a map: the kernel knows them when it checks the programs, and removes what no test asks. */
const volatile struct test tests[MAX_TESTS] = {};

#define MAX_TAGS 3
#define TYPE_RTAG 0xf1c1
#define TYPE_HSR 0x892f
#define LONG_TAG 6
#define FRAGMENT_HEADER 44
#define FRAGMENT_OFFSET 0x1fff
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ICMP6 58
#define PROTOCOL_SCTP 132
#define PROTOCOL_UDPLITE 136

/* Whether a header that ends there does so behind the bytes of the packet that are in its head, which is noted. */
static __always_inline bool ends_behind(struct head *head, __u32 end, __u32 bytes)
{
	if (end <= bytes)
		return false;
	head->cut = 1;
	return true;
}

static __always_inline void read_ports(struct head *head, __u32 at, __u32 bytes)
{
	struct headers *found = &head->found;

	if (found->protocol != PROTOCOL_UDP && found->protocol != PROTOCOL_TCP && found->protocol != PROTOCOL_SCTP)
		return;
	if (ends_behind(head, at + 4, bytes))
		return;
	found->source_port = short_at(head, at);
	found->destination_port = short_at(head, at + 2);
	found->has_ports = 1;
}

static __always_inline void read_ipv4(struct head *head, __u32 at, __u32 bytes)
{
	struct headers *found = &head->found;

	if (ends_behind(head, at + 20, bytes) || head->bytes[at] >> 4 != 4)
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

	if (ends_behind(head, next, bytes) || head->bytes[at] >> 4 != 6)
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
	if (found->protocol == FRAGMENT_HEADER && !ends_behind(head, next + 8, bytes)) {
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
				if (ends_behind(head, at + VLAN_TAG, bytes))
					return;
				if (!found->tagged)
					found->tci = short_at(head, at);
				found->tagged = 1;
				type = short_at(head, at + 2);
				at += VLAN_TAG;
			} else if (type == TYPE_RTAG || type == TYPE_HSR) {
				if (ends_behind(head, at + LONG_TAG, bytes))
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

static __always_inline bool is_ip(const struct headers *found)
{
	return found->type == TYPE_IPV4 || found->type == TYPE_IPV6;
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
		return is_ip(found) && within(found->protocol, test);
	case DSCP:
		return is_ip(found) && within(found->dscp, test);
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

#endif
