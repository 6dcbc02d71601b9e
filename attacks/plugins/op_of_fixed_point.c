/* Refused: plug-ins cannot provide FixedMatMul: only devices of the host compute it */
#define OP "fixed_mat_mul"
#include "honest.h"
