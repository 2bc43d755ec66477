// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Packets of anybody's traffic: when each came in or left at chosen interfaces, was read from chosen taps, was sent or received by
 * the sockets of chosen namespaces, or was dropped, and its first bytes. Nothing is changed.
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
#include "watch_filter.h"
#include "watch_sample.h"

/* wire reads the numbers here and in watch_tests.h; layouts up to the maps, and of tests and headers (watch_packet.h), are those of wire::watch. */
#define MAX_POINTS 64
#define MAX_SNAP 256
#define MAX_OTHERS 4096

struct other {
	struct headers headers;
	__u32 point;
	__u32 out;
};

struct place {
	__u32 netns;
	__u32 ifindex; /* 0: the sockets of the namespace; with READ_FROM: what is read from the tap or macvtap of this number */
};

#define READ_FROM 0x80000000U /* numbers are positive as int */

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

/* As many bytes as a record has with what is snapped: the number stands in for them here (agent/src/watch/program.rs). */
#define SLOT_BYTES 0x4c41544e
#include "records.h"

const volatile __u32 snap = 128;
/* The points, each in the slot that its place leads to, or in the next free one behind it. Every packet of this kernel is looked up
 * here: a map would take a call. */
const volatile struct slot slots[SLOTS] = {};

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

/* Whether the tests accept what so many bytes in the head of a program are the beginning of. */
static __always_inline bool try_tests(const struct packet *packet, bool ethernet, __u32 program, struct head *head, __u32 bytes)
{
	__builtin_memset(&head->found, 0, sizeof(head->found));
	if (packet->tagged) {
		head->found.tagged = 1;
		head->found.tci = packet->tci;
	}
	head->cut = 0;
	head->tag_beside = packet->tagged;
	return is_wanted(program, bytes, ethernet, bpf_ntohs(packet->protocol));
}

/* Finds in the head of a program what the packet begins with; whether the tests, and the filter if there is one, accept it. */
static __always_inline bool look_at(struct packet *packet, bool ethernet, __u32 program, struct head *head, __u32 *bytes)
{
	bool wanted;

	*bytes = read_packet(head, packet, FIRST);
	wanted = try_tests(packet, ethernet, program, head, *bytes);
	if (packet->length > FIRST && (head->cut || (wanted && (filter_length || sampled_below)))) {
		*bytes = read_packet(head, packet, HEAD);
		if (head->cut)
			wanted = try_tests(packet, ethernet, program, head, *bytes);
	}
	return wanted && (!filter_length || passes(program, *bytes, packet->length, ethernet, bpf_ntohs(packet->protocol)));
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

#define ARPHRD_ETHER 1
#define ARPHRD_LOOPBACK 772

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
	__u64 ns;

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
	record = new_record_of(sizeof(*record) + snap, &ns);
	if (!record)
		return 0;
	describe(record, skb->head + skb->end, &packet, ethernet, point, out);
	record->captured = read_packet(record + 1, &packet, snap);
	submit(record, sent_ns ? sent_ns : ns);
	return 0;
}

static __always_inline int seen_at(struct sk_buff *skb, const struct net_device *dev, bool out)
{
	const volatile __u32 *point = point_at(dev->nd_net.net->ns.inum, dev->ifindex);

	return point ? seen(skb, has_ethernet(dev), out, *point, out, 0) : 0;
}

static __always_inline int dropped(const struct sk_buff *skb, __u64 location, __u32 reason, __u32 netns)
{
	__u32 program = OF_DROPS, bytes;
	struct head *head = bpf_map_lookup_elem(&heads, &program);
	struct packet packet = {};
	bool ethernet;
	struct drop *drop;
	__u64 ns;

	if (!head || !find_packet(skb, &packet, &ethernet))
		return 0;
	if (!look_at(&packet, ethernet, program, head, &bytes) || !in_sample(head, &packet, program, bytes))
		return 0;
	drop = (void *)new_record_of(sizeof(*drop) + snap, &ns);
	if (!drop)
		return 0;
	__builtin_memset((void *)drop + sizeof(drop->packet.ns), 0, sizeof(*drop) - sizeof(drop->packet.ns));
	drop->packet.length = packet.length;
	drop->packet.flags = FLAG_DROPPED | (ethernet ? 0 : FLAG_NO_ETHERNET);
	drop->packet.captured = read_packet(drop + 1, &packet, snap);
	drop->location = location;
	drop->reason = reason;
	find_place(skb, netns, &drop->place);
	submit(&drop->packet, ns);
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
 * A packet is about to be copied to whoever asks for it. vhost-net or QEMU reads it from a tap or macvtap here; a packet that a
 * socket receives has no interface any more, or is at one of the host's own, which is no such point. Of one with a VLAN tag beside it
 * both MAC addresses are copied first, then the tag, then the rest of it.
 */
SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(watch_read, struct sk_buff *skb, int length)
{
	const struct net_device *dev = skb->dev;
	const volatile __u32 *point;

	if (length == MACS)
		return 0;
	point = point_at(dev->nd_net.net->ns.inum, dev->ifindex | READ_FROM);
	return point ? seen(skb, has_ethernet(dev), OF_READ, *point, true, 0) : 0;
}

#include "watch_sockets.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
