/* Refused: it was ended by signal 11 (SIGSEGV): while Relu runs on ordinary */
#define IN_RUN *(volatile int *)8 = 1;
#include "honest.h"
