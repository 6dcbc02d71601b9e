/* Refused: it cannot be loaded:  */
int nowhere_to_be_found(void);
int ng_plugin_v1(void) { return nowhere_to_be_found(); }
