/* Preloaded into a process, it journals what each write to a file below LOSE_UNDER changes, until that file is synced.
 *
 * The journal, LOSE_JOURNAL, is a sequence of records: 'W' or 'T' (a write or a truncation: inode, offset, size of the file
 * before, length, then the bytes that were there), and 'S' (a sync: inode). tests/support/power.py undoes what no sync follows,
 * as a power cut does with what only the kernel had. With LOSE_DIE_AT n the process kills itself right before the nth sync.
 * SQLite's -shm files are left alone: they are mapped, and made anew after a power cut.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct record { char kind; char unused[7]; uint64_t inode, offset, size, length; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;
static long syncs_left;
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fsync)(int), (*real_fdatasync)(int), (*real_ftruncate)(int, off_t);

__attribute__((constructor)) static void begin(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate");
    const char *path = getenv("LOSE_JOURNAL"), *die_at = getenv("LOSE_DIE_AT");
    syncs_left = die_at ? atol(die_at) : 0;
    if (path) journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Whether the file is one of those whose writes may be lost; its inode and size. */
static int watched(int fd, struct stat *found) {
    char link[64], path[4096];
    const char *under = getenv("LOSE_UNDER");
    if (journal < 0 || !under || fstat(fd, found) || !S_ISREG(found->st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 4) return 0;
    path[length] = 0;
    return !strncmp(path, under, strlen(under)) && strcmp(path + length - 4, "-shm");
}

static void note(char kind, int fd, off_t offset, size_t length, const struct stat *found) {
    size_t there = offset < found->st_size ? (size_t)(found->st_size - offset) : 0;
    if (there > length) there = length;
    char *bytes = malloc(sizeof(struct record) + there);
    struct record head = {kind, {0}, found->st_ino, (uint64_t)offset, (uint64_t)found->st_size, there};
    memcpy(bytes, &head, sizeof head);
    if (there && pread(fd, bytes + sizeof head, there, offset) != (ssize_t)there) abort();
    if (real_write(journal, bytes, sizeof head + there) != (ssize_t)(sizeof head + there)) abort();
    free(bytes);
}

ssize_t pwrite(int fd, const void *from, size_t length, off_t offset) {
    struct stat found;
    pthread_mutex_lock(&lock);
    if (watched(fd, &found)) note('W', fd, offset, length, &found);
    ssize_t written = real_pwrite(fd, from, length, offset);
    pthread_mutex_unlock(&lock);
    return written;
}

ssize_t pwrite64(int fd, const void *from, size_t length, off_t offset) { return pwrite(fd, from, length, offset); }

ssize_t write(int fd, const void *from, size_t length) {
    struct stat found;
    pthread_mutex_lock(&lock);
    if (watched(fd, &found)) note('W', fd, lseek(fd, 0, SEEK_CUR), length, &found);
    ssize_t written = real_write(fd, from, length);
    pthread_mutex_unlock(&lock);
    return written;
}

int ftruncate(int fd, off_t length) {
    struct stat found;
    pthread_mutex_lock(&lock);
    if (watched(fd, &found) && length < found.st_size) note('T', fd, length, (size_t)(found.st_size - length), &found);
    int result = real_ftruncate(fd, length);
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

static int sync_file(int fd, int (*real)(int)) {
    struct stat found;
    pthread_mutex_lock(&lock);
    int ours = watched(fd, &found);
    if (ours && syncs_left && !--syncs_left) kill(getpid(), SIGKILL);
    int result = real(fd);
    if (ours && !result) note('S', fd, found.st_size, 0, &found);
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int fd) { return sync_file(fd, real_fsync); }
int fdatasync(int fd) { return sync_file(fd, real_fdatasync); }
