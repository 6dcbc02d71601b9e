/* Refused: it writes outside output 0: while Relu runs on odd */
#define CHANGE_KERNEL kernel.alignment = 64;
#define AFTER_RUN if (n == 105) y[n] = 1;
#include "honest.h"
