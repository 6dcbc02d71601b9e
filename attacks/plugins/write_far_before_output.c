/* Refused: it reads or writes before output 0: while Relu runs on ordinary */
#define AFTER_RUN y[-1000] = 1;
#include "honest.h"
