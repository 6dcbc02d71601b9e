/* Refused: kernel of Relu: alignment 3 is not a power of 2 up to */
#define CHANGE_KERNEL kernel.alignment = 3;
#include "honest.h"
