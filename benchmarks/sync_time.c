/* Counts the time that a process spends in fsync and fdatasync. Preloaded into the peers of
 * update_rate.py, which read the counter by its name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>

static _Atomic long long nanoseconds;
static _Atomic long long calls;

long long sync_nanoseconds(void) { return nanoseconds; }
long long sync_calls(void) { return calls; }

static int timed(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    int result = real(fd);
    clock_gettime(CLOCK_MONOTONIC, &to);
    nanoseconds += (to.tv_sec - from.tv_sec) * 1000000000LL + (to.tv_nsec - from.tv_nsec);
    calls += 1;
    return result;
}

int fsync(int fd) { return timed("fsync", fd); }
int fdatasync(int fd) { return timed("fdatasync", fd); }
