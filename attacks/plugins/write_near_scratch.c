/* Refused: it writes outside its scratch memory: while Relu runs */
#define SCRATCH_BYTES 60
#define AFTER_RUN ((char *)call->scratch)[60] = 1;
#include "honest.h"
