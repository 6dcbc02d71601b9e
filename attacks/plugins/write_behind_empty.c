/* Refused: it reads or writes past the end of output 0: while Relu runs on empty */
#define AFTER_RUN if (n == 0) y[0] = 1;
#include "honest.h"
