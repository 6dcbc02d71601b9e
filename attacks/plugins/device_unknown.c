/* Refused: device "no chip" is not registered */
#define CHANGE_KERNEL kernel.device = (NgText)TEXT("no chip");
#include "honest.h"
