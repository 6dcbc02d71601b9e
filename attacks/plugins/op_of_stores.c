/* Refused: BatchPre is not offered to plug-ins: the devices of the host do it */
#define OP "BatchPre"
#include "honest.h"
