/* regexdev: one set of rules a device, matches with their places. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_regexdev.h>

#include "shim.h"

/* The group that the rules are in. Rule compilers put rules into the first group unasked. */
#define GROUP 1

void match_list(struct overside_device *out, uint32_t max, uint32_t *count)
{
	for (uint16_t id = 0; id < RTE_MAX_REGEXDEV_DEVS && *count < max; id++) {
		struct rte_regexdev_info info = {0};
		if (!rte_regexdev_is_valid_dev(id) ||
		    rte_regexdev_info_get((uint8_t)id, &info) != 0)
			continue;
		struct overside_device *device = &out[(*count)++];
		memset(device, 0, sizeof(*device));
		device->kind = OVERSIDE_MATCH;
		device->id = id;
		device->socket = info.dev != NULL ? rte_dev_numa_node(info.dev) : SOCKET_ID_ANY;
		device->hardware = 1;
		snprintf(device->name, sizeof(device->name), "%s",
			 info.dev != NULL ? rte_dev_name(info.dev) : "regex");
		snprintf(device->driver, sizeof(device->driver), "%s",
			 info.driver_name != NULL ? info.driver_name : "");
	}
}

int32_t match_limits(int32_t id, struct overside_limits *out)
{
	struct rte_regexdev_info info = {0};
	int result = rte_regexdev_info_get((uint8_t)id, &info);
	if (result != 0)
		return result;
	out->queues = info.max_queue_pairs;
	out->source_bytes = info.max_payload_size;
	out->matches = info.max_matches;
	return 0;
}

int32_t match_configure(int32_t id, const struct overside_setup *setup)
{
	struct rte_regexdev_info info = {0};
	int32_t result = rte_regexdev_info_get((uint8_t)id, &info);
	if (result != 0)
		return result;
	/* New rules for a device that runs: it is stopped first. One that does not is not. */
	rte_regexdev_stop((uint8_t)id);
	struct rte_regexdev_config config = {
		.nb_max_matches = (uint16_t)setup->matches,
		.nb_queue_pairs = (uint16_t)setup->queues,
		.nb_rules_per_group = info.max_rules_per_group,
		.nb_groups = 1,
		.rule_db = setup->rules,
		.rule_db_len = setup->rules_len,
	};
	result = rte_regexdev_configure((uint8_t)id, &config);
	struct rte_regexdev_qp_conf qp = {
		.nb_desc = (uint16_t)setup->descriptors,
		.qp_conf_flags = (info.regexdev_capa & RTE_REGEXDEV_CAPA_QUEUE_PAIR_OOS_F) != 0 ?
					 RTE_REGEX_QUEUE_PAIR_CFG_OOS_F :
					 0,
	};
	for (uint16_t queue = 0; result == 0 && queue < setup->queues; queue++)
		result = rte_regexdev_queue_pair_setup((uint8_t)id, queue, &qp);
	return result != 0 ? result : rte_regexdev_start((uint8_t)id);
}

struct place {
	struct rte_mbuf *source;
	struct rte_regex_ops *operation;
};

struct pool {
	struct rte_mempool *buffers;
	struct place *places;
	char *operations;
};

int32_t match_slots(uint32_t count, uint32_t matches, void **out, void **result)
{
	static unsigned int number;
	unsigned int mine = __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED);
	char name[RTE_MEMPOOL_NAMESIZE];
	size_t size = sizeof(struct rte_regex_ops) + matches * sizeof(struct rte_regexdev_match);
	size = RTE_CACHE_LINE_ROUNDUP(size);
	struct pool *pool = calloc(1, sizeof(*pool));
	if (pool == NULL)
		return -ENOMEM;
	*result = pool;
	pool->places = calloc(count, sizeof(*pool->places));
	pool->operations = rte_zmalloc(NULL, count * size, RTE_CACHE_LINE_SIZE);
	snprintf(name, sizeof(name), "ov_rx_%u", mine);
	pool->buffers = rte_pktmbuf_pool_create(name, count, 0, 0, 0, SOCKET_ID_ANY);
	if (pool->places == NULL || pool->operations == NULL || pool->buffers == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct place *place = &pool->places[i];
		place->source = rte_pktmbuf_alloc(pool->buffers);
		place->operation = (struct rte_regex_ops *)(pool->operations + i * size);
		if (place->source == NULL)
			return -ENOMEM;
		out[i] = place;
	}
	return 0;
}

void match_slots_free(void *freed)
{
	struct pool *pool = freed;
	if (pool == NULL)
		return;
	rte_mempool_free(pool->buffers);
	rte_free(pool->operations);
	free(pool->places);
	free(pool);
}

int32_t match_enqueue(int32_t id, uint16_t queue, const struct overside_job *jobs, uint32_t count)
{
	struct rte_regex_ops *operations[OVERSIDE_BURST];
	uint32_t taken = 0;
	while (taken < count) {
		uint16_t burst = (uint16_t)RTE_MIN(count - taken, (uint32_t)OVERSIDE_BURST);
		for (uint16_t i = 0; i < burst; i++) {
			const struct overside_job *job = &jobs[taken + i];
			struct place *place = job->slot;
			struct rte_regex_ops *operation = place->operation;
			buffer_set(place->source, (void *)(uintptr_t)job->segments[0].start,
				   (uint16_t)job->segments[0].len);
			memset(operation, 0, sizeof(*operation));
			operation->mbuf = place->source;
			operation->user_id = job->token;
			operation->req_flags = RTE_REGEX_OPS_REQ_GROUP_ID0_VALID_F;
			operation->group_id0 = GROUP;
			operations[i] = operation;
		}
		uint16_t more = rte_regexdev_enqueue_burst((uint8_t)id, queue, operations, burst);
		taken += more;
		if (more < burst)
			break;
	}
	return (int32_t)taken;
}

int32_t match_dequeue(int32_t id, uint16_t queue, struct overside_result *out, uint32_t max)
{
	const uint16_t limits = RTE_REGEX_OPS_RSP_MAX_SCAN_TIMEOUT_F |
				RTE_REGEX_OPS_RSP_MAX_MATCH_F | RTE_REGEX_OPS_RSP_MAX_PREFIX_F |
				RTE_REGEX_OPS_RSP_RESOURCE_LIMIT_REACHED_F;
	struct rte_regex_ops *operations[OVERSIDE_BURST];
	uint16_t burst = (uint16_t)RTE_MIN(max, (uint32_t)OVERSIDE_BURST);
	uint16_t count = rte_regexdev_dequeue_burst((uint8_t)id, queue, operations, burst);
	for (uint16_t i = 0; i < count; i++) {
		struct rte_regex_ops *operation = operations[i];
		int cut = (operation->rsp_flags & limits) != 0 ||
			  operation->nb_actual_matches > operation->nb_matches;
		out[i] = (struct overside_result){
			.token = operation->user_id,
			.detail = operation->rsp_flags,
			.status = cut ? OVERSIDE_INCOMPLETE : OVERSIDE_DONE,
			.match_count = operation->nb_matches,
			.matches = &operation->matches[0].u64,
		};
	}
	return count;
}
