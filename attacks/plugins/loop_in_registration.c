/* Refused: it did not end within 2 s: while it registers */
#define IN_REGISTRATION for (volatile int go = 1; go;) {}
#include "honest.h"
