/* Refused: the name of a device has control characters */
#define CHANGE_KERNEL device.name = (NgText)TEXT("a\nfault b");
#include "honest.h"
