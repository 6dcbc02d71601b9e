/* Refused: there is no operation "BatchPre" for a kernel */
#define OP "BatchPre"
#include "honest.h"
