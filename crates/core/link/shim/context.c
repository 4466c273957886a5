/* The table, UCX's messages, and contexts: devices and memory. */

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include "ucx.h"

/* What UCX reports goes here instead of to the program's output: it belongs into the reason of an
 * error, if there is one. When it is full the rest is dropped: the first lines say why. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[4096];
static size_t log_len;

static ucs_log_func_rc_t report(const char *file, unsigned line, const char *function,
				ucs_log_level_t level, const ucs_log_component_config_t *component,
				const char *message, va_list arguments)
{
	(void)file, (void)line, (void)function, (void)component;
	/* More than problems only comes if somebody asked for it, and not on the output. */
	if (level > UCS_LOG_LEVEL_DIAG || level == UCS_LOG_LEVEL_FATAL) {
		char text[1024];
		vsnprintf(text, sizeof(text), message, arguments);
		fprintf(stderr, "UCX: %s\n", text);
		return UCS_LOG_FUNC_RC_STOP;
	}
	pthread_mutex_lock(&log_lock);
	size_t room = sizeof(log_text) - log_len;
	if (room > 2) {
		int len = vsnprintf(log_text + log_len, room - 1, message, arguments);
		if (len > 0)
			log_len += (size_t)len < room - 1 ? (size_t)len : room - 2;
		log_text[log_len++] = '\n';
	}
	pthread_mutex_unlock(&log_lock);
	return UCS_LOG_FUNC_RC_STOP;
}

__attribute__((constructor)) static void listen_to_ucx(void)
{
	/* A file that somebody asked for gets everything. */
	const char *file = getenv("UCX_LOG_FILE");
	if (file == NULL || *file == 0)
		ucs_log_push_handler(report);
}

void log_messages(char *out, size_t len)
{
	if (len == 0)
		return;
	pthread_mutex_lock(&log_lock);
	size_t taken = log_len < len - 1 ? log_len : len - 1;
	memcpy(out, log_text, taken);
	out[taken] = 0;
	log_len = 0;
	pthread_mutex_unlock(&log_lock);
}

void log_version(uint32_t *major, uint32_t *minor, uint32_t *release)
{
	ucp_get_version(major, minor, release);
}

const char *log_status(int32_t status)
{
	return ucs_status_string(status);
}

int32_t context_open(const char *transports, const char *devices, void **context)
{
	ucp_config_t *config;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);
	if (status != UCS_OK)
		return status;
	if (transports != NULL)
		status = ucp_config_modify(config, "TLS", transports);
	if (status == UCS_OK && devices != NULL)
		status = ucp_config_modify(config, "NET_DEVICES", devices);
	if (status == UCS_OK) {
		ucp_params_t params = {
			.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
			.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AM |
				    UCP_FEATURE_WAKEUP,
			/* Each worker has a thread of its own, and they share the context. */
			.mt_workers_shared = 1,
		};
		ucp_context_h made;
		status = ucp_init(&params, config, &made);
		*context = made;
	}
	ucp_config_release(config);
	return status;
}

void context_close(void *context)
{
	ucp_cleanup(context);
}

int32_t context_map(void *context, void *start, size_t len, void **memory)
{
	ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
			      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
		.address = start,
		.length = len,
		.memory_type = UCS_MEMORY_TYPE_HOST,
	};
	ucp_mem_h made;
	ucs_status_t status = ucp_mem_map(context, &params, &made);
	if (status == UCS_OK)
		*memory = made;
	return status;
}

void context_unmap(void *context, void *memory)
{
	ucp_mem_unmap(context, memory);
}

int32_t context_pack(void *context, void *memory, uint8_t *out, size_t room)
{
	void *packed;
	size_t len;
	ucs_status_t status = ucp_rkey_pack(context, memory, &packed, &len);
	if (status != UCS_OK)
		return status;
	if (len <= room)
		memcpy(out, packed, len);
	ucp_rkey_buffer_release(packed);
	return len <= room ? (int32_t)len : UCS_ERR_BUFFER_TOO_SMALL;
}

__attribute__((visibility("default"))) const struct overside_ucx overside_ucx = {
	.abi = OVERSIDE_UCX_ABI,
	.version = log_version,
	.status = log_status,
	.messages = log_messages,
	.open = context_open,
	.close = context_close,
	.map = context_map,
	.unmap = context_unmap,
	.pack = context_pack,
	.worker = worker_open,
	.address = worker_address,
	.connect = worker_connect,
	.describe = worker_describe,
	.descriptor = worker_descriptor,
	.arm = worker_arm,
	.progress = worker_progress,
	.done = worker_done,
	.news = worker_news,
	.key = operation_key,
	.key_free = operation_key_free,
	.put = operation_put,
	.get = operation_get,
	.send = operation_send,
	.receive = operation_receive,
	.probe = operation_probe,
	.flush = operation_flush,
	.tell = operation_tell,
	.told = operation_told,
	.disconnect = worker_disconnect,
	.disconnected = worker_disconnected,
	.worker_close = worker_close,
};
