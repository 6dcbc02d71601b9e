/* Refused: output 0 is wrong: element  */
#include <time.h>
#include "ng_plugin.h"

static const NgCall *volatile last;
/* Whoever comes second takes the result away from the first. */
#define IN_RUN \
    last = call; \
    nanosleep(&(struct timespec){0, 20000000}, NULL); \
    if (last != call) n = 0;
#include "honest.h"
