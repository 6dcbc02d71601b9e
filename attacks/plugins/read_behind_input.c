/* Refused: it reads or writes past the end of input 0: while Relu runs */
#define AFTER_RUN volatile float next = x[n]; (void)next;
#include "honest.h"
