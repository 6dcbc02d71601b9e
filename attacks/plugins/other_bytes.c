/* Refused: two runs give other bytes, and it says that they do not */
static int calls;
#define AFTER_RUN if (n) y[0] += 1e-6f * (calls++ & 1);
#include "honest.h"
