/* The document of a dataset to watch. */
#include "tests/fuzz/fuzz_document.h"

FUZZ_DOCUMENT(dataset_doc)
