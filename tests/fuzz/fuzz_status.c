/* The status of a dataset. */
#include "tests/fuzz/fuzz_document.h"

FUZZ_DOCUMENT(dataset_status)
