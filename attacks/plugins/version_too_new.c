/* Refused: ng_plugin_v1 returned 1: needs version 99 of the interface */
#include "ng_plugin.h"

#include <string.h>

int32_t ng_plugin_v1(const NgHost *host, NgPlugin *plugin) {
    (void)plugin;
    if (host->get_api(99) != NULL) return NG_OK;
    const char text[] = "needs version 99 of the interface";
    memcpy(host->error->data, text, sizeof text - 1);
    host->error->len = sizeof text - 1;
    return NG_FAILED;
}
