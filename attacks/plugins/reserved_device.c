/* Refused: a reserved field of NgDevice is not 0 */
#define CHANGE_KERNEL device.reserved = 1;
#include "honest.h"
