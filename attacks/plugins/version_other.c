/* Refused: it is for version 7 of the interface, not 1 */
#define API_VERSION 7
#include "honest.h"
