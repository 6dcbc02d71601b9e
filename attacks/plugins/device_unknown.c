/* Refused: device "no chip" was not registered before */
#define CHANGE_KERNEL kernel.device = (NgText)TEXT("no chip");
#include "honest.h"
