/* Refused: it did not end within 2 s: while Relu runs on empty tensors of shapes [[0, 5]] */
#define IN_RUN if (n == 0) for (volatile int go = 1; go;) {}
#include "honest.h"
