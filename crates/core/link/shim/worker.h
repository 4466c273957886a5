/* A worker's insides, for worker.c and operations.c. */

#ifndef OVERSIDE_UCX_WORKER_H
#define OVERSIDE_UCX_WORKER_H

#include <ucp/api/ucp.h>

#include "ucx.h"

/* The one active message that both sides have. */
#define OVERSIDE_TELL_ID 1

struct worker;

struct slot {
	struct worker *worker;
};

struct worker {
	ucp_worker_h worker;
	ucp_ep_h peer;
	uint64_t send_tag;
	uint64_t receive_tag;
	struct overside_news news;
	void *telling;       /* the request of what the peer is being told */
	uint32_t tell[2];    /* and what that is */
	void *disconnecting; /* the request of closing */
	uint32_t slots;
	uint32_t done_count;
	struct overside_done *done; /* as many as there are slots */
	struct slot *slot;
};

/* A slot's operation is over. */
void worker_finish(struct slot *slot, ucs_status_t status, size_t len);

#endif
