/* Refused: NgKernel has struct_size 1099511627776; at most */
#define CHANGE_KERNEL kernel.struct_size = 1ull << 40;
#include "honest.h"
