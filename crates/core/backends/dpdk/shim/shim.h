/* What the Rust side sees of DPDK: one table of functions over flat structures, so that nothing of
 * DPDK's own types crosses the border. src/shim.rs mirrors this file; raise OVERSIDE_DPDK_ABI when
 * anything in it changes.
 *
 * Functions that can fail return 0 or more, or a negative errno. */

#ifndef OVERSIDE_SHIM_H
#define OVERSIDE_SHIM_H

#include <stddef.h>
#include <stdint.h>

#define OVERSIDE_DPDK_ABI 2

/* Device classes. */
enum {
	OVERSIDE_COMPRESS = 1, /* rte_compressdev */
	OVERSIDE_COPY = 2,     /* rte_dmadev */
	OVERSIDE_MATCH = 3,    /* rte_regexdev */
};

/* Transforms of a compressdev. */
enum {
	OVERSIDE_DEFLATE_COMPRESS = 1,
	OVERSIDE_DEFLATE_DECOMPRESS = 2,
	OVERSIDE_LZ4_COMPRESS = 3,
	OVERSIDE_LZ4_DECOMPRESS = 4,
};

/* What became of a job. */
enum {
	OVERSIDE_DONE = 0,
	OVERSIDE_NO_SPACE = 1,
	OVERSIDE_ERROR = 2,       /* the data or the device is to blame: drivers do not say */
	OVERSIDE_INVALID = 3,     /* the driver does not take jobs like this */
	OVERSIDE_INCOMPLETE = 4,  /* a match that hit one of the engine's limits */
};

/* Flags of overside_limits. */
enum {
	OVERSIDE_SHARED_TRANSFORM = 1, /* one transform may be in several jobs in flight */
	OVERSIDE_CHAINED = 2,          /* the driver says that it takes chains of segments */
};

struct overside_device {
	uint32_t kind;
	int32_t id;
	int32_t socket;
	uint32_t hardware;
	char name[64];
	char driver[64];
};

struct overside_limits {
	uint32_t queues;       /* 0: as many as wanted */
	uint32_t descriptors;  /* 0: as many as wanted */
	uint32_t source_bytes; /* of one job; 0: the driver does not say */
	uint32_t matches;      /* that one job can return */
	uint32_t flags;
};

struct overside_setup {
	uint32_t queues;
	uint32_t descriptors;
	uint32_t transforms;
	uint32_t matches;
	uint32_t rules_len;
	const char *rules; /* of a regexdev, compiled before */
};

struct overside_segment {
	const void *start;
	uint64_t len;
};

struct overside_job {
	uint64_t token;
	void *slot;
	void *transform;
	const struct overside_segment *segments;
	void *destination;
	uint32_t segment_count;
	uint32_t destination_len;
};

struct overside_result {
	uint64_t token;
	uint64_t detail; /* the driver's own code, where it has one */
	uint32_t status;
	uint32_t produced;
	uint32_t consumed;
	uint32_t match_count;
	/* struct rte_regexdev_match each: rule in bits 0..19, start in 32..47, length in 48..63. Valid
	 * until the slot is used again. */
	const uint64_t *matches;
};

/* Flags of overside_frame. */
enum {
	OVERSIDE_CHECKSUM_GOOD = 1, /* the device has looked at the checksums of IPv4 and UDP */
	OVERSIDE_CHECKSUM_BAD = 2,
	OVERSIDE_TOO_LONG = 4,      /* it is not in one piece */
	OVERSIDE_OFFLOADS = 8,      /* to be sent: the device fills in both checksums */
};

struct overside_port_info {
	char driver[64];
	uint8_t mac[6];
	uint16_t mtu;    /* longest IP packet */
	uint16_t queues; /* at most */
};

struct overside_port_setup {
	uint16_t queues;
	uint16_t rx_descriptors; /* of each; the driver may take other numbers */
};

struct overside_frame {
	void *buffer;
	uint8_t *data;
	uint32_t len;    /* of a buffer to be sent: its room */
	uint32_t flags;
	uint32_t l2_len; /* to be sent with OVERSIDE_OFFLOADS: where IP begins */
};

/* Frames since the start. */
struct overside_port_statistics {
	uint64_t received;
	uint64_t sent;
	uint64_t missed;    /* no descriptor was free */
	uint64_t no_buffer; /* no buffer was free */
	uint64_t receive_errors;
	uint64_t send_errors;
};

/* Ethernet ports. One thread at a time opens, closes and steers; a queue belongs to one thread. */
struct overside_ethernet {
	/* The number of a port, which is made if it is a virtual device. */
	int32_t (*attach)(const char *name, const char *arguments);
	int32_t (*info)(int32_t port, struct overside_port_info *out);
	/* Sets up and starts all queues, and returns them in `queues`. */
	int32_t (*start)(int32_t port, const struct overside_port_setup *setup, void **queues);
	/* Closes it; virtual devices go. Its frames stay. */
	void (*stop)(int32_t port);
	int32_t (*receive)(void *queue, struct overside_frame *out, uint32_t max);
	/* Buffers for frames to be sent: all or none. */
	uint32_t (*allocate)(void *queue, struct overside_frame *out, uint32_t count);
	void (*release)(void *buffer);
	/* How many were sent, from the first on; the others stay the caller's. */
	uint32_t (*transmit)(void *queue, const struct overside_frame *frames, uint32_t count);
	/* Frames that wait to be received, where the driver says that. */
	int32_t (*waiting)(void *queue);
	int32_t (*statistics)(int32_t port, struct overside_port_statistics *out);
	int32_t (*is_up)(int32_t port);
	/* Has datagrams to an IPv4 address and a UDP port arrive at a queue (rte_flow). */
	int32_t (*steer)(int32_t port, uint32_t address, uint16_t udp_port, uint16_t queue);
	void (*unsteer)(int32_t port);
};

struct overside_dpdk {
	uint32_t abi;
	const char *(*version)(void);
	/* Once a process. `directory` replaces the place for run-time files; null leaves it. */
	int32_t (*start)(int32_t argc, char **argv, const char *directory);
	/* Copies what DPDK has logged since the last call, NUL-terminated, and forgets it. */
	void (*messages)(char *out, size_t len);
	/* Makes the calling thread one of DPDK's; 1 if it is already. */
	int32_t (*thread_enter)(void);
	void (*thread_leave)(void);
	/* Makes a virtual device. */
	int32_t (*create)(const char *name);
	uint32_t (*devices)(struct overside_device *out, uint32_t max);
	int32_t (*limits)(uint32_t kind, int32_t id, struct overside_limits *out);
	/* Sets up and starts all queues. */
	int32_t (*configure)(uint32_t kind, int32_t id, const struct overside_setup *setup);
	/* Zeroed memory that DPDK knows; null if there is none. */
	void *(*allocate)(size_t len, size_t align);
	void (*release)(void *start);
	/* Makes DPDK and its devices know memory; whole pages. */
	int32_t (*map)(void *start, size_t len);
	int32_t (*unmap)(void *start, size_t len);
	/* Whether DPDK knows the memory. */
	int32_t (*known)(const void *start, size_t len);
	int32_t (*transform)(int32_t id, uint32_t transform, int32_t level, void **out);
	void (*transform_free)(int32_t id, void *transform);
	/* Places for `count` jobs in flight, in `out`; freed all at once. */
	int32_t (*slots)(uint32_t kind, uint32_t count, uint32_t segments, uint32_t matches,
			 void **out, void **pool);
	void (*slots_free)(uint32_t kind, void *pool);
	/* How many jobs were taken, or that the device is gone. */
	int32_t (*enqueue)(uint32_t kind, int32_t id, uint16_t queue,
			   const struct overside_job *jobs, uint32_t count);
	int32_t (*dequeue)(uint32_t kind, int32_t id, uint16_t queue,
			   struct overside_result *out, uint32_t max);
	const struct overside_ethernet *ethernet;
};

/* The library's only symbol. */
extern const struct overside_dpdk overside_dpdk;

/* Between the shim's own files. */
#define OVERSIDE_BURST 64

void compress_list(struct overside_device *out, uint32_t max, uint32_t *count);
int32_t compress_limits(int32_t id, struct overside_limits *out);
int32_t compress_configure(int32_t id, const struct overside_setup *setup);
int32_t compress_transform(int32_t id, uint32_t transform, int32_t level, void **out);
void compress_transform_free(int32_t id, void *transform);
int32_t compress_slots(uint32_t count, uint32_t segments, void **out, void **pool);
void compress_slots_free(void *pool);
int32_t compress_enqueue(int32_t id, uint16_t queue, const struct overside_job *jobs,
			 uint32_t count);
int32_t compress_dequeue(int32_t id, uint16_t queue, struct overside_result *out, uint32_t max);

void copy_list(struct overside_device *out, uint32_t max, uint32_t *count);
int32_t copy_limits(int32_t id, struct overside_limits *out);
int32_t copy_configure(int32_t id, const struct overside_setup *setup);
int32_t copy_enqueue(int32_t id, uint16_t queue, const struct overside_job *jobs, uint32_t count);
int32_t copy_dequeue(int32_t id, uint16_t queue, struct overside_result *out, uint32_t max);

void match_list(struct overside_device *out, uint32_t max, uint32_t *count);
int32_t match_limits(int32_t id, struct overside_limits *out);
int32_t match_configure(int32_t id, const struct overside_setup *setup);
int32_t match_slots(uint32_t count, uint32_t matches, void **out, void **pool);
void match_slots_free(void *pool);
int32_t match_enqueue(int32_t id, uint16_t queue, const struct overside_job *jobs, uint32_t count);
int32_t match_dequeue(int32_t id, uint16_t queue, struct overside_result *out, uint32_t max);

extern const struct overside_ethernet ethernet;

int32_t memory_known(const void *start, size_t len);
void *memory_allocate(size_t len, size_t align);
void memory_release(void *start);
int32_t memory_map(void *start, size_t len);
int32_t memory_unmap(void *start, size_t len);
/* Without huge pages: makes sure that so much is free in a heap. Its NUMA node, or -ENOMEM. */
int32_t memory_reserve(size_t len);

struct rte_mbuf;
/* Points an mbuf at memory of the caller's. */
void buffer_set(struct rte_mbuf *buffer, void *start, uint16_t len);

#endif
