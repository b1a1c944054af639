/* Inference statistics. */
#include "tests/fuzz/fuzz_document.h"

FUZZ_DOCUMENT(infer_stats)
