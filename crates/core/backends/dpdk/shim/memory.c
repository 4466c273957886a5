/* Memory that DPDK knows, and buffers that point into it. */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_memory.h>

#include "shim.h"

/* Without huge pages DPDK's own heap cannot grow. Then a second heap does, by chunks that are
 * registered as external memory. DPDK has places for about a hundred chunks, so each is twice as
 * large as the one before. They are described to DPDK as large pages, because it keeps a record of
 * each page; that they are contiguous is true of their virtual addresses, which is what devices
 * use then (IOVA as VA). */
#define HEAP "overside"
#define PAGE ((size_t)2 << 20)
#define FIRST_CHUNK ((size_t)32 << 20)
#define LARGEST_CHUNK ((size_t)1 << 30)
/* More than anybody asks for; keeps the sums below from overflowing. */
#define LARGEST ((size_t)1 << 46)

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static int heap_socket = -1;
static size_t next_chunk = FIRST_CHUNK;

static size_t rounded(size_t len)
{
	return (len + PAGE - 1) / PAGE * PAGE;
}

/* Lets all devices on a bus reach memory, or no longer. Which device a compressdev or a dmadev sits
 * on cannot be asked for by name, and the user says by --allow which devices there are at all. */
static int for_devices(void *start, size_t len, int map)
{
	static const char *const buses[] = {"bus=pci", "bus=auxiliary"};
	uint64_t address = rte_mem_virt2iova(start);
	for (size_t bus = 0; bus < RTE_DIM(buses); bus++) {
		struct rte_dev_iterator iterator;
		struct rte_device *device;
		RTE_DEV_FOREACH(device, buses[bus], &iterator) {
			if (rte_dev_driver(device) == NULL)
				continue;
			int result = map ? rte_dev_dma_map(device, start, address, len) :
					   rte_dev_dma_unmap(device, start, address, len);
			/* A driver that finds memory by itself has nothing to map. */
			if (map && result != 0 && rte_errno != ENOTSUP && rte_errno != EEXIST)
				return -(rte_errno > 0 ? rte_errno : EIO);
		}
	}
	return 0;
}

static int add_chunk(size_t len)
{
	size_t whole = len + PAGE;
	char *area = mmap(NULL, whole, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return -ENOMEM;
	char *start = (char *)rounded((size_t)area);
	unsigned int pages = len / PAGE;
	rte_iova_t *addresses = malloc(pages * sizeof(*addresses));
	int result = -1;
	if (addresses != NULL) {
		for (unsigned int i = 0; i < pages; i++)
			addresses[i] = (rte_iova_t)(uintptr_t)(start + i * PAGE);
		result = rte_malloc_heap_memory_add(HEAP, start, len, addresses, pages, PAGE);
		free(addresses);
	}
	if (result != 0) {
		munmap(area, whole);
		return result;
	}
	return for_devices(start, len, 1);
}

/* Under the lock. */
static int has_heap(void)
{
	if (heap_socket < 0 && rte_malloc_heap_create(HEAP) == 0)
		heap_socket = rte_malloc_heap_get_socket(HEAP);
	return heap_socket >= 0;
}

int32_t memory_reserve(size_t len)
{
	pthread_mutex_lock(&heap_lock);
	/* A chunk of its own, because what is free may be in pieces. */
	int32_t result = -ENOMEM;
	if (len <= LARGEST && has_heap() && add_chunk(rounded(len) + PAGE) == 0)
		result = heap_socket;
	pthread_mutex_unlock(&heap_lock);
	return result;
}

/* Under the lock. */
static void *grow_and_allocate(size_t len, size_t align)
{
	if (!has_heap())
		return NULL;
	void *found = rte_zmalloc_socket(NULL, len, align, heap_socket);
	if (found != NULL)
		return found;
	/* What the allocator itself needs fits into a page. */
	size_t least = rounded(len + align + PAGE);
	size_t chunk = least > next_chunk ? least : next_chunk;
	if (add_chunk(chunk) != 0)
		return NULL;
	if (next_chunk < LARGEST_CHUNK)
		next_chunk *= 2;
	return rte_zmalloc_socket(NULL, len, align, heap_socket);
}

void *memory_allocate(size_t len, size_t align)
{
	if (len > LARGEST || align > LARGEST)
		return NULL;
	if (len == 0)
		len = 1;
	if (rte_eal_has_hugepages())
		return rte_zmalloc_socket(NULL, len, align, SOCKET_ID_ANY);
	pthread_mutex_lock(&heap_lock);
	void *found = grow_and_allocate(len, align);
	pthread_mutex_unlock(&heap_lock);
	return found;
}

void memory_release(void *start)
{
	rte_free(start);
}

int32_t memory_known(const void *start, size_t len)
{
	const char *first = start;
	return rte_mem_virt2memseg_list(first) != NULL &&
	       (len == 0 || rte_mem_virt2memseg_list(first + len - 1) != NULL);
}

int32_t memory_map(void *start, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned int pages = len / page;
	rte_iova_t *addresses = malloc(pages * sizeof(*addresses));
	if (addresses == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < pages; i++)
		addresses[i] = rte_mem_virt2iova((char *)start + i * page);
	int result = rte_extmem_register(start, len, addresses, pages, page);
	free(addresses);
	if (result != 0)
		return -(rte_errno > 0 ? rte_errno : EIO);
	result = for_devices(start, len, 1);
	if (result != 0)
		memory_unmap(start, len);
	return result;
}

int32_t memory_unmap(void *start, size_t len)
{
	for_devices(start, len, 0);
	return rte_extmem_unregister(start, len) == 0 ? 0 : -(rte_errno > 0 ? rte_errno : EIO);
}

/* Attaches memory as rte_pktmbuf_attach_extbuf() does, but for good: these mbufs are filled again
 * for each job and go with their pool. Both lengths are set because drivers differ in which they
 * read: mlx5 takes a destination's from pkt_len, the software drivers from data_len. */
void buffer_set(struct rte_mbuf *buffer, void *start, uint16_t len)
{
	buffer->buf_addr = start;
	rte_mbuf_iova_set(buffer, rte_mem_virt2iova(start));
	buffer->buf_len = len;
	buffer->data_off = 0;
	buffer->data_len = len;
	buffer->pkt_len = len;
	buffer->nb_segs = 1;
	buffer->next = NULL;
	buffer->ol_flags = RTE_MBUF_F_EXTERNAL;
}
