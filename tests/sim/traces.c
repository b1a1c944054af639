#include "tests/sim/trace.h"
const trace traces[] = {{0}};
const size_t n_traces = 0;
