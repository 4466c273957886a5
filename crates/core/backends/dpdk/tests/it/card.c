/* A compressdev that treats its jobs as a card's driver does and software drivers do not: linked
 * with the shim in place of DPDK's own functions. It takes a destination's room from pkt_len, a
 * single segment only, and only memory that DPDK knows, by its device address. */

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include <rte_comp.h>
#include <rte_compressdev.h>
#include <rte_mbuf.h>
#include <rte_memory.h>

static const struct rte_compressdev_capabilities capabilities[] = {
	{
		.algo = RTE_COMP_ALGO_DEFLATE,
		.comp_feature_flags = RTE_COMP_FF_SHAREABLE_PRIV_XFORM | RTE_COMP_FF_HUFFMAN_DYNAMIC,
		.window_size = {.min = 10, .max = 15, .increment = 1},
	},
	RTE_COMP_END_OF_CAPABILITIES_LIST()
};

uint8_t rte_compressdev_count(void)
{
	return 1;
}

const char *rte_compressdev_name_get(uint8_t id)
{
	return id == 0 ? "card0" : NULL;
}

int rte_compressdev_socket_id(uint8_t id)
{
	(void)id;
	return 0;
}

void rte_compressdev_info_get(uint8_t id, struct rte_compressdev_info *info)
{
	(void)id;
	info->driver_name = "compress_card";
	info->feature_flags = RTE_COMPDEV_FF_HW_ACCELERATED;
	info->capabilities = capabilities;
	info->max_nb_queue_pairs = 2;
}

const struct rte_compressdev_capabilities *
rte_compressdev_capability_get(uint8_t id, enum rte_comp_algorithm algo)
{
	(void)id;
	return algo == RTE_COMP_ALGO_DEFLATE ? &capabilities[0] : NULL;
}

int rte_compressdev_configure(uint8_t id, struct rte_compressdev_config *config)
{
	return id == 0 && config->nb_queue_pairs <= 2 ? 0 : -EINVAL;
}

int rte_compressdev_queue_pair_setup(uint8_t id, uint16_t queue, uint32_t max, int socket)
{
	(void)max, (void)socket;
	return id == 0 && queue < 2 ? 0 : -EINVAL;
}

int rte_compressdev_start(uint8_t id)
{
	return id == 0 ? 0 : -EINVAL;
}

int rte_compressdev_private_xform_create(uint8_t id, const struct rte_comp_xform *form, void **out)
{
	static char compress, decompress;
	(void)id;
	*out = form->type == RTE_COMP_COMPRESS ? &compress : &decompress;
	*(char *)*out = form->type == RTE_COMP_COMPRESS;
	return 0;
}

int rte_compressdev_private_xform_free(uint8_t id, void *transform)
{
	(void)id, (void)transform;
	return 0;
}

static int reachable(const struct rte_mbuf *buffer)
{
	const char *start = rte_pktmbuf_mtod(buffer, const char *);
	return rte_mem_virt2memseg_list(start) != NULL &&
	       rte_mem_virt2memseg_list(start + buffer->pkt_len - 1) != NULL &&
	       rte_mbuf_iova_get(buffer) == rte_mem_virt2iova(start);
}

static void run(struct rte_comp_op *op)
{
	struct rte_mbuf *from = op->m_src, *to = op->m_dst;
	op->status = RTE_COMP_OP_STATUS_INVALID_ARGS;
	if (op->op_type != RTE_COMP_OP_STATELESS || op->flush_flag < RTE_COMP_FLUSH_FULL ||
	    from->nb_segs != 1 || to->nb_segs != 1 || from->next != NULL || to->next != NULL)
		return;
	op->status = RTE_COMP_OP_STATUS_ERROR;
	if (!reachable(from) || !reachable(to))
		return;
	z_stream stream = {
		.next_in = rte_pktmbuf_mtod_offset(from, uint8_t *, op->src.offset),
		.avail_in = op->src.length,
		.next_out = rte_pktmbuf_mtod_offset(to, uint8_t *, op->dst.offset),
		.avail_out = rte_pktmbuf_pkt_len(to) - op->dst.offset,
	};
	int compress = *(char *)op->private_xform, result;
	if (compress) {
		deflateInit2(&stream, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
		result = deflate(&stream, Z_FINISH);
		deflateEnd(&stream);
	} else {
		inflateInit2(&stream, -15);
		result = inflate(&stream, Z_FINISH);
		inflateEnd(&stream);
	}
	if (result == Z_STREAM_END && stream.avail_in == 0) {
		op->status = RTE_COMP_OP_STATUS_SUCCESS;
		op->consumed = op->src.length;
		op->produced = (uint32_t)stream.total_out;
	} else if (result != Z_DATA_ERROR && result != Z_STREAM_END && stream.avail_out == 0) {
		op->status = RTE_COMP_OP_STATUS_OUT_OF_SPACE_TERMINATED;
	}
}

#define ENTRIES 4096u
static struct queue {
	struct rte_comp_op *entries[ENTRIES];
	uint32_t head, tail;
} queues[2];

uint16_t rte_compressdev_enqueue_burst(uint8_t id, uint16_t queue, struct rte_comp_op **ops,
				       uint16_t count)
{
	struct queue *q = &queues[queue];
	uint16_t taken = 0;
	(void)id;
	while (taken < count && q->tail - q->head < 100)
		q->entries[q->tail++ % ENTRIES] = ops[taken++];
	return taken;
}

uint16_t rte_compressdev_dequeue_burst(uint8_t id, uint16_t queue, struct rte_comp_op **ops,
				       uint16_t count)
{
	struct queue *q = &queues[queue];
	uint16_t done = 0;
	(void)id;
	while (done < count && q->head != q->tail) {
		struct rte_comp_op *op = q->entries[q->head++ % ENTRIES];
		run(op);
		ops[done++] = op;
	}
	return done;
}
