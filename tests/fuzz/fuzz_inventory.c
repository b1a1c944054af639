/* The inventory. */
#include "tests/fuzz/fuzz_document.h"

FUZZ_DOCUMENT(inventory)
