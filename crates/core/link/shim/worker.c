/* Workers: a place where things happen, with one peer each. */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

/* The peer tells something. UCX calls this from worker_progress(). */
static ucs_status_t told(void *argument, const void *header, size_t header_len, void *data,
			 size_t len, const ucp_am_recv_param_t *params)
{
	(void)data, (void)params;
	struct worker *worker = argument;
	uint32_t words[2];
	if (header_len != sizeof(words) || len != 0)
		return UCS_OK;
	memcpy(words, header, sizeof(words));
	if (words[0] == OVERSIDE_CREDIT) {
		/* A peer that lies does not wrap it. */
		uint32_t sum = worker->news.credits + words[1];
		worker->news.credits = sum < words[1] ? UINT32_MAX : sum;
	} else if (words[0] == OVERSIDE_HELLO) {
		worker->news.hello = 1;
	} else if (words[0] == OVERSIDE_BYE) {
		worker->news.bye = 1;
		worker->news.bye_count = words[1];
	}
	return UCS_OK;
}

int32_t worker_open(void *context, uint32_t slots, uint64_t receive_tag, void **out)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	if (worker == NULL)
		return UCS_ERR_NO_MEMORY;
	worker->slots = slots;
	worker->receive_tag = receive_tag;
	worker->slot = calloc(slots, sizeof(*worker->slot));
	worker->done = calloc(slots, sizeof(*worker->done));
	ucs_status_t status = UCS_ERR_NO_MEMORY;
	if (worker->slot == NULL || worker->done == NULL)
		goto failed;
	for (uint32_t i = 0; i < slots; i++)
		worker->slot[i].worker = worker;
	ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
		/* The Rust side holds a lock around every call. */
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
		.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK,
	};
	status = ucp_worker_create(context, &params, &worker->worker);
	if (status != UCS_OK)
		goto failed;
	ucp_am_handler_param_t handler = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
			      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
		.id = OVERSIDE_TELL_ID,
		.flags = UCP_AM_FLAG_WHOLE_MSG,
		.cb = told,
		.arg = worker,
	};
	status = ucp_worker_set_am_recv_handler(worker->worker, &handler);
	if (status == UCS_OK) {
		*out = worker;
		return UCS_OK;
	}
	ucp_worker_destroy(worker->worker);
failed:
	free(worker->slot);
	free(worker->done);
	free(worker);
	return status;
}

int32_t worker_address(void *opaque, uint8_t *out, size_t room)
{
	struct worker *worker = opaque;
	ucp_address_t *address;
	size_t len;
	ucs_status_t status = ucp_worker_get_address(worker->worker, &address, &len);
	if (status != UCS_OK)
		return status;
	if (len <= room)
		memcpy(out, address, len);
	ucp_worker_release_address(worker->worker, address);
	return len <= room ? (int32_t)len : UCS_ERR_BUFFER_TOO_SMALL;
}

static void lost(void *argument, ucp_ep_h peer, ucs_status_t status)
{
	(void)peer;
	struct worker *worker = argument;
	worker->news.lost = status < 0 ? status : UCS_ERR_ENDPOINT_TIMEOUT;
}

int32_t worker_connect(void *opaque, const uint8_t *address, uint64_t send_tag)
{
	struct worker *worker = opaque;
	worker->send_tag = send_tag;
	ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
			      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
			      UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = (const ucp_address_t *)address,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = {.cb = lost, .arg = worker},
	};
	ucs_status_t status = ucp_ep_create(worker->worker, &params, &worker->peer);
	if (status != UCS_OK) {
		/* Not every transport can tell that a peer is gone; shared memory cannot. */
		params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
		status = ucp_ep_create(worker->worker, &params, &worker->peer);
	}
	if (status != UCS_OK)
		worker->peer = NULL;
	return status;
}

int32_t worker_describe(void *opaque, char *out, size_t room)
{
	struct worker *worker = opaque;
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	if (stream == NULL)
		return UCS_ERR_NO_MEMORY;
	if (worker->peer != NULL)
		ucp_ep_print_info(worker->peer, stream);
	fclose(stream);
	if (len > room)
		len = room;
	if (text != NULL)
		memcpy(out, text, len);
	free(text);
	return (int32_t)len;
}

int32_t worker_descriptor(void *opaque)
{
	struct worker *worker = opaque;
	int descriptor;
	ucs_status_t status = ucp_worker_get_efd(worker->worker, &descriptor);
	return status == UCS_OK ? descriptor : status;
}

int32_t worker_arm(void *opaque)
{
	struct worker *worker = opaque;
	ucs_status_t status = ucp_worker_arm(worker->worker);
	return status == UCS_ERR_BUSY ? 1 : status;
}

uint32_t worker_progress(void *opaque)
{
	struct worker *worker = opaque;
	return ucp_worker_progress(worker->worker);
}

void worker_finish(struct slot *slot, ucs_status_t status, size_t len)
{
	struct worker *worker = slot->worker;
	/* There is room: a slot has one operation, and its end is fetched before the next. */
	if (worker->done_count < worker->slots) {
		struct overside_done *done = &worker->done[worker->done_count++];
		done->slot = (uint32_t)(slot - worker->slot);
		done->status = status;
		done->len = len;
	}
}

uint32_t worker_done(void *opaque, struct overside_done *out, uint32_t room)
{
	struct worker *worker = opaque;
	uint32_t taken = worker->done_count < room ? worker->done_count : room;
	memcpy(out, worker->done, taken * sizeof(*out));
	worker->done_count -= taken;
	memmove(worker->done, worker->done + taken, worker->done_count * sizeof(*out));
	return taken;
}

void worker_news(void *opaque, struct overside_news *out)
{
	struct worker *worker = opaque;
	*out = worker->news;
	worker->news.credits = 0;
}

static void closed(void *request, ucs_status_t status, void *argument)
{
	(void)status;
	struct worker *worker = argument;
	worker->disconnecting = NULL;
	ucp_request_free(request);
}

void worker_disconnect(void *opaque)
{
	struct worker *worker = opaque;
	if (worker->peer == NULL)
		return;
	ucp_request_param_t params = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.send = closed,
		.user_data = worker,
	};
	ucs_status_ptr_t request = ucp_ep_close_nbx(worker->peer, &params);
	worker->peer = NULL;
	if (UCS_PTR_IS_PTR(request))
		worker->disconnecting = request;
}

uint32_t worker_disconnected(void *opaque)
{
	struct worker *worker = opaque;
	return worker->peer == NULL && worker->disconnecting == NULL;
}

void worker_close(void *opaque)
{
	struct worker *worker = opaque;
	ucp_worker_destroy(worker->worker);
	free(worker->slot);
	free(worker->done);
	free(worker);
}
