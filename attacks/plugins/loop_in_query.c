/* Refused: it did not end within 2 s: while Relu runs on ordinary tensors of shapes [[16, 8]] */
#define IN_QUERY for (volatile int go = 1; go;) {}
#include "honest.h"
