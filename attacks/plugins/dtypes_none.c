/* Refused: traits 0x3 and dtypes 0x0 are not valid in version 1 */
#define DTYPES 0
#include "honest.h"
