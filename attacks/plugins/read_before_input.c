/* Refused: it reads or writes before input 0: while Relu runs */
#define AFTER_RUN volatile float last = x[-1]; (void)last;
#include "honest.h"
