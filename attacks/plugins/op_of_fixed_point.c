/* Refused: FixedMatMul is not offered to plug-ins: the devices of the host do it */
#define OP "fixed_mat_mul"
#include "honest.h"
