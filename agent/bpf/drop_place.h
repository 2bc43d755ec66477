/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Where a packet was that the kernel drops. */
#ifndef LATLAB_DROP_PLACE_H
#define LATLAB_DROP_PLACE_H

#include "kernel.h"

#define NAME_BYTES 16

/* All 0: unknown. */
struct drop_place {
	__u32 netns;
	__u32 ifindex;
	char device[NAME_BYTES];
};

/* `netns`: of the socket that was to receive the packet; 0: of none. `place` is all 0. */
static __always_inline void find_place(const struct sk_buff *skb, __u32 netns, struct drop_place *place)
{
	/* In a socket's buffer the pointer's place may have been taken by other things: it is not followed blindly. */
	const struct net_device *dev = skb->dev;

	place->netns = netns;
	if (dev)
		bpf_core_read(&place->ifindex, sizeof(place->ifindex), &dev->ifindex);
	if (place->ifindex) {
		place->netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
		bpf_core_read(place->device, sizeof(place->device), &dev->name);
	} else {
		place->ifindex = skb->skb_iif;
	}
}

#endif
