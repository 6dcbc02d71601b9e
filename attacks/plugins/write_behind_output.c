/* Refused: it reads or writes past the end of output 0: while Relu runs on ordinary */
#define AFTER_RUN y[n] = 1;
#include "honest.h"
