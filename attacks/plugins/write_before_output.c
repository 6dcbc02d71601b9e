/* Refused: it writes outside output 0: while Relu runs on ordinary */
#define AFTER_RUN y[-1] = 1;
#include "honest.h"
