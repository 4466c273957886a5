/* compressdev: stateless jobs on mbufs that point into the caller's memory. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_comp.h>
#include <rte_compressdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

#include "shim.h"

/* From this version on compressdev knows LZ4. */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
#define HAS_LZ4 1
#endif

void compress_list(struct overside_device *out, uint32_t max, uint32_t *count)
{
	/* Numbers are given out in order; asking for the name of one that is not, crashes. */
	int known = rte_compressdev_count();
	for (int id = 0; id < known && *count < max; id++) {
		const char *name = rte_compressdev_name_get((uint8_t)id);
		if (name == NULL)
			continue;
		struct rte_compressdev_info info = {0};
		rte_compressdev_info_get((uint8_t)id, &info);
		struct overside_device *device = &out[(*count)++];
		memset(device, 0, sizeof(*device));
		device->kind = OVERSIDE_COMPRESS;
		device->id = id;
		device->socket = rte_compressdev_socket_id((uint8_t)id);
		device->hardware = (info.feature_flags & RTE_COMPDEV_FF_HW_ACCELERATED) != 0;
		snprintf(device->name, sizeof(device->name), "%s", name);
		snprintf(device->driver, sizeof(device->driver), "%s",
			 info.driver_name != NULL ? info.driver_name : "");
	}
}

int32_t compress_limits(int32_t id, struct overside_limits *out)
{
	const uint64_t chained = RTE_COMP_FF_OOP_SGL_IN_SGL_OUT | RTE_COMP_FF_OOP_SGL_IN_LB_OUT;
	struct rte_compressdev_info info = {0};
	rte_compressdev_info_get((uint8_t)id, &info);
	if (info.capabilities == NULL)
		return -ENODEV;
	out->queues = info.max_nb_queue_pairs;
	out->flags = OVERSIDE_SHARED_TRANSFORM | OVERSIDE_CHAINED;
	const struct rte_compressdev_capabilities *one = info.capabilities;
	for (; one->algo != RTE_COMP_ALGO_UNSPECIFIED; one++) {
		if ((one->comp_feature_flags & RTE_COMP_FF_SHAREABLE_PRIV_XFORM) == 0)
			out->flags &= ~(uint32_t)OVERSIDE_SHARED_TRANSFORM;
		if (one->algo == RTE_COMP_ALGO_DEFLATE && (one->comp_feature_flags & chained) == 0)
			out->flags &= ~(uint32_t)OVERSIDE_CHAINED;
	}
	return 0;
}

int32_t compress_configure(int32_t id, const struct overside_setup *setup)
{
	int socket = rte_compressdev_socket_id((uint8_t)id);
	struct rte_compressdev_config config = {
		.socket_id = socket,
		.nb_queue_pairs = (uint16_t)setup->queues,
		.max_nb_priv_xforms = (uint16_t)setup->transforms,
	};
	int result = rte_compressdev_configure((uint8_t)id, &config);
	for (uint16_t queue = 0; result == 0 && queue < setup->queues; queue++)
		result = rte_compressdev_queue_pair_setup((uint8_t)id, queue, setup->descriptors,
							  socket);
	return result != 0 ? result : rte_compressdev_start((uint8_t)id);
}

int32_t compress_transform(int32_t id, uint32_t transform, int32_t level, void **out)
{
	enum rte_comp_algorithm algorithm = RTE_COMP_ALGO_DEFLATE;
	if (transform == OVERSIDE_LZ4_COMPRESS || transform == OVERSIDE_LZ4_DECOMPRESS) {
#ifdef HAS_LZ4
		algorithm = RTE_COMP_ALGO_LZ4;
#else
		return -ENOTSUP;
#endif
	}
	const struct rte_compressdev_capabilities *found =
		rte_compressdev_capability_get((uint8_t)id, algorithm);
	if (found == NULL)
		return -ENOTSUP;
	struct rte_comp_xform form;
	memset(&form, 0, sizeof(form));
	if (transform == OVERSIDE_DEFLATE_COMPRESS || transform == OVERSIDE_LZ4_COMPRESS) {
		form.type = RTE_COMP_COMPRESS;
		form.compress.algo = algorithm;
		form.compress.level = level;
		form.compress.window_size = found->window_size.max;
		form.compress.chksum = RTE_COMP_CHECKSUM_NONE;
		form.compress.hash_algo = RTE_COMP_HASH_ALGO_NONE;
		if (algorithm == RTE_COMP_ALGO_DEFLATE)
			form.compress.deflate.huffman =
				(found->comp_feature_flags & RTE_COMP_FF_HUFFMAN_DYNAMIC) != 0 ?
					RTE_COMP_HUFFMAN_DYNAMIC :
					RTE_COMP_HUFFMAN_DEFAULT;
	} else {
		form.type = RTE_COMP_DECOMPRESS;
		form.decompress.algo = algorithm;
		form.decompress.window_size = found->window_size.max;
		form.decompress.chksum = RTE_COMP_CHECKSUM_NONE;
		form.decompress.hash_algo = RTE_COMP_HASH_ALGO_NONE;
#ifdef HAS_LZ4
		/* One block by itself, without a checksum behind it. */
		if (algorithm == RTE_COMP_ALGO_LZ4)
			form.decompress.lz4.flags = RTE_COMP_LZ4_FLAG_BLOCK_INDEPENDENCE;
#endif
	}
	return rte_compressdev_private_xform_create((uint8_t)id, &form, out);
}

void compress_transform_free(int32_t id, void *transform)
{
	rte_compressdev_private_xform_free((uint8_t)id, transform);
}

/* An operation with its buffers: one destination, and as many sources as a chain may have. */
struct place {
	struct rte_comp_op *operation;
	uint64_t token;
	struct rte_mbuf *destination;
	struct rte_mbuf *sources[];
};

struct pool {
	struct rte_mempool *operations;
	struct rte_mempool *buffers;
	char *places;
};

/* Where an operation says which place it belongs to, behind what is DPDK's. */
static struct place **place_of(struct rte_comp_op *operation)
{
	return (struct place **)(operation + 1);
}

int32_t compress_slots(uint32_t count, uint32_t segments, void **out, void **result)
{
	/* Pools have names, and those are unique. */
	static unsigned int number;
	unsigned int mine = __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED);
	char name[RTE_MEMPOOL_NAMESIZE];
	size_t size = sizeof(struct place) + segments * sizeof(struct rte_mbuf *);
	struct pool *pool = calloc(1, sizeof(*pool));
	if (pool == NULL)
		return -ENOMEM;
	*result = pool;
	pool->places = calloc(count, size);
	snprintf(name, sizeof(name), "ov_op_%u", mine);
	pool->operations = rte_comp_op_pool_create(name, count, 0, sizeof(struct place *),
						   SOCKET_ID_ANY);
	snprintf(name, sizeof(name), "ov_buf_%u", mine);
	pool->buffers = rte_pktmbuf_pool_create(name, count * (segments + 1), 0, 0, 0,
						SOCKET_ID_ANY);
	if (pool->places == NULL || pool->operations == NULL || pool->buffers == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct place *place = (struct place *)(pool->places + i * size);
		place->operation = rte_comp_op_alloc(pool->operations);
		place->destination = rte_pktmbuf_alloc(pool->buffers);
		if (place->operation == NULL || place->destination == NULL)
			return -ENOMEM;
		for (uint32_t j = 0; j < segments; j++) {
			place->sources[j] = rte_pktmbuf_alloc(pool->buffers);
			if (place->sources[j] == NULL)
				return -ENOMEM;
		}
		*place_of(place->operation) = place;
		out[i] = place;
	}
	return 0;
}

void compress_slots_free(void *freed)
{
	struct pool *pool = freed;
	if (pool == NULL)
		return;
	/* What was taken out of the pools goes with them. */
	rte_mempool_free(pool->operations);
	rte_mempool_free(pool->buffers);
	free(pool->places);
	free(pool);
}

static struct rte_comp_op *prepare(const struct overside_job *job)
{
	struct place *place = job->slot;
	struct rte_comp_op *operation = place->operation;
	struct rte_mbuf *first = place->sources[0];
	uint32_t total = 0;
	for (uint32_t i = 0; i < job->segment_count; i++) {
		struct rte_mbuf *source = place->sources[i];
		buffer_set(source, (void *)(uintptr_t)job->segments[i].start,
			   (uint16_t)job->segments[i].len);
		if (i > 0)
			place->sources[i - 1]->next = source;
		total += (uint32_t)job->segments[i].len;
	}
	first->nb_segs = (uint16_t)job->segment_count;
	first->pkt_len = total;
	buffer_set(place->destination, job->destination, (uint16_t)job->destination_len);
	place->token = job->token;
	operation->op_type = RTE_COMP_OP_STATELESS;
	operation->private_xform = job->transform;
	operation->m_src = first;
	operation->m_dst = place->destination;
	operation->src.offset = 0;
	operation->src.length = total;
	operation->dst.offset = 0;
	operation->flush_flag = RTE_COMP_FLUSH_FINAL;
	operation->input_chksum = 0;
	operation->consumed = 0;
	operation->produced = 0;
	operation->debug_status = 0;
	operation->status = RTE_COMP_OP_STATUS_NOT_PROCESSED;
	return operation;
}

int32_t compress_enqueue(int32_t id, uint16_t queue, const struct overside_job *jobs,
			 uint32_t count)
{
	struct rte_comp_op *operations[OVERSIDE_BURST];
	uint32_t taken = 0;
	while (taken < count) {
		uint16_t burst = (uint16_t)RTE_MIN(count - taken, (uint32_t)OVERSIDE_BURST);
		for (uint16_t i = 0; i < burst; i++)
			operations[i] = prepare(&jobs[taken + i]);
		uint16_t more =
			rte_compressdev_enqueue_burst((uint8_t)id, queue, operations, burst);
		taken += more;
		if (more < burst)
			break;
	}
	return (int32_t)taken;
}

static uint32_t status_of(const struct rte_comp_op *operation)
{
	switch (operation->status) {
	case RTE_COMP_OP_STATUS_SUCCESS:
		return OVERSIDE_DONE;
	case RTE_COMP_OP_STATUS_OUT_OF_SPACE_TERMINATED:
	case RTE_COMP_OP_STATUS_OUT_OF_SPACE_RECOVERABLE:
		return OVERSIDE_NO_SPACE;
	case RTE_COMP_OP_STATUS_INVALID_ARGS:
	case RTE_COMP_OP_STATUS_INVALID_STATE:
		return OVERSIDE_INVALID;
	}
	return OVERSIDE_ERROR;
}

int32_t compress_dequeue(int32_t id, uint16_t queue, struct overside_result *out, uint32_t max)
{
	struct rte_comp_op *operations[OVERSIDE_BURST];
	uint16_t burst = (uint16_t)RTE_MIN(max, (uint32_t)OVERSIDE_BURST);
	uint16_t count = rte_compressdev_dequeue_burst((uint8_t)id, queue, operations, burst);
	for (uint16_t i = 0; i < count; i++) {
		struct rte_comp_op *operation = operations[i];
		out[i] = (struct overside_result){
			.token = (*place_of(operation))->token,
			.detail = operation->debug_status,
			.status = status_of(operation),
			.produced = operation->produced,
			.consumed = operation->consumed,
		};
	}
	return count;
}
