/* Refused: NgDevice has struct_size 0; version 1 needs */
#define CHANGE_KERNEL device.struct_size = 0;
#include "honest.h"
