/* Refused: it did not end within 2 s: while Relu runs on ordinary tensors of shapes [[16, 8]] */
#define IN_RUN for (volatile int go = 1; go;) {}
#include "honest.h"
