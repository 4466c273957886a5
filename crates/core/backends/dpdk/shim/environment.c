/* DPDK's environment: starting it, its devices, its log. */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_version.h>

#include "shim.h"

/* What DPDK logs goes here instead of to the program's error output: it belongs into the reason
 * of an error, if there is one. When it is full the rest is dropped: the first lines say why. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[4096];
static size_t log_len;

static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	pthread_mutex_lock(&log_lock);
	size_t room = sizeof(log_text) - log_len;
	size_t taken = len < room ? len : room;
	memcpy(log_text + log_len, text, taken);
	log_len += taken;
	pthread_mutex_unlock(&log_lock);
	return (ssize_t)len;
}

static void messages(char *out, size_t len)
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

extern char **environ;

/* DPDK learns where its run-time files go from environment variables only. Changing those with
 * setenv() while other threads run is not safe, because it may free what they are reading. So a
 * second environment takes the place of the first for as long as DPDK starts: both stay valid, and
 * whoever reads gets one of the two. The second one is never freed. */
static int32_t start_in(const char *directory, int argc, char **argv)
{
	char **before = environ;
	size_t count = 0;
	while (before != NULL && before[count] != NULL)
		count++;
	char **instead = calloc(count + 3, sizeof(*instead));
	char *runtime = NULL, *xdg = NULL;
	if (instead == NULL || asprintf(&runtime, "RUNTIME_DIRECTORY=%s", directory) < 0 ||
	    asprintf(&xdg, "XDG_RUNTIME_DIR=%s", directory) < 0)
		return -ENOMEM;
	size_t next = 0;
	instead[next++] = runtime;
	instead[next++] = xdg;
	for (size_t i = 0; i < count; i++) {
		if (strncmp(before[i], "RUNTIME_DIRECTORY=", 18) != 0 &&
		    strncmp(before[i], "XDG_RUNTIME_DIR=", 16) != 0)
			instead[next++] = before[i];
	}
	environ = instead;
	int32_t result = rte_eal_init(argc, argv);
	/* Somebody else's change, if there was one, stays. */
	if (environ == instead)
		environ = before;
	return result;
}

static int32_t start(int32_t argc, char **argv, const char *directory)
{
	/* DPDK's threads inherit this: signals are for the program's own. */
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	cookie_io_functions_t functions = {.write = log_write};
	FILE *log = fopencookie(NULL, "w", functions);
	if (log == NULL)
		return -ENOMEM;
	setvbuf(log, NULL, _IOLBF, 512);
	rte_openlog_stream(log);
	int32_t result = directory != NULL ? start_in(directory, argc, argv) :
					     rte_eal_init(argc, argv);
	if (result < 0)
		return rte_errno > 0 ? -rte_errno : -EIO;
	return 0;
}

static int32_t thread_enter(void)
{
	/* One of DPDK's own, or registered before. */
	if (rte_lcore_id() != LCORE_ID_ANY)
		return 1;
	return rte_thread_register() == 0 ? 0 : -(rte_errno > 0 ? rte_errno : EIO);
}

static int32_t create(const char *name)
{
	int result = rte_eal_hotplug_add("vdev", name, "");
	return result == -EEXIST ? 0 : result;
}

static uint32_t devices(struct overside_device *out, uint32_t max)
{
	uint32_t count = 0;
	compress_list(out, max, &count);
	copy_list(out, max, &count);
	match_list(out, max, &count);
	return count;
}

static int32_t limits(uint32_t kind, int32_t id, struct overside_limits *out)
{
	memset(out, 0, sizeof(*out));
	switch (kind) {
	case OVERSIDE_COMPRESS:
		return compress_limits(id, out);
	case OVERSIDE_COPY:
		return copy_limits(id, out);
	case OVERSIDE_MATCH:
		return match_limits(id, out);
	}
	return -EINVAL;
}

static int32_t configure(uint32_t kind, int32_t id, const struct overside_setup *setup)
{
	switch (kind) {
	case OVERSIDE_COMPRESS:
		return compress_configure(id, setup);
	case OVERSIDE_COPY:
		return copy_configure(id, setup);
	case OVERSIDE_MATCH:
		return match_configure(id, setup);
	}
	return -EINVAL;
}

static int32_t slots(uint32_t kind, uint32_t count, uint32_t segments, uint32_t matches, void **out,
		     void **pool)
{
	*pool = NULL;
	switch (kind) {
	case OVERSIDE_COMPRESS:
		return compress_slots(count, segments, out, pool);
	case OVERSIDE_COPY:
		/* A dmadev has its descriptors in its queue. */
		memset(out, 0, count * sizeof(*out));
		return 0;
	case OVERSIDE_MATCH:
		return match_slots(count, matches, out, pool);
	}
	return -EINVAL;
}

static void slots_free(uint32_t kind, void *pool)
{
	if (kind == OVERSIDE_COMPRESS)
		compress_slots_free(pool);
	else if (kind == OVERSIDE_MATCH)
		match_slots_free(pool);
}

static int32_t enqueue(uint32_t kind, int32_t id, uint16_t queue, const struct overside_job *jobs,
		       uint32_t count)
{
	switch (kind) {
	case OVERSIDE_COMPRESS:
		return compress_enqueue(id, queue, jobs, count);
	case OVERSIDE_COPY:
		return copy_enqueue(id, queue, jobs, count);
	case OVERSIDE_MATCH:
		return match_enqueue(id, queue, jobs, count);
	}
	return -EINVAL;
}

static int32_t dequeue(uint32_t kind, int32_t id, uint16_t queue, struct overside_result *out,
		       uint32_t max)
{
	switch (kind) {
	case OVERSIDE_COMPRESS:
		return compress_dequeue(id, queue, out, max);
	case OVERSIDE_COPY:
		return copy_dequeue(id, queue, out, max);
	case OVERSIDE_MATCH:
		return match_dequeue(id, queue, out, max);
	}
	return -EINVAL;
}

__attribute__((visibility("default"))) const struct overside_dpdk overside_dpdk = {
	.abi = OVERSIDE_DPDK_ABI,
	.version = rte_version,
	.start = start,
	.messages = messages,
	.thread_enter = thread_enter,
	.thread_leave = rte_thread_unregister,
	.create = create,
	.devices = devices,
	.limits = limits,
	.configure = configure,
	.allocate = memory_allocate,
	.release = memory_release,
	.map = memory_map,
	.unmap = memory_unmap,
	.known = memory_known,
	.transform = compress_transform,
	.transform_free = compress_transform_free,
	.slots = slots,
	.slots_free = slots_free,
	.enqueue = enqueue,
	.dequeue = dequeue,
	.ethernet = &ethernet,
};
