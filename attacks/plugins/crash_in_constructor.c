/* Refused: it was ended by signal 11 (SIGSEGV): while it is loaded */
#include "honest.h"

__attribute__((constructor)) static void start(void) { *(volatile int *)8 = 1; }
