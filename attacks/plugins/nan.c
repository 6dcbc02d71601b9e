/* Refused: output 0 is wrong: element 0 is NaN */
#include <math.h>
#define VALUE(x) NAN
#include "honest.h"
