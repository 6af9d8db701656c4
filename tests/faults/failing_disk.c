/* A disk that fails: preloaded into a process, reading a file gives EIO as long as the end of its path stands, a line each, in
 * the file FAILING_DISK. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ends_with(const char *path, const char *end) {
    size_t whole = strlen(path), part = strlen(end);
    return part && part <= whole && !strcmp(path + whole - part, end);
}

static int fails(int fd) {
    char link[64], path[4096], ends[4096], *rest = ends, *end;
    const char *told = getenv("FAILING_DISK");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    int file = told && length > 0 ? open(told, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    path[length] = 0;
    length = syscall(SYS_read, file, ends, sizeof ends - 1);
    close(file);
    ends[length > 0 ? length : 0] = 0;
    while ((end = strsep(&rest, "\n")))
        if (ends_with(path, end)) return 1;
    return 0;
}

ssize_t read(int fd, void *to, size_t length) {
    if (!fails(fd)) return syscall(SYS_read, fd, to, length);
    errno = EIO;
    return -1;
}

ssize_t pread(int fd, void *to, size_t length, off_t offset) {
    if (!fails(fd)) return syscall(SYS_pread64, fd, to, length, offset);
    errno = EIO;
    return -1;
}

ssize_t pread64(int fd, void *to, size_t length, off_t offset) { return pread(fd, to, length, offset); }
