/* Refused: signal 11 (SIGSEGV) ended it: while it registers */
#define IN_REGISTRATION ((void (*)(void))8)();
#include "honest.h"
