/* Refused: traits 0x83 and dtypes 0x1 are not bits that version 1 knows */
#define CHANGE_KERNEL kernel.traits |= 128;
#include "honest.h"
