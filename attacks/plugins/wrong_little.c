/* Refused: output 0 is wrong: element  */
#define VALUE(x) ((x) < 0 ? 0 : (x) * 1.0001f)
#include "honest.h"
