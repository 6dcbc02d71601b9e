/* Refused: output 0 is wrong: element 0 is */
#define VALUE(x) ((x) * 2 + 3)
#include "honest.h"
