/* Refused: NgPlugin has struct_size 4; wanted */
#define CHANGE_KERNEL plugin->struct_size = 4;
#include "honest.h"
