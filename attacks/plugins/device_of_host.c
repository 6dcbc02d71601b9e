/* Refused: "cpu-scalar" is a device of the host; choose another name */
#define CHANGE_KERNEL device.name = (NgText)TEXT("cpu-scalar");
#include "honest.h"
