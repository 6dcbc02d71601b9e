/* Refused: it reads or writes input 0, which is read-only: while Relu runs */
#define AFTER_RUN ((float *)x)[0] = 1;
#include "honest.h"
