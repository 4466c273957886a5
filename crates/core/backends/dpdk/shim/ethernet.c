/* Ethernet ports (rte_ethdev): frames in and out by bursts. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

#include "shim.h"

/* Buffers that a thread keeps for itself. */
#define CACHE 128
/* Buffers beside those in descriptors: what is being served, and was handed to other threads. */
#define SPARE 1024
/* Descriptors of senders. */
#define TX_DESCRIPTORS 1024
/* What is before and behind the payload of Ethernet: addresses, types, two VLAN tags, check sum. */
#define ETHERNET_EXTRA 26
/* Where the sockets of a driver are looked for. */
#define DESCRIPTORS_MAX 1024
/* Newer drivers for packet sockets count themselves what the kernel drops. */
#define COUNTS_DROPS (RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0))

struct pool {
	struct rte_mempool *buffers;
	uint32_t count;
	uint16_t room;
	int is_taken;
};

struct queue {
	struct pool *pool;
	uint16_t port;
	uint16_t number;
	uint64_t offloads;
};

static struct port {
	struct queue *queues;
	uint32_t queue_count;
	int is_made; /* by us, so that it goes with us */
	/* Of the driver for packet sockets, and what the kernel has dropped there. */
	int sockets[RTE_MAX_LCORE];
	uint32_t socket_count;
	uint64_t dropped;
} ports[RTE_MAX_ETHPORTS];

static int error_of(int result)
{
	return result < -1 ? result : -(rte_errno > 0 ? rte_errno : EIO);
}

static int32_t attach(const char *name, const char *arguments)
{
	uint16_t port;
	if (rte_eth_dev_get_port_by_name(name, &port) == 0)
		return ports[port].queues == NULL ? port : -EBUSY;
	int result = rte_eal_hotplug_add("vdev", name, arguments);
	if (result != 0)
		return error_of(result);
	if (rte_eth_dev_get_port_by_name(name, &port) != 0)
		return -ENODEV;
	memset(&ports[port], 0, sizeof(ports[port]));
	ports[port].is_made = 1;
	return port;
}

static int32_t info(int32_t port, struct overside_port_info *out)
{
	struct rte_eth_dev_info found;
	struct rte_ether_addr mac;
	uint16_t mtu = 0;
	memset(out, 0, sizeof(*out));
	int result = rte_eth_dev_info_get(port, &found);
	if (result == 0)
		result = rte_eth_macaddr_get(port, &mac);
	if (result != 0)
		return error_of(result);
	/* Not every driver knows. */
	if (rte_eth_dev_get_mtu(port, &mtu) != 0 || mtu == 0)
		mtu = RTE_ETHER_MTU;
	snprintf(out->driver, sizeof(out->driver), "%s", found.driver_name);
	memcpy(out->mac, mac.addr_bytes, sizeof(out->mac));
	out->mtu = mtu;
	out->queues = RTE_MIN(found.max_rx_queues, found.max_tx_queues);
	return 0;
}

/* Pools stay for good, because frames may outlive their port. A later port of the same kind takes
 * them again. Ports are opened by one thread at a time. */
static struct pool *take_pool(uint32_t count, uint16_t room, int socket)
{
	static struct pool pools[256];
	char name[RTE_MEMPOOL_NAMESIZE];
	for (size_t i = 0; i < RTE_DIM(pools); i++) {
		struct pool *pool = &pools[i];
		if (pool->buffers == NULL) {
			snprintf(name, sizeof(name), "ov_frames_%zu", i);
			if (!rte_eal_has_hugepages())
				socket = memory_reserve((size_t)count * (room + 512u));
			if (socket < SOCKET_ID_ANY)
				return NULL;
			pool->buffers = rte_pktmbuf_pool_create(name, count, CACHE, 0, room, socket);
			pool->count = count;
			pool->room = room;
			pool->is_taken = pool->buffers != NULL;
			return pool->is_taken ? pool : NULL;
		}
		if (!pool->is_taken && pool->count == count && pool->room == room) {
			pool->is_taken = 1;
			return pool;
		}
	}
	rte_errno = ENOMEM;
	return NULL;
}

static void forget_queues(struct port *port)
{
	for (uint32_t i = 0; port->queues != NULL && i < port->queue_count; i++) {
		if (port->queues[i].pool != NULL)
			port->queues[i].pool->is_taken = 0;
	}
	free(port->queues);
	port->queues = NULL;
	port->queue_count = 0;
}

/* The driver keeps its sockets to itself. */
static void find_packet_sockets(struct port *port, int if_index)
{
	port->socket_count = 0;
	for (int descriptor = 3; descriptor < DESCRIPTORS_MAX; descriptor++) {
		struct sockaddr_ll address;
		socklen_t len = sizeof(address);
		if (getsockname(descriptor, (struct sockaddr *)&address, &len) == 0 &&
		    address.sll_family == AF_PACKET && address.sll_ifindex == if_index &&
		    port->socket_count < RTE_DIM(port->sockets))
			port->sockets[port->socket_count++] = descriptor;
	}
}

/* What the device can do with checksums, or divides among queues, it does. */
static int configure(uint16_t id, const struct overside_port_setup *setup, uint16_t *rx, uint16_t *tx,
		     uint64_t *tx_offloads, int *socket)
{
	struct rte_eth_dev_info found;
	struct rte_eth_conf conf;
	memset(&conf, 0, sizeof(conf));
	int result = rte_eth_dev_info_get(id, &found);
	if (result != 0)
		return result;
	uint64_t rss = found.flow_type_rss_offloads & (RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_UDP);
	if (setup->queues > 1 && rss != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = rss;
	}
	conf.rxmode.offloads = found.rx_offload_capa & (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
	uint64_t both = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	if ((found.tx_offload_capa & both) == both)
		conf.txmode.offloads = both;
	*tx_offloads = conf.txmode.offloads;
	result = rte_eth_dev_configure(id, setup->queues, setup->queues, &conf);
	if (result == 0)
		result = rte_eth_dev_adjust_nb_rx_tx_desc(id, rx, tx);
	*socket = rte_eth_dev_socket_id(id);
	if (!COUNTS_DROPS && strcmp(found.driver_name, "net_af_packet") == 0)
		find_packet_sockets(&ports[id], (int)found.if_index);
	return result;
}

static int32_t start(int32_t id, const struct overside_port_setup *setup, void **out)
{
	struct port *port = &ports[id];
	uint16_t rx = setup->rx_descriptors, tx = TX_DESCRIPTORS, mtu = 0;
	uint64_t offloads;
	int socket;
	int result = configure(id, setup, &rx, &tx, &offloads, &socket);
	if (result != 0)
		return error_of(result);
	if (rte_eth_dev_get_mtu(id, &mtu) != 0 || mtu < RTE_ETHER_MTU)
		mtu = RTE_ETHER_MTU;
	uint32_t needed = (uint32_t)mtu + ETHERNET_EXTRA;
	if (needed < 2048)
		needed = 2048;
	uint32_t room = RTE_MIN(needed + RTE_PKTMBUF_HEADROOM, (uint32_t)UINT16_MAX);
	port->queues = calloc(setup->queues, sizeof(*port->queues));
	if (port->queues == NULL)
		return -ENOMEM;
	port->queue_count = setup->queues;
	for (uint16_t i = 0; i < setup->queues && result == 0; i++) {
		struct queue *queue = &port->queues[i];
		queue->port = (uint16_t)id;
		queue->number = i;
		queue->offloads = offloads;
		queue->pool = take_pool(rx + tx + SPARE, (uint16_t)room, socket);
		if (queue->pool == NULL)
			result = -ENOMEM;
		if (result == 0)
			result = rte_eth_rx_queue_setup(id, i, rx, socket, NULL, queue->pool->buffers);
		if (result == 0)
			result = rte_eth_tx_queue_setup(id, i, tx, socket, NULL);
		out[i] = queue;
	}
	if (result == 0)
		result = rte_eth_dev_start(id);
	if (result != 0)
		forget_queues(port);
	return result == 0 ? 0 : error_of(result);
}

static void stop(int32_t id)
{
	struct rte_eth_dev_info found;
	struct port *port = &ports[id];
	struct rte_flow_error error;
	if (port->queues != NULL) {
		rte_flow_flush(id, &error);
		rte_eth_dev_stop(id);
	}
	if (!port->is_made)
		rte_eth_dev_close(id);
	else if (rte_eth_dev_info_get(id, &found) == 0)
		rte_dev_remove(found.device);
	forget_queues(port);
}

static int32_t receive(void *handle, struct overside_frame *out, uint32_t max)
{
	const struct queue *queue = handle;
	struct rte_mbuf *found[OVERSIDE_BURST];
	uint16_t wanted = (uint16_t)RTE_MIN(max, (uint32_t)OVERSIDE_BURST);
	uint16_t count = rte_eth_rx_burst(queue->port, queue->number, found, wanted);
	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *buffer = found[i];
		uint32_t flags = 0;
		if (buffer->nb_segs > 1 && rte_pktmbuf_linearize(buffer) != 0)
			flags = OVERSIDE_TOO_LONG;
		uint64_t ip = buffer->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
		uint64_t udp = buffer->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
		if (ip == RTE_MBUF_F_RX_IP_CKSUM_BAD || udp == RTE_MBUF_F_RX_L4_CKSUM_BAD)
			flags |= OVERSIDE_CHECKSUM_BAD;
		if (ip == RTE_MBUF_F_RX_IP_CKSUM_GOOD && udp == RTE_MBUF_F_RX_L4_CKSUM_GOOD)
			flags |= OVERSIDE_CHECKSUM_GOOD;
		out[i].buffer = buffer;
		out[i].data = rte_pktmbuf_mtod(buffer, uint8_t *);
		out[i].len = buffer->data_len;
		out[i].flags = flags;
	}
	return count;
}

static uint32_t allocate(void *handle, struct overside_frame *out, uint32_t count)
{
	const struct queue *queue = handle;
	struct rte_mbuf *taken[OVERSIDE_BURST];
	if (count > OVERSIDE_BURST)
		count = OVERSIDE_BURST;
	if (rte_pktmbuf_alloc_bulk(queue->pool->buffers, taken, count) != 0)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		out[i].buffer = taken[i];
		out[i].data = rte_pktmbuf_mtod(taken[i], uint8_t *);
		out[i].len = rte_pktmbuf_tailroom(taken[i]);
		out[i].flags = (queue->offloads != 0) ? OVERSIDE_OFFLOADS : 0;
	}
	return count;
}

static void release(void *buffer)
{
	rte_pktmbuf_free(buffer);
}

static uint32_t transmit(void *handle, const struct overside_frame *frames, uint32_t count)
{
	const struct queue *queue = handle;
	struct rte_mbuf *buffers[OVERSIDE_BURST];
	if (count > OVERSIDE_BURST)
		count = OVERSIDE_BURST;
	for (uint32_t i = 0; i < count; i++) {
		struct rte_mbuf *buffer = frames[i].buffer;
		buffer->data_len = (uint16_t)frames[i].len;
		buffer->pkt_len = frames[i].len;
		if (frames[i].flags & OVERSIDE_OFFLOADS) {
			buffer->l2_len = frames[i].l2_len;
			buffer->l3_len = sizeof(struct rte_ipv4_hdr);
			buffer->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
		}
		buffers[i] = buffer;
	}
	uint16_t ready = (uint16_t)count;
	/* Some devices want checksums prepared. */
	if (queue->offloads != 0)
		ready = rte_eth_tx_prepare(queue->port, queue->number, buffers, ready);
	return rte_eth_tx_burst(queue->port, queue->number, buffers, ready);
}

static int32_t waiting(void *handle)
{
	const struct queue *queue = handle;
	return rte_eth_rx_queue_count(queue->port, queue->number);
}

static int32_t statistics(int32_t id, struct overside_port_statistics *out)
{
	struct rte_eth_stats found;
	struct port *port = &ports[id];
	memset(out, 0, sizeof(*out));
	int result = rte_eth_stats_get(id, &found);
	if (result != 0)
		return error_of(result);
	for (uint32_t i = 0; i < port->socket_count; i++) {
		/* Each call begins anew. */
		struct tpacket_stats counts;
		socklen_t len = sizeof(counts);
		if (getsockopt(port->sockets[i], SOL_PACKET, PACKET_STATISTICS, &counts, &len) == 0)
			port->dropped += counts.tp_drops;
	}
	out->received = found.ipackets;
	out->sent = found.opackets;
	out->missed = found.imissed + port->dropped;
	out->no_buffer = found.rx_nombuf;
	out->receive_errors = found.ierrors;
	out->send_errors = found.oerrors;
	return 0;
}

static int32_t is_up(int32_t port)
{
	struct rte_eth_link link;
	int result = rte_eth_link_get_nowait(port, &link);
	return result != 0 ? error_of(result) : link.link_status == RTE_ETH_LINK_UP;
}

static int32_t steer(int32_t port, uint32_t address, uint16_t udp_port, uint16_t queue)
{
	const struct rte_flow_attr attributes = {.ingress = 1};
	const struct rte_flow_item_ipv4 ip = {.hdr.dst_addr = htonl(address)};
	const struct rte_flow_item_ipv4 ip_mask = {.hdr.dst_addr = UINT32_MAX};
	const struct rte_flow_item_udp udp = {.hdr.dst_port = htons(udp_port)};
	const struct rte_flow_item_udp udp_mask = {.hdr.dst_port = UINT16_MAX};
	const struct rte_flow_action_queue target = {.index = queue};
	const struct rte_flow_item pattern[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &ip, .mask = &ip_mask},
		{.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &udp_mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &target},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rte_flow_error error;
	int result = rte_flow_validate(port, &attributes, pattern, actions, &error);
	if (result != 0)
		return error_of(result);
	if (rte_flow_create(port, &attributes, pattern, actions, &error) == NULL)
		return error_of(-1);
	return 0;
}

static void unsteer(int32_t port)
{
	struct rte_flow_error error;
	rte_flow_flush(port, &error);
}

const struct overside_ethernet ethernet = {
	.attach = attach,
	.info = info,
	.start = start,
	.stop = stop,
	.receive = receive,
	.allocate = allocate,
	.release = release,
	.transmit = transmit,
	.waiting = waiting,
	.statistics = statistics,
	.is_up = is_up,
	.steer = steer,
	.unsteer = unsteer,
};
