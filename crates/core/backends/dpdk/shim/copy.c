/* dmadev: copies, in order on each channel. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_dmadev.h>
#include <rte_memory.h>

#include "shim.h"

/* The longest copy of one descriptor in bytes. The interface has no question for it, and there is
 * hardware that counts with 16 bits. */
#define LONGEST 65535u

/* Descriptors that are in a channel, oldest first. A job takes several; it is over with its
 * last. */
struct channel {
	uint64_t *tokens;
	uint8_t *last;
	uint32_t head, tail, mask;
	int failed; /* code of the first descriptor of the current job that failed */
};

static struct channel *channels[RTE_DMADEV_DEFAULT_MAX];

void copy_list(struct overside_device *out, uint32_t max, uint32_t *count)
{
	int16_t id;
	RTE_DMA_FOREACH_DEV(id) {
		struct rte_dma_info info = {0};
		if (*count == max || id >= RTE_DMADEV_DEFAULT_MAX ||
		    rte_dma_info_get(id, &info) != 0)
			continue;
		struct overside_device *device = &out[(*count)++];
		memset(device, 0, sizeof(*device));
		device->kind = OVERSIDE_COPY;
		device->id = id;
		device->socket = info.numa_node;
		/* There is no flag for it; what is not on a bus is software. */
		device->hardware = strchr(info.dev_name, ':') != NULL;
		snprintf(device->name, sizeof(device->name), "%s", info.dev_name);
	}
}

int32_t copy_limits(int32_t id, struct overside_limits *out)
{
	const uint64_t needed = RTE_DMA_CAPA_MEM_TO_MEM | RTE_DMA_CAPA_OPS_COPY;
	struct rte_dma_info info = {0};
	int result = rte_dma_info_get((int16_t)id, &info);
	if (result != 0)
		return result;
	if ((info.dev_capa & needed) != needed)
		return -ENOTSUP;
	out->queues = info.max_vchans;
	out->descriptors = info.max_desc;
	return 0;
}

static int32_t channel_init(struct channel *channel, uint32_t descriptors)
{
	uint32_t size = 1;
	while (size < descriptors)
		size *= 2;
	channel->tokens = calloc(size, sizeof(*channel->tokens));
	channel->last = calloc(size, sizeof(*channel->last));
	channel->mask = size - 1;
	return channel->tokens != NULL && channel->last != NULL ? 0 : -ENOMEM;
}

int32_t copy_configure(int32_t id, const struct overside_setup *setup)
{
	if (id < 0 || id >= RTE_DMADEV_DEFAULT_MAX)
		return -EINVAL;
	struct rte_dma_conf conf = {.nb_vchans = (uint16_t)setup->queues};
	int32_t result = rte_dma_configure((int16_t)id, &conf);
	channels[id] = calloc(setup->queues, sizeof(**channels));
	if (channels[id] == NULL)
		return -ENOMEM;
	struct rte_dma_vchan_conf vchan = {
		.direction = RTE_DMA_DIR_MEM_TO_MEM,
		.nb_desc = (uint16_t)setup->descriptors,
	};
	for (uint16_t queue = 0; result == 0 && queue < setup->queues; queue++) {
		result = rte_dma_vchan_setup((int16_t)id, queue, &vchan);
		if (result == 0)
			result = channel_init(&channels[id][queue], setup->descriptors);
	}
	return result != 0 ? result : rte_dma_start((int16_t)id);
}

static uint32_t descriptors_of(const struct overside_job *job)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < job->segment_count; i++)
		count += (uint32_t)((job->segments[i].len + LONGEST - 1) / LONGEST);
	return count;
}

static int32_t copy_one(int32_t id, uint16_t queue, struct channel *channel, uint64_t token,
			const char *from, char *to, uint32_t len)
{
	/* Interior pointers: rte_malloc_virt2iova() would look for an allocation's header before
	 * them. */
	int result = rte_dma_copy((int16_t)id, queue, rte_mem_virt2iova(from),
				  rte_mem_virt2iova(to), len, 0);
	if (result < 0)
		return result;
	uint32_t place = channel->tail++ & channel->mask;
	channel->tokens[place] = token;
	channel->last[place] = 0;
	return 0;
}

static int32_t copy_job(int32_t id, uint16_t queue, struct channel *channel,
			const struct overside_job *job)
{
	char *to = job->destination;
	for (uint32_t i = 0; i < job->segment_count; i++) {
		const char *from = job->segments[i].start;
		uint64_t left = job->segments[i].len;
		while (left > 0) {
			uint32_t len = left < LONGEST ? (uint32_t)left : LONGEST;
			int32_t result = copy_one(id, queue, channel, job->token, from, to, len);
			if (result < 0)
				return result;
			from += len;
			to += len;
			left -= len;
		}
	}
	channel->last[(channel->tail - 1) & channel->mask] = 1;
	return 0;
}

int32_t copy_enqueue(int32_t id, uint16_t queue, const struct overside_job *jobs, uint32_t count)
{
	struct channel *channel = &channels[id][queue];
	enum rte_dma_vchan_status status;
	if (rte_dma_vchan_status((int16_t)id, queue, &status) == 0 &&
	    status == RTE_DMA_VCHAN_HALTED_ERROR)
		return -EIO;
	uint32_t taken = 0;
	for (; taken < count; taken++) {
		/* A job goes in whole or not at all. */
		if (rte_dma_burst_capacity((int16_t)id, queue) < descriptors_of(&jobs[taken]))
			break;
		int32_t result = copy_job(id, queue, channel, &jobs[taken]);
		if (result < 0)
			return result;
	}
	if (taken > 0) {
		int result = rte_dma_submit((int16_t)id, queue);
		if (result != 0)
			return result;
	}
	return (int32_t)taken;
}

int32_t copy_dequeue(int32_t id, uint16_t queue, struct overside_result *out, uint32_t max)
{
	struct channel *channel = &channels[id][queue];
	enum rte_dma_status_code codes[OVERSIDE_BURST];
	uint32_t done = 0;
	while (done < max) {
		uint16_t burst = (uint16_t)RTE_MIN(max - done, (uint32_t)OVERSIDE_BURST);
		uint16_t count =
			rte_dma_completed_status((int16_t)id, queue, burst, NULL, codes);
		if (count == 0)
			break;
		for (uint16_t i = 0; i < count; i++) {
			uint32_t place = channel->head++ & channel->mask;
			if (codes[i] != RTE_DMA_STATUS_SUCCESSFUL && channel->failed == 0)
				channel->failed = (int)codes[i];
			if (!channel->last[place])
				continue;
			out[done++] = (struct overside_result){
				.token = channel->tokens[place],
				.status = channel->failed != 0 ? OVERSIDE_ERROR : OVERSIDE_DONE,
				.detail = (uint64_t)channel->failed,
			};
			channel->failed = 0;
		}
	}
	return (int32_t)done;
}
