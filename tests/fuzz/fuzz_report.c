/* Reports. The first byte of the input stands for what the topic says. */
#include "tests/fuzz/fuzz_document.h"

static unsigned fuzz_topic;

/* An own main function around the common one, which gets the text alone. */
#define LLVMFuzzerTestOneInput fuzz_report_text
static int fuzz_report_text(const uint8_t *data, size_t size);
FUZZ_DOCUMENT_WITH(report, report_decode(text, len, (enum stage)(fuzz_topic % 3), (enum report_what)(fuzz_topic / 3 % 4), &d, &err))
#undef LLVMFuzzerTestOneInput

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	fuzz_topic = data[0];
	return fuzz_report_text(data + 1, size - 1);
}
