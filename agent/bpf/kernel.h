/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is read of the kernel's own structures; the offsets are found when the programs are loaded. */
#ifndef LATLAB_KERNEL_H
#define LATLAB_KERNEL_H

#include <linux/types.h>

#define KERNEL __attribute__((preserve_access_index))

struct list_head {
	struct list_head *next;
} KERNEL;

struct ns_common {
	unsigned int inum;
} KERNEL;

struct net {
	struct ns_common ns;
} KERNEL;

typedef struct {
	struct net *net;
} KERNEL possible_net_t;

struct net_device {
	char name[16];
	int ifindex;
	unsigned short type;
	possible_net_t nd_net;
	struct {
		struct list_head lower;
	} adj_list;
} KERNEL;

typedef struct {
	__s64 counter;
} KERNEL atomic64_t;

struct sock_common {
	unsigned short skc_family;
	possible_net_t skc_net;
	atomic64_t skc_cookie;
} KERNEL;

/* Its first member is its first packet, or itself if it is empty. */
struct sk_buff_head {
	struct sk_buff *next;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	__u16 sk_type;
	__u16 sk_protocol;
} KERNEL;

struct udp_sock {
	struct sk_buff_head reader_queue;
} KERNEL;

struct socket {
	struct sock *sk;
} KERNEL;

struct inode {
	unsigned short i_mode;
} KERNEL;

struct file {
	struct inode *f_inode;
	void *private_data;
} KERNEL;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} KERNEL;

struct files_struct {
	struct fdtable *fdt;
} KERNEL;

struct task_struct {
	struct files_struct *files;
} KERNEL;

struct pt_regs___x86 {
	unsigned long di;
} KERNEL;

struct pt_regs___arm64 {
	__u64 orig_x0;
} KERNEL;

typedef struct {
	int counter;
} KERNEL atomic_t;

typedef struct refcount_struct {
	atomic_t refs;
} KERNEL refcount_t;

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned char *head;
	unsigned char *data;
	unsigned int end;
	unsigned int len;
	unsigned int data_len;
	int skb_iif;
	__be16 vlan_proto;
	__u16 vlan_tci;
	__u16 transport_header;
	__u16 network_header;
	__u16 mac_header;
	__be16 protocol;
	refcount_t users;
} KERNEL;

struct skb_shared_info {
	unsigned short gso_segs;
} KERNEL;

/* Of include/uapi/linux/if_ether.h. */
#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86dd
#define TYPE_8021Q 0x8100
#define TYPE_8021AD 0x88a8
#define ETHERNET_HEADER 14
/* Both MAC addresses: a VLAN tag is behind them. */
#define MACS 12
#define VLAN_TAG 4

#endif
