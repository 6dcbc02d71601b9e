/* Refused: signal 11 (SIGSEGV) ended it: while it is loaded */
#include "honest.h"

__attribute__((constructor)) static void start(void) { *(volatile int *)8 = 1; }
