/* Refused: traits 0x83 and dtypes 0x1 are not valid in version 1 */
#define CHANGE_KERNEL kernel.traits |= 128;
#include "honest.h"
