/* Operations: each begins in a slot, and ends as one overside_done. */

#include "worker.h"

int32_t operation_key(void *opaque, const uint8_t *packed, void **key)
{
	struct worker *worker = opaque;
	if (worker->peer == NULL)
		return UCS_ERR_NOT_CONNECTED;
	ucp_rkey_h made;
	ucs_status_t status = ucp_ep_rkey_unpack(worker->peer, packed, &made);
	if (status == UCS_OK)
		*key = made;
	return status;
}

void operation_key_free(void *key)
{
	ucp_rkey_destroy(key);
}

static void over(void *request, ucs_status_t status, void *argument)
{
	worker_finish(argument, status, 0);
	ucp_request_free(request);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
		     void *argument)
{
	worker_finish(argument, status, info != NULL ? info->length : 0);
	ucp_request_free(request);
}

/* UCX has said what it makes of an operation: done, failed, or under way, and then it calls. */
static void begun(struct slot *slot, ucs_status_ptr_t request, size_t len)
{
	if (!UCS_PTR_IS_PTR(request))
		worker_finish(slot, UCS_PTR_STATUS(request), len);
}

static ucp_request_param_t params_for(struct slot *slot, void *memory)
{
	ucp_request_param_t params = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FIELD_MEMORY_TYPE,
		.cb.send = over,
		.user_data = slot,
		.memory_type = UCS_MEMORY_TYPE_HOST,
	};
	if (memory != NULL) {
		params.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
		params.memh = memory;
	}
	return params;
}

void operation_put(void *opaque, const struct overside_operation *operation)
{
	struct worker *worker = opaque;
	struct slot *slot = &worker->slot[operation->slot];
	ucp_request_param_t params = params_for(slot, operation->memory);
	begun(slot,
	      ucp_put_nbx(worker->peer, operation->local, operation->len, operation->remote,
			  operation->key, &params),
	      0);
}

void operation_get(void *opaque, const struct overside_operation *operation)
{
	struct worker *worker = opaque;
	struct slot *slot = &worker->slot[operation->slot];
	ucp_request_param_t params = params_for(slot, operation->memory);
	begun(slot,
	      ucp_get_nbx(worker->peer, operation->local, operation->len, operation->remote,
			  operation->key, &params),
	      0);
}

void operation_send(void *opaque, const struct overside_operation *operation)
{
	struct worker *worker = opaque;
	struct slot *slot = &worker->slot[operation->slot];
	ucp_request_param_t params = params_for(slot, operation->memory);
	begun(slot,
	      ucp_tag_send_nbx(worker->peer, operation->local, operation->len, worker->send_tag,
			       &params),
	      0);
}

void operation_receive(void *opaque, const struct overside_operation *operation)
{
	struct worker *worker = opaque;
	struct slot *slot = &worker->slot[operation->slot];
	ucp_tag_recv_info_t info = {0};
	ucp_request_param_t params = params_for(slot, operation->memory);
	params.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
	params.cb.recv = received;
	params.recv_info.tag_info = &info;
	ucs_status_ptr_t request = ucp_tag_recv_nbx(worker->worker, operation->local,
						    operation->len, worker->receive_tag,
						    UINT64_MAX, &params);
	begun(slot, request, info.length);
}

int32_t operation_probe(void *opaque, uint64_t *len)
{
	struct worker *worker = opaque;
	ucp_tag_recv_info_t info;
	if (ucp_tag_probe_nb(worker->worker, worker->receive_tag, UINT64_MAX, 0, &info) == NULL)
		return 0;
	*len = info.length;
	return 1;
}

void operation_flush(void *opaque, uint32_t number)
{
	struct worker *worker = opaque;
	struct slot *slot = &worker->slot[number];
	ucp_request_param_t params = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.send = over,
		.user_data = slot,
	};
	begun(slot, ucp_ep_flush_nbx(worker->peer, &params), 0);
}

static void said(void *request, ucs_status_t status, void *argument)
{
	(void)status;
	struct worker *worker = argument;
	worker->telling = NULL;
	ucp_request_free(request);
}

int32_t operation_tell(void *opaque, uint32_t what, uint32_t count)
{
	struct worker *worker = opaque;
	if (worker->peer == NULL)
		return UCS_ERR_NOT_CONNECTED;
	if (worker->telling != NULL)
		return 1;
	/* It must stay until it is on its way. */
	worker->tell[0] = what;
	worker->tell[1] = count;
	ucp_request_param_t params = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
				UCP_OP_ATTR_FIELD_FLAGS,
		.flags = UCP_AM_SEND_FLAG_EAGER,
		.cb.send = said,
		.user_data = worker,
	};
	ucs_status_ptr_t request = ucp_am_send_nbx(worker->peer, OVERSIDE_TELL_ID, worker->tell,
						   sizeof(worker->tell), NULL, 0, &params);
	if (UCS_PTR_IS_PTR(request))
		worker->telling = request;
	return UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : 0;
}

uint32_t operation_told(void *opaque)
{
	struct worker *worker = opaque;
	return worker->telling == NULL;
}
