/* Refused: it reads or writes into input 0, which is constant: while Relu runs */
#define AFTER_RUN ((float *)x)[0] = 1;
#include "honest.h"
