/* Births and wills. */
#include "tests/fuzz/fuzz_document.h"

FUZZ_DOCUMENT(presence)
