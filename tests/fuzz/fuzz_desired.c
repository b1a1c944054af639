/* The desired document, with triggers. */
#include "tests/fuzz/fuzz_document.h"

FUZZ_DOCUMENT(desired)
