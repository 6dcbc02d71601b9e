/* Refused: it reads or writes input 0, which is read-only */
/* Remembers where an output lay, and writes there in the next call. */
static float *last;
#define AFTER_RUN if (last && call->threads > 1) ((float *)x)[0] = 0; last = y;
#include "honest.h"
