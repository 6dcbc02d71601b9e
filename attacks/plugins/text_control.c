/* Refused: the name of a device contains control characters */
#define CHANGE_KERNEL device.name = (NgText)TEXT("a\nfault b");
#include "honest.h"
