/* Requests for credentials. */
#include "tests/fuzz/fuzz_document.h"

FUZZ_DOCUMENT(credential_request)
