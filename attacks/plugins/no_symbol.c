/* Refused: it does not export ng_plugin_v1 */
int neargraph_plugin(void) { return 0; }
