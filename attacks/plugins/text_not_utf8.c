/* Refused: the name of a device is not UTF-8 */
#define CHANGE_KERNEL device.name = (NgText)TEXT("\xff\xfe");
#include "honest.h"
