/* Loaded before the C library. Writes down to $TRACE what a process asks of the file system below $DISK: a line
   "CALL LENGTH OFFSET PATH", followed by LENGTH bytes. Nothing is synced: that it was asked for is enough. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void note(const char *call, const void *data, size_t length, long long offset, const char *path)
{
	static int trace = -1;
	const char *disk = getenv("DISK");
	char line[4200];
	struct iovec parts[2] = {{line, 0}, {(void *)data, length}};

	if (strncmp(path, disk, strlen(disk)))
		return;
	if (trace < 0)
		trace = NEXT(open64)(getenv("TRACE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	parts[0].iov_len = snprintf(line, sizeof(line), "%s %zu %lld %s\n", call, length, offset, path);
	if (writev(trace, parts, 2) != (ssize_t)(parts[0].iov_len + length))
		abort();
}

static void note_file(const char *call, const void *data, size_t length, long long offset, int file)
{
	char link[64], path[4096];
	ssize_t end;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	end = readlink(link, path, sizeof(path) - 1);
	path[end < 0 ? 0 : end] = 0;
	note(call, data, length, offset, path);
}

int open64(const char *path, int flags, ...)
{
	/* Callers give a mode, whatever the flags are. */
	__builtin_va_list more;
	int is_new = access(path, F_OK), mode, file;

	__builtin_va_start(more, flags);
	mode = __builtin_va_arg(more, int);
	__builtin_va_end(more);
	file = NEXT(open64)(path, flags, mode);
	if (file >= 0 && is_new)
		note("create", "", 0, 0, path);
	return file;
}

int mkdir(const char *path, mode_t mode)
{
	int failed = NEXT(mkdir)(path, mode);

	if (!failed)
		note("mkdir", "", 0, 0, path);
	return failed;
}

ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset)
{
	ssize_t written = NEXT(pwrite64)(file, data, length, offset);

	if (written > 0)
		note_file("write", data, written, offset, file);
	return written;
}

int ftruncate64(int file, off64_t length)
{
	int failed = NEXT(ftruncate64)(file, length);

	if (!failed)
		note_file("truncate", "", 0, length, file);
	return failed;
}

int fsync(int file)
{
	note_file("begin", "", 0, 0, file);
	note_file("end", "", 0, 0, file);
	return 0;
}

int fdatasync(int file)
{
	return fsync(file);
}

int rename(const char *from, const char *to)
{
	int failed = NEXT(rename)(from, to);

	if (!failed)
		note("rename", to, strlen(to), 0, from);
	return failed;
}

int unlink(const char *path)
{
	int failed = NEXT(unlink)(path);

	if (!failed)
		note("remove", "", 0, 0, path);
	return failed;
}
