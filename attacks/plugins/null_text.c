/* Refused: the operation of a kernel is missing */
#define CHANGE_KERNEL kernel.op.data = NULL;
#include "honest.h"
