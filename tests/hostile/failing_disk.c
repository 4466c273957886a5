/* Loaded before the C library. Writes down what a process asks of the disk, to $CALLS, one call a
   line: what is synced under which name, and what is removed. The sync that $FAILS numbers, from 1
   on, fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void note(const char *call, const char *path)
{
	FILE *calls = fopen(getenv("CALLS"), "a");

	if (calls) {
		fprintf(calls, "%s %s\n", call, path);
		fclose(calls);
	}
}

int fsync(int file)
{
	static int count;
	char link[64], path[4096];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	length = readlink(link, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = 0;
	note("sync", path);
	if (++count == atoi(getenv("FAILS"))) {
		errno = EIO;
		return -1;
	}
	return 0;
}

int unlink(const char *path)
{
	int (*next)(const char *) = dlsym(RTLD_NEXT, "unlink");

	note("remove", path);
	return next(path);
}
