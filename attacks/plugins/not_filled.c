/* Refused: output 0 is wrong: element 0 is - */
#define IN_RUN n = 0;
#include "honest.h"
