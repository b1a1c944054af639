/* See outcome.h. */
#include "transfer/outcome.h"

#include "common/error.h"
#include "transfer/core/http_reply.h"

int outcome_status(int code)
{
	switch (code) {
#define X(id, status, word, text)                                                                                                          \
	case id:                                                                                                                               \
		return status;
		OUTCOME_MAP(X)
#undef X
	case ERROR_TIMEOUT:
		return outcome_status(ERROR_OFFLINE);
	default:
		return outcome_status(ERROR_INTERNAL);
	}
}

const char *outcome_word(int code)
{
	switch (code) {
#define X(id, status, word, text)                                                                                                          \
	case id:                                                                                                                               \
		return word;
		OUTCOME_MAP(X)
#undef X
	case ERROR_TIMEOUT:
		return outcome_word(ERROR_OFFLINE);
	default:
		return outcome_word(ERROR_INTERNAL);
	}
}
