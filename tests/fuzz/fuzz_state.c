/* The state of a job. */
#include "tests/fuzz/fuzz_document.h"

FUZZ_DOCUMENT(job_state)
