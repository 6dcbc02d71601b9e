/* Refused: it reads or writes past the end of its scratch memory: while Relu runs */
#define SCRATCH_BYTES 64
#define AFTER_RUN ((char *)call->scratch)[64] = 1;
#include "honest.h"
