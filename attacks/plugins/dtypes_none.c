/* Refused: traits 0x3 and dtypes 0x0 are not bits that version 1 knows */
#define DTYPES 0
#include "honest.h"
