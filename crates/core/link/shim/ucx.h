/* What the Rust side sees of UCX: one table of functions over flat structures, so that nothing of
 * UCX's own types crosses the border. src/ucx/shim.rs mirrors this file; raise OVERSIDE_UCX_ABI
 * when anything in it changes.
 *
 * Functions that can fail return 0 or more, or a negative ucs_status_t. */

#ifndef OVERSIDE_UCX_H
#define OVERSIDE_UCX_H

#include <stddef.h>
#include <stdint.h>

#define OVERSIDE_UCX_ABI 1

/* What a peer may say beside its messages. */
enum {
	OVERSIDE_CREDIT = 1, /* it can take that many messages more */
	OVERSIDE_BYE = 2,    /* it closes and will say no more */
	OVERSIDE_HELLO = 3,  /* it is there */
};

/* An operation that is over. */
struct overside_done {
	uint64_t len;   /* of a message that was received */
	uint32_t slot;
	int32_t status; /* 0, or a negative ucs_status_t */
};

/* An operation. At most one is under way in each slot. */
struct overside_operation {
	void *local;     /* the local memory */
	void *memory;    /* its registration, or null */
	void *key;       /* of remote memory: what `key` gave */
	uint64_t remote; /* of remote memory: its address there */
	uint64_t len;    /* of the local memory that is meant */
	uint32_t slot;
};

/* What a peer has said since the last look. */
struct overside_news {
	uint32_t credits;
	uint32_t hello;
	uint32_t bye;
	uint32_t bye_count; /* what it was told with */
	int32_t lost; /* 0, or the negative ucs_status_t that its end was reported with */
};

struct overside_ucx {
	uint32_t abi;
	/* The version of UCX that is in this process. */
	void (*version)(uint32_t *major, uint32_t *minor, uint32_t *release);
	/* A status in words. */
	const char *(*status)(int32_t status);
	/* What UCX has reported since the last call. */
	void (*messages)(char *out, size_t len);

	/* A context: devices and memory. Transports and network devices are named as UCX names
	 * them; null leaves them to its environment variables. */
	int32_t (*open)(const char *transports, const char *devices, void **context);
	void (*close)(void *context);
	int32_t (*map)(void *context, void *start, size_t len, void **memory);
	void (*unmap)(void *context, void *memory);
	/* The key of registered memory, to be sent to a peer; returns its length. */
	int32_t (*pack)(void *context, void *memory, uint8_t *out, size_t room);

	/* A worker, with its one peer. One thread at a time. */
	int32_t (*worker)(void *context, uint32_t slots, uint64_t receive_tag, void **worker);
	/* Its address, to be sent to the peer; returns its length. */
	int32_t (*address)(void *worker, uint8_t *out, size_t room);
	/* Connects it. */
	int32_t (*connect)(void *worker, const uint8_t *address, uint64_t send_tag);
	/* The transports of its connection in UCX's words; returns the length of the text. */
	int32_t (*describe)(void *worker, char *out, size_t room);
	int32_t (*descriptor)(void *worker);
	/* 0: the descriptor will become readable; 1: there is something to progress already. */
	int32_t (*arm)(void *worker);
	/* How many things happened. */
	uint32_t (*progress)(void *worker);
	uint32_t (*done)(void *worker, struct overside_done *out, uint32_t room);
	void (*news)(void *worker, struct overside_news *out);

	int32_t (*key)(void *worker, const uint8_t *packed, void **key);
	void (*key_free)(void *key);
	/* Each of these ends as one overside_done, whatever happens. */
	void (*put)(void *worker, const struct overside_operation *operation);
	void (*get)(void *worker, const struct overside_operation *operation);
	void (*send)(void *worker, const struct overside_operation *operation);
	void (*receive)(void *worker, const struct overside_operation *operation);
	/* 1 and its length if a message has come that no memory waited for; else 0. */
	int32_t (*probe)(void *worker, uint64_t *len);
	/* Ends when all that was put before has arrived. */
	void (*flush)(void *worker, uint32_t slot);
	/* Tells the peer one of OVERSIDE_CREDIT and OVERSIDE_BYE. 1: not now, try again. */
	int32_t (*tell)(void *worker, uint32_t what, uint32_t count);

	/* 1 if what was told last is on its way. */
	uint32_t (*told)(void *worker);

	/* Begins to disconnect, once nothing is under way. */
	void (*disconnect)(void *worker);
	/* Whether it has; progress until then. */
	uint32_t (*disconnected)(void *worker);
	/* Only once it has disconnected, or never was connected. */
	void (*worker_close)(void *worker);
};

/* The parts of the table, each in a file of its own. */

void log_version(uint32_t *major, uint32_t *minor, uint32_t *release);
const char *log_status(int32_t status);
void log_messages(char *out, size_t len);

int32_t context_open(const char *transports, const char *devices, void **context);
void context_close(void *context);
int32_t context_map(void *context, void *start, size_t len, void **memory);
void context_unmap(void *context, void *memory);
int32_t context_pack(void *context, void *memory, uint8_t *out, size_t room);

int32_t worker_open(void *context, uint32_t slots, uint64_t receive_tag, void **out);
int32_t worker_address(void *worker, uint8_t *out, size_t room);
int32_t worker_connect(void *worker, const uint8_t *address, uint64_t send_tag);
int32_t worker_describe(void *worker, char *out, size_t room);
int32_t worker_descriptor(void *worker);
int32_t worker_arm(void *worker);
uint32_t worker_progress(void *worker);
uint32_t worker_done(void *worker, struct overside_done *out, uint32_t room);
void worker_news(void *worker, struct overside_news *out);
void worker_disconnect(void *worker);
uint32_t worker_disconnected(void *worker);
void worker_close(void *worker);

int32_t operation_key(void *worker, const uint8_t *packed, void **key);
void operation_key_free(void *key);
void operation_put(void *worker, const struct overside_operation *operation);
void operation_get(void *worker, const struct overside_operation *operation);
void operation_send(void *worker, const struct overside_operation *operation);
void operation_receive(void *worker, const struct overside_operation *operation);
int32_t operation_probe(void *worker, uint64_t *len);
void operation_flush(void *worker, uint32_t slot);
int32_t operation_tell(void *worker, uint32_t what, uint32_t count);
uint32_t operation_told(void *worker);

#endif
