/* Refused: output 0 is wrong: element 0 is inf */
#include <math.h>
#define VALUE(x) INFINITY
#include "honest.h"
