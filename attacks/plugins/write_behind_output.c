/* Refused: it reads or writes behind output 0: while Relu runs on ordinary */
#define AFTER_RUN y[n] = 1;
#include "honest.h"
