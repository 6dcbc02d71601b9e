/* Refused: it uses version 7 of the interface; expected 1 */
#define API_VERSION 7
#include "honest.h"
