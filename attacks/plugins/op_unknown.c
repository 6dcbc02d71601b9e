/* Refused: unknown operation "Frobnicate" of a kernel */
#define OP "Frobnicate"
#include "honest.h"
