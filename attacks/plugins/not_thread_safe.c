/* Refused: output 0 is wrong: element  */
#include <time.h>
#include "ng_plugin.h"

static const NgCall *volatile shared;
/* Whoever comes second takes the call away from the first. */
#define IN_RUN \
    shared = call; \
    nanosleep(&(struct timespec){0, 20000000}, NULL); \
    x = shared->inputs[0]->data, y = shared->outputs[0]->data;
#include "honest.h"
