/* Refused: it was ended by signal 11 (SIGSEGV): while it registers */
#define IN_REGISTRATION ((void (*)(void))8)();
#include "honest.h"
