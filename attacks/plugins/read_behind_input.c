/* Refused: it reads or writes behind input 0: while Relu runs */
#define AFTER_RUN volatile float next = x[n]; (void)next;
#include "honest.h"
