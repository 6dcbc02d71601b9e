/* Refused: there is no operation "Frobnicate" for a kernel */
#define OP "Frobnicate"
#include "honest.h"
