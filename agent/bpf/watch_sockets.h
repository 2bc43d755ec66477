/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The sockets of a namespace: what its programs send by them, and receive. Not of connections (TCP): what a program writes there
 * is in no packet of its own. What this uses of watch.bpf.c stands there before it is included.
 */
#ifndef LATLAB_WATCH_SOCKETS_H
#define LATLAB_WATCH_SOCKETS_H

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

/*
 * A packet of that call is queued at an interface. Interfaces below the first one have it again. That it is still in the call is not
 * checked: what waited for a neighbour's address (ARP) is queued by a softirq, and has the instant of a later call if it
 * interrupts the same thread once that has sent again by the same socket.
 */
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
static __always_inline int taken(const struct sock *sk, const struct sk_buff *skb, __u32 program)
{
	const volatile __u32 *point = point_of(sk);
	__u32 bytes;
	struct head *head = bpf_map_lookup_elem(&heads, &program);
	struct packet packet = {};
	struct record *record;
	bool ethernet;
	__u64 ns;

	if (!point || !head || !find_packet(skb, &packet, &ethernet))
		return 0;
	if (!look_at(&packet, ethernet, program, head, &bytes)) {
		reject(head, *point, false);
		return 0;
	}
	count_passed(*point, false);
	if (!in_sample(head, &packet, program, bytes))
		return 0;
	record = new_record_of(sizeof(*record) + snap, &ns);
	if (!record)
		return 0;
	describe(record, BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, end), &packet, ethernet, *point, false);
	record->captured = read_packet(record + 1, &packet, snap);
	submit(record, ns);
	return 0;
}

/* Of UDP. What was only looked at has a negative length. */
SEC("fentry/skb_consume_udp")
int BPF_PROG(taken_datagram, const struct sock *sk, const struct sk_buff *skb, int length)
{
	return length < 0 ? 0 : taken(sk, skb, OF_DATAGRAMS);
}

/* Of other sockets. What was only looked at is in the queue, too. */
SEC("fentry/skb_free_datagram")
int BPF_PROG(taken_packet, const struct sock *sk, const struct sk_buff *skb)
{
	return BPF_CORE_READ(skb, users.refs.counter) > 1 ? 0 : taken(sk, skb, OF_PACKETS);
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
	__u64 cookie, ns, *count;

	if (!point)
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	next = bpf_map_lookup_elem(&queued, &cookie);
	has_flow = next && (next->has_flow || (next->skb && next->accepted));
	if (next && next->skb && next->accepted) {
		count_passed(*point, false);
		record = next->sampled ? new_record_of(sizeof(*record) + snap, &ns) : NULL;
		if (record) {
			record->length = next->record.length;
			record->point = next->record.point;
			record->flags = next->record.flags;
			record->segments = next->record.segments;
			record->captured = next->record.captured;
			bpf_probe_read_kernel(record + 1, snap, next->bytes);
			submit(record, ns);
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

#endif
