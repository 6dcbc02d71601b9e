/* Refused: output 0 is wrong: element 104 is */
/* Whole vectors of four alone. */
#define IN_RUN n = n / 4 * 4;
#include "honest.h"
