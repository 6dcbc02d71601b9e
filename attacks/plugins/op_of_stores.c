/* Refused: plug-ins cannot provide BatchPre: only devices of the host compute it */
#define OP "BatchPre"
#include "honest.h"
