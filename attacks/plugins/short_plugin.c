/* Refused: NgPlugin has struct_size 4; expected */
#define CHANGE_KERNEL plugin->struct_size = 4;
#include "honest.h"
