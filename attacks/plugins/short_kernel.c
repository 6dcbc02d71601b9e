/* Refused: NgKernel has struct_size 8; version 1 needs */
#define CHANGE_KERNEL kernel.struct_size = 8;
#include "honest.h"
