/* Refused: two runs return different bytes, although the kernel is declared deterministic */
static int calls;
#define AFTER_RUN if (n) y[0] += 1e-6f * (calls++ & 1);
#include "honest.h"
