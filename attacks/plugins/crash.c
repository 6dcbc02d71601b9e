/* Refused: signal 11 (SIGSEGV) ended it: while Relu runs on ordinary */
#define IN_RUN *(volatile int *)8 = 1;
#include "honest.h"
